/** Collects every event name: those that machines emit, and the lists in the `events.ts` of rooms. */
import type { Token } from '../../scripts/source/tokens.ts'
import { tokenize } from '../../scripts/source/tokens.ts'
import type { Tree } from './tree.ts'

type Emitting = {
  readonly name: string
  readonly creation?: { readonly emits: readonly string[] }
  readonly moves: readonly { readonly emits: readonly string[] }[]
}

export type EventNames = Readonly<Record<string, readonly string[]>>

/** Per machine (`machine:command`) and per room (`room:identity`), sorted. */
export function gatherEventNames(tree: Tree, machines: readonly Emitting[]): EventNames {
  const names = new Map<string, string[]>()
  for (const { name, creation, moves } of machines) {
    names.set(`machine:${name}`, unique([...(creation?.emits ?? []), ...moves.flatMap(({ emits }) => emits)]))
  }
  for (const [path, text] of tree) {
    const room = /^src\/domains\/([^/]+)\/(?:.*-)?events\.ts$/.exec(path)?.[1]
    if (room === undefined) continue
    names.set(`room:${room}`, unique([...(names.get(`room:${room}`) ?? []), ...declaredIn(text)]))
  }
  return Object.fromEntries([...names].filter(([, list]) => list.length > 0).toSorted(([a], [b]) => (a < b ? -1 : 1)))
}

/** `const fooEventTypes = ['a', 'b']` and `const fooEventTypes = { a: …, b: … }`. */
export function declaredIn(source: string): string[] {
  const tokens = tokenize(source)
  return tokens.flatMap((token, index) => {
    if (token.kind !== 'word' || !/eventTypes$/i.test(token.text) || tokens[index - 1]?.text !== 'const') return []
    const open = tokens.findIndex(
      (each, at) => at > index && (each.text === '[' || each.text === '{') && each.kind === 'mark',
    )
    const opened = tokens[open]
    return opened ? entries(tokens, open, opened.text === '[') : []
  })
}

function entries(tokens: readonly Token[], open: number, isList: boolean): string[] {
  const found: string[] = []
  let depth = 0
  for (let at = open; at < tokens.length; at++) {
    const token = tokens[at]
    if (!token) break
    if (token.kind === 'mark' && '[{('.includes(token.text)) depth++
    if (token.kind === 'mark' && ']})'.includes(token.text)) depth--
    if (depth === 0) break
    const isKey = tokens[at + 1]?.text === ':' && (token.kind === 'word' || token.kind === 'string')
    if (depth === 1 && (isList ? token.kind === 'string' : isKey)) found.push(token.text)
  }
  return found
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)].toSorted()
}
