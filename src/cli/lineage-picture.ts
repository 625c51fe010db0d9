/** A lineage for people: as lines of text, as a Mermaid graph, and as an SVG that needs nothing else. Pure. */
import { showLine } from '#kernel/visible-text'
import { type Lineage, layerNodes, type LineageNode } from './lineage-layout.ts'

function stateOf({ status, version }: LineageNode): string {
  return status === null ? '' : ` (${showLine(status)}, version ${version ?? 1})`
}

/** The artifact, what it was made from above it, what was made from it below; each thing once. */
export function drawText({ root, nodes, edges, is_complete }: Lineage): string {
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

export function drawMermaid({ root, nodes, edges }: Lineage): string {
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
    `  style ${names.get(root) ?? 'n0'} stroke-width:3px`,
  ]
  return `${lines.join('\n')}\n`
}

const BOX = { width: 250, height: 50, gapX: 80, gapY: 22, margin: 20 } as const
const LABEL_CHARS_MAX = 32

export function drawSvg(lineage: Lineage): string {
  const columns = layerNodes(lineage)
  const rows = Math.max(1, ...columns.map((column) => column.length))
  const stepX = BOX.width + BOX.gapX
  const stepY = BOX.height + BOX.gapY
  const width = 2 * BOX.margin + Math.max(1, columns.length) * stepX - BOX.gapX
  const height = 2 * BOX.margin + rows * stepY - BOX.gapY
  const places = new Map<string, { readonly x: number; readonly y: number }>()
  for (const [column, nodes] of columns.entries())
    for (const [row, { id }] of nodes.entries()) {
      // Shorter columns stand in the middle.
      const top = BOX.margin + ((rows - nodes.length) * stepY) / 2
      places.set(id, { x: BOX.margin + column * stepX, y: top + row * stepY })
    }
  const lines = lineage.edges.flatMap(({ from, to, how }) => {
    const [a, b] = [places.get(from), places.get(to)]
    if (!a || !b) return []
    const start = { x: a.x + BOX.width, y: a.y + BOX.height / 2 }
    const end = { x: b.x - 6, y: b.y + BOX.height / 2 }
    const bend = BOX.gapX / 2
    const dashes = how === 'version' ? ' stroke-dasharray="5 4"' : ''
    return `<path d="M${start.x} ${start.y} C${start.x + bend} ${start.y} ${end.x - bend} ${end.y} ${end.x} ${end.y}" marker-end="url(#tip)"${dashes}/>`
  })
  const boxes = lineage.nodes.flatMap((node) => {
    const place = places.get(node.id)
    return place ? boxOf(node, place, node.id === lineage.root) : []
  })
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="13">`,
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b7db1"/></marker></defs>',
    `<rect width="${width}" height="${height}" fill="#fff"/>`,
    `<g fill="none" stroke="#5b7db1">${lines.join('')}</g>`,
    ...boxes,
    '</svg>',
    '',
  ].join('\n')
}

const fills: Readonly<Record<string, string>> = { artifact: '#e8eef7', command: '#dff3e4', effect: '#dff3e4' }

function boxOf(node: LineageNode, { x, y }: { readonly x: number; readonly y: number }, isRoot: boolean): string {
  const label = showLine(node.label)
  const short = label.length > LABEL_CHARS_MAX ? `${label.slice(0, LABEL_CHARS_MAX - 1)}…` : label
  const fill = fills[node.kind] ?? '#fff3d6'
  return [
    `<g><title>${xml(`${label}${stateOf(node)}`)}</title>`,
    `<rect x="${x}" y="${y}" width="${BOX.width}" height="${BOX.height}" rx="6" fill="${fill}" stroke="#5b7db1" stroke-width="${isRoot ? 3 : 1}"/>`,
    `<text x="${x + 10}" y="${y + 21}" fill="#1b2a41">${xml(short)}</text>`,
    `<text x="${x + 10}" y="${y + 39}" fill="#5b6b82" font-size="10">${xml(`${node.status ?? node.kind} ${node.id}`)}</text></g>`,
  ].join('')
}

function xml(text: string): string {
  return showLine(text)
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
