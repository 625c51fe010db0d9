/**
 * Finds every reference of a TypeScript file to another module: import, import type, re-export, import(), require(), declare
 * module.
 */
import { type Token, tokenize } from './tokens.ts'

export type Import = {
  readonly specifier: string
  readonly kind: 'import' | 'type' | 'export' | 'dynamic' | 'require'
  /** The position of the specifier between its quotes. */
  readonly start: number
  readonly end: number
}

/** Marks `import(name)`, whose target is unknown. */
export const computed = '(computed)'

export function findImports(source: string): Import[] {
  const tokens = tokenize(source)
  return tokens.flatMap((token, index): Import[] => {
    if (token.kind !== 'word' || isMark(tokens[index - 1], '.')) return []
    if (token.text === 'import') return importAt(tokens, index)
    if (token.text === 'export') return exportAt(tokens, index)
    if (token.text === 'declare' && isWord(tokens[index + 1], 'module')) return augmentationAt(tokens, index)
    if (token.text === 'require' && isMark(tokens[index + 1], '(')) return callAt(tokens, index, 'require')
    return []
  })
}

function importAt(tokens: readonly Token[], index: number): Import[] {
  const next = tokens[index + 1]
  if (next?.kind === 'string') return [asImport(next, 'import')]
  if (isMark(next, '(')) return callAt(tokens, index, 'dynamic')
  // `import.meta`, and `import` as the name of a property.
  if (next?.kind === 'mark' && '.:,}=?;'.includes(next.text)) return []
  return fromAfter(tokens, index + 1, isWord(next, 'type') && !isWord(tokens[index + 2], 'from') ? 'type' : 'import')
}

/** `declare module '#kernel/refusal'` adds to the types of that module. */
function augmentationAt(tokens: readonly Token[], index: number): Import[] {
  const name = tokens[index + 2]
  return name?.kind === 'string' ? [asImport(name, 'type')] : []
}

function exportAt(tokens: readonly Token[], index: number): Import[] {
  const isType = isWord(tokens[index + 1], 'type')
  const open = index + (isType ? 2 : 1)
  if (isMark(tokens[open], '*')) return fromAfter(tokens, open, isType ? 'type' : 'export')
  if (!isMark(tokens[open], '{')) return []
  const close = tokens.findIndex((token, at) => at > open && isMark(token, '}'))
  return isWord(tokens[close + 1], 'from') ? fromAfter(tokens, close, isType ? 'type' : 'export') : []
}

/** The string after the next `from`, unless another statement begins before it. */
function fromAfter(tokens: readonly Token[], start: number, kind: Import['kind']): Import[] {
  for (let at = start; at < tokens.length; at++) {
    const token = tokens[at]
    const next = tokens[at + 1]
    if (isWord(token, 'from') && next?.kind === 'string') return [asImport(next, kind)]
    if (isMark(token, ';') || (at > start && (isWord(token, 'import') || isWord(token, 'export')))) return []
  }
  return []
}

function callAt(tokens: readonly Token[], index: number, kind: 'dynamic' | 'require'): Import[] {
  const argument = tokens[index + 2]
  if (argument?.kind === 'string') return [asImport(argument, kind)]
  return argument ? [{ specifier: computed, kind, start: argument.start, end: argument.start }] : []
}

function asImport(token: Token, kind: Import['kind']): Import {
  return { specifier: token.text, kind, start: token.start + 1, end: token.end - 1 }
}

function isWord(token: Token | undefined, text: string): boolean {
  return token?.kind === 'word' && token.text === text
}

function isMark(token: Token | undefined, text: string): boolean {
  return token?.kind === 'mark' && token.text === text
}
