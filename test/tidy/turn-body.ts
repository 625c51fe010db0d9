/**
 * Holds the bodies of turns thin. A body is `drive-*.ts` or `step-*.ts`: it reads what rows say, branches, and calls steps
 * (files of its room or services of rooms below, each with its own transaction) and pure decisions. Whatever reaches the
 * world, the database's statements included, stands in a step; whatever decides stands in a file that awaits nothing.
 */
import { posix } from 'node:path'
import { findImports } from '../../scripts/source/imports.ts'
import { type Token, tokenize } from '../../scripts/source/tokens.ts'
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

const body = /^src\/domains\/(?:.*\/)?(?:drive|step)-[^/]+\.ts$/
/** Where a kill test may stop it, and the name of a broken rule: neither reads nor writes. */
const fromStore = new Set(['failpoint', 'constraintOf'])
const decision = /^(?:decide|next|plan|judge)[A-Z]|^(?:nextStep|replanInto)$/

/** Words as they follow on each other, with where they belong instead. */
const forbidden: readonly [words: string, instead: string][] = [
  ['db .', 'the database is handed to a step'],
  ['tx .', 'the transaction is handed to a step'],
  ['sql .', 'the connection is handed to a step'],
  ['statement (', 'statements stand under sql/'],
  ['runtime .', 'the runtime is handed to a step'],
  ['. sleep (', 'a turn ends with the time until which it waits'],
  ['. deliver (', 'a notice is sent by a step'],
  ['. call (', 'a connector is called by a step'],
  ['. resolveSecret', 'secrets are looked up by a step'],
  ['fetch (', 'others are called by a step'],
  ['Promise . race', 'the order of answers is chance'],
  ['Promise . any', 'the order of answers is chance'],
  ['Promise . all', 'one step follows another'],
  ['Date . now', 'time comes from the world it is given'],
  ['new Date ( )', 'time comes from the world it is given'],
  ['Math . random', 'chance comes from the world it is given'],
  ['randomUUID', 'ids come from the world it is given'],
  ['setTimeout', 'a turn ends with the time until which it waits'],
  ['process .', 'settings are arguments'],
  ['Object . keys', 'rows come in an order, keys in none'],
  ['Object . values', 'rows come in an order, keys in none'],
  ['Object . entries', 'rows come in an order, keys in none'],
  ['new Set', 'rows come in an order, sets by accident'],
]

export function turnBodies(tree: Tree): readonly [path: string, text: string][] {
  return sources(tree, 'src/domains').filter(([path]) => body.test(path) && !isTest(path))
}

export function checkTurnBodies(tree: Tree): Finding[] {
  const hidden = sources(tree, 'src/domains')
    .filter(([path]) => !isTest(path) && !body.test(path))
    .filter(([, text]) => /^import [^\n]*\bDrive\b[^\n]*'#runtime'/m.test(text))
    .map(([path]) => ({
      path,
      problem: 'gives the runtime a drive: it is named drive-….ts, so that a reader finds it',
    }))
  return [
    ...hidden,
    ...turnBodies(tree).flatMap(([path, text]) => [...checkImports(path, text), ...checkWords(path, text)]),
  ]
}

function checkImports(path: string, text: string): Finding[] {
  const modules = findImports(text)
    .filter(({ kind }) => kind !== 'type')
    .filter(({ specifier }) => !/^(#kernel|#runtime$|#store$|#domains\/|\.\/(?!sql\/))/.test(specifier))
    .map(({ specifier, start }) => ({ at: start, problem: `imports ${specifier}: only a step may` }))
  const names = importedNames(text)
    .filter(({ from, name }) => from === '#store' && !fromStore.has(name))
    .map(({ name, at }) => ({ at, problem: `takes ${name} from the store: only a step may` }))
  return [...modules, ...names].map(({ at, problem }) => ({ path, line: lineAt(text, at), problem }))
}

function checkWords(path: string, text: string): Finding[] {
  const tokens = tokenize(text)
  return tokens.flatMap(({ start }, index) => {
    const rule = forbidden.find(([words]) => follows(tokens, index, words.split(' ')))
    return rule ? [{ path, line: lineAt(text, start), problem: `${rule[0].replaceAll(' ', '')}: ${rule[1]}` }] : []
  })
}

function follows(tokens: readonly Token[], index: number, words: readonly string[]): boolean {
  return words.every((word, offset) => {
    const token = tokens[index + offset]
    return token !== undefined && (token.kind === 'word' || token.kind === 'mark') && token.text === word
  })
}

type Imported = { readonly name: string; readonly from: string; readonly at: number }

/** Values alone: `{ type A, b as c }` gives `b`. */
function importedNames(text: string): Imported[] {
  return [...text.matchAll(/^import \{([^}]*)\} from '([^']+)'/gm)].flatMap(({ 1: list = '', 2: from = '', index }) =>
    list
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== '' && !each.startsWith('type '))
      .map((each) => ({ name: each.split(' ')[0] ?? each, from, at: index })),
  )
}

/** What a body imports under the name of a decision comes from the kernel or from a file that awaits nothing, all the way down. */
export function checkDecisions(tree: Tree): Finding[] {
  return turnBodies(tree).flatMap(([path, text]) =>
    importedNames(text)
      .filter(({ name, from }) => decision.test(name) && from.startsWith('.'))
      .flatMap(({ name, from, at }) => {
        const impure = findImpure(tree, posix.join(posix.dirname(path), from), new Set())
        return impure === undefined
          ? []
          : [{ path, line: lineAt(text, at), problem: `${name} is no pure decision: ${impure}` }]
      }),
  )
}

function findImpure(tree: Tree, path: string, seen: Set<string>): string | undefined {
  if (seen.has(path)) return undefined
  seen.add(path)
  const text = tree.get(path)
  if (text === undefined) return `${path} does not exist`
  const awaiting = tokenize(text).find(({ kind, text: word }) => kind === 'word' && /^(async|await)$/.test(word))
  if (awaiting) return `${path}:${lineAt(text, awaiting.start)} says ${awaiting.text}`
  for (const { specifier, kind } of findImports(text)) {
    if (kind === 'type' || specifier.startsWith('#kernel') || /^(zod|node:crypto)$/.test(specifier)) continue
    if (!specifier.startsWith('.')) {
      if (importedNames(text).some(({ from }) => from === specifier)) return `${path} imports ${specifier}`
      continue
    }
    if (!importedNames(text).some(({ from }) => from === specifier)) continue
    const impure = findImpure(tree, posix.join(posix.dirname(path), specifier), seen)
    if (impure !== undefined) return impure
  }
  return undefined
}
