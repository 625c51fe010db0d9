/** Reads the names that a TypeScript file exports, re-exports and imports. */
import { type Token, tokenize } from './tokens.ts'

type Definition = { readonly name: string; readonly isType: boolean; readonly start: number }
/** A name that a file imports or re-exports. `*` means every name. */
type Taken = {
  readonly specifier: string
  /** The name in the other file. */
  readonly name: string
  readonly isType: boolean
  /** The name in this file, for a re-export. */
  readonly as?: string
}
export type Names = {
  readonly defines: readonly Definition[]
  readonly takes: readonly Taken[]
  readonly passesOn: readonly Taken[]
}

const typeWords = new Set(['type', 'interface'])
const valueWords = new Set(['function', 'const', 'let', 'class', 'enum'])
const skipped = new Set(['async', 'declare', 'abstract', 'default'])

export function readNames(source: string): Names {
  const tokens = tokenize(source)
  const defines: Definition[] = []
  const takes: Taken[] = []
  const passesOn: Taken[] = []
  tokens.forEach((token, at) => {
    if (token.kind !== 'word' || isMark(tokens[at - 1], '.')) return
    if (token.text === 'import') takes.push(...importAt(tokens, at))
    else if (token.text === 'export') {
      const listed = exportListAt(tokens, at)
      if (listed === undefined) defines.push(...definitionAt(tokens, at))
      else if (listed.specifier !== undefined)
        passesOn.push(...listed.names.map((name) => ({ ...name, specifier: listed.specifier ?? '' })))
      else defines.push(...listed.names.map(({ as = '', isType }) => ({ name: as, isType, start: token.start })))
    }
  })
  return { defines, takes, passesOn }
}

function definitionAt(tokens: readonly Token[], at: number): Definition[] {
  let next = at + 1
  while (skipped.has(tokens[next]?.text ?? '')) next++
  const word = tokens[next]?.text ?? ''
  if (!typeWords.has(word) && !valueWords.has(word)) return []
  if (isMark(tokens[next + 1], '*')) next++
  const name = tokens[next + 1]
  if (name?.kind === 'word') return [{ name: name.text, isType: typeWords.has(word), start: name.start }]
  // `export const { a, b: c } = …` and `export const [a, b] = …`
  const found: Definition[] = []
  for (const [index, token] of tokens.slice(next + 2).entries()) {
    if (/^[}\]]$/.test(token.text)) break
    const isRenamed = isMark(tokens[next + 3 + index], ':')
    if (token.kind === 'word' && !isRenamed) found.push({ name: token.text, isType: false, start: token.start })
  }
  return found
}

type Listed = { readonly name: string; readonly as?: string; readonly isType: boolean }

/** `export { a, type B as C }`, `export * from`, `export * as a from`; undefined when it is no list. */
function exportListAt(tokens: readonly Token[], at: number): { names: Listed[]; specifier?: string } | undefined {
  const isType = isWord(tokens[at + 1], 'type')
  const open = at + (isType ? 2 : 1)
  if (isMark(tokens[open], '*')) {
    const as = isWord(tokens[open + 1], 'as') ? tokens[open + 2]?.text : undefined
    const from = tokens[open + (as === undefined ? 2 : 4)]
    return { names: [{ name: '*', isType, ...(as === undefined ? {} : { as }) }], specifier: from?.text ?? '' }
  }
  if (!isMark(tokens[open], '{')) return undefined
  const { names, close } = listAt(tokens, open, isType)
  const from = isWord(tokens[close + 1], 'from') ? tokens[close + 2] : undefined
  return { names, ...(from === undefined ? {} : { specifier: from.text }) }
}

function importAt(tokens: readonly Token[], at: number): Taken[] {
  const first = tokens[at + 1]
  if (first?.kind === 'string') return [{ specifier: first.text, name: '', isType: false }]
  if (isMark(first, '(')) {
    const specifier = tokens[at + 2]
    return specifier?.kind === 'string' ? [{ specifier: specifier.text, name: '*', isType: false }] : []
  }
  if (first?.kind === 'mark' && !'{*'.includes(first.text)) return []
  const isType = isWord(first, 'type') && !isWord(tokens[at + 2], 'from') && !isMark(tokens[at + 2], ',')
  let next = at + (isType ? 2 : 1)
  const names: Listed[] = []
  if (tokens[next]?.kind === 'word') {
    names.push({ name: 'default', isType })
    next += isMark(tokens[next + 1], ',') ? 2 : 1
  }
  if (isMark(tokens[next], '*')) {
    names.push({ name: '*', isType })
    next += 3
  } else if (isMark(tokens[next], '{')) {
    const list = listAt(tokens, next, isType)
    names.push(...list.names)
    next = list.close + 1
  }
  const from = isWord(tokens[next], 'from') ? tokens[next + 1] : undefined
  return from?.kind === 'string' ? names.map(({ name, isType }) => ({ specifier: from.text, name, isType })) : []
}

function listAt(tokens: readonly Token[], open: number, areTypes: boolean): { names: Listed[]; close: number } {
  const names: Listed[] = []
  let at = open + 1
  while (tokens[at] && !isMark(tokens[at], '}')) {
    const isType = isWord(tokens[at], 'type') && tokens[at + 1]?.kind === 'word' && !isWord(tokens[at + 1], 'as')
    if (isType) at++
    const name = tokens[at]?.text ?? ''
    const as = isWord(tokens[at + 1], 'as') ? tokens[at + 2]?.text : undefined
    names.push({ name, as: as ?? name, isType: areTypes || isType })
    at += as === undefined ? 1 : 3
    if (isMark(tokens[at], ',')) at++
  }
  return { names, close: at }
}

function isWord(token: Token | undefined, text: string): boolean {
  return token?.kind === 'word' && token.text === text
}

function isMark(token: Token | undefined, text: string): boolean {
  return token?.kind === 'mark' && token.text === text
}
