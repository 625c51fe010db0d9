/** What the database and the source must not have: a second queue, a second audit table, a worker of our own. */
import { tokenize } from '../../scripts/source/tokens.ts'
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

/** Written from the migrated database and compared with it by a test of the store. */
const dumpPath = 'src/store/schema.sql'

export type Picture = ReadonlyMap<string, readonly string[]>

/** Tables of a schema dump with their columns, as `schema.table`. */
export function tablesOf(dump: string): Picture {
  const tables = new Map<string, string[]>()
  for (const [, name = '', body = ''] of dump.matchAll(/^create table (\S+) \(\n([\s\S]*?)^\)/gim)) {
    tables.set(
      name,
      [...body.matchAll(/^ {2}(?!constraint\b)([a-z_0-9]+) +[a-z]/gm)].flatMap((column) => column[1] ?? []),
    )
  }
  return tables
}

/** `names` are tables or columns of the `concord` schema; a trailing `*` stands for any ending. */
export function checkAbsent(tree: Tree, names: readonly string[]): Finding[] {
  const isNamed = (found: string) =>
    names.some((name) => (name.endsWith('*') ? found.startsWith(name.slice(0, -1)) : found === name))
  return [...tablesOf(tree.get(dumpPath) ?? '')]
    .filter(([table]) => table.startsWith('concord.'))
    .flatMap(([table, columns]) => [
      ...(isNamed(table.slice('concord.'.length)) ? [`has the table ${table}`] : []),
      ...columns.filter(isNamed).map((column) => `has the column ${table}.${column}`),
    ])
    .map((problem) => ({ path: dumpPath, problem }))
}

/** Words that may not be declared or called in kernel and domains. */
export function checkUnspoken(tree: Tree, words: readonly string[]): Finding[] {
  return sources(tree, 'src/kernel', 'src/domains')
    .filter(([path]) => !isTest(path))
    .flatMap(([path, text]) =>
      tokenize(text)
        .filter(({ kind, text: word }) => kind === 'word' && words.includes(word))
        .map(({ text: word, start }) => ({
          path,
          line: lineAt(text, start),
          problem: `says ${word}, which the runtime owns`,
        })),
    )
}
