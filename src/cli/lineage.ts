/** Draws a lineage as lines of text or as a Mermaid graph. Pure. */
import type { lineageView } from '#domains/artifacts'
import { showLine } from '#kernel/visible-text'
import type { ViewOf } from './noun.ts'

export type LineageView = ViewOf<typeof lineageView>

/** What can be drawn: an artifact has versions, a task has none. */
export type DrawnGraph = {
  readonly root?: string
  readonly nodes: readonly {
    readonly id: string
    readonly label: string
    readonly status: string | null
    readonly version?: number | null
  }[]
  readonly edges: readonly { readonly from: string; readonly to: string; readonly how: string }[]
}

function stateOf({ status, version }: DrawnGraph['nodes'][number]): string {
  if (status === null) return ''
  return version === undefined ? ` (${showLine(status)})` : ` (${showLine(status)}, version ${version ?? 1})`
}

/** Lists the sources above the artifact and the products below it; each item once. */
export function drawText({ root, nodes, edges, is_complete }: LineageView): string {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const lines: string[] = []
  const seen = new Set<string>()
  const say = (id: string, indent: number) => {
    const node = byId.get(id)
    const label = node ? `${showLine(node.label)}${stateOf(node)}` : 'unknown'
    lines.push(`${'  '.repeat(indent)}${label}  ${showLine(id)}`)
  }
  const walk = (id: string, indent: number, next: (id: string) => readonly string[]) => {
    for (const other of next(id)) {
      say(other, indent)
      if (seen.has(other)) continue
      seen.add(other)
      walk(other, indent + 1, next)
    }
  }
  const up = (id: string) => edges.filter(({ to }) => to === id).map(({ from }) => from)
  const down = (id: string) => edges.filter(({ from }) => from === id).map(({ to }) => to)
  say(root, 0)
  for (const [title, next] of [
    ['made from', up],
    ['used for', down],
  ] as const) {
    if (next(root).length === 0) continue
    lines.push(`  ${title}`)
    seen.clear()
    seen.add(root)
    walk(root, 2, next)
  }
  if (!is_complete) lines.push('  … there is more than is shown')
  return `${lines.join('\n')}\n`
}

export function drawMermaid({ root, nodes, edges }: DrawnGraph): string {
  const names = new Map(nodes.map(({ id }, index) => [id, `n${index}`]))
  // Quotes end a label and # begins an entity there.
  const safe = (text: string) => showLine(text).replaceAll('#', '#35;').replaceAll('"', '#quot;')
  const lines = [
    'graph LR',
    ...nodes.map((node) => `  ${names.get(node.id)}["${safe(node.label)}${safe(stateOf(node))}<br/>${safe(node.id)}"]`),
    ...edges.flatMap(({ from, to, how }) => {
      const [a, b] = [names.get(from), names.get(to)]
      return a && b ? [`  ${a} ${how === 'version' ? '-. next version .->' : '-->'} ${b}`] : []
    }),
    ...(root === undefined ? [] : [`  style ${names.get(root) ?? 'n0'} stroke-width:3px`]),
  ]
  return `${lines.join('\n')}\n`
}
