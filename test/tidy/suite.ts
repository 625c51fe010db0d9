/** What the suites must contain: for each area the rows that its tests cite, and which kind of file these tests stand in. */
import { idsInTitle } from '../../scripts/requirements/titles.ts'
import type { Finding } from './finding.ts'
import { isTest, type Tree } from './tree.ts'

export type Area = {
  readonly name: string
  readonly rows: readonly string[]
  readonly kind: 'unit' | 'database'
  /** What the title says beside its rows, where a row is wider than the area. */
  readonly says?: RegExp
}

/** Without a database, and on a real one. A `.case.ts` is run by tests of both kinds or says so by its neighbours. */
export const areas: readonly Area[] = [
  { name: 'state transitions', kind: 'unit', rows: ['ST-14', 'SUP-13'] },
  { name: 'primitive mapping', kind: 'unit', rows: ['PRM-16', 'PRM-17'] },
  { name: 'policy decisions', kind: 'unit', rows: ['POL-01', 'POL-07'] },
  { name: 'planner outputs', kind: 'unit', rows: ['PLN-01', 'PLN-11'] },
  { name: 'idempotency', kind: 'unit', rows: ['CMD-06', 'CMD-21'] },
  { name: 'Postgres persistence', kind: 'database', rows: ['PRM-08', 'PER-02', 'PER-03'] },
  { name: 'queue use through the adapter', kind: 'database', rows: ['PLN-12', 'PLN-13'] },
  { name: 'retry', kind: 'database', rows: ['ERR-04', 'TST-06'] },
  { name: 'approval resume', kind: 'database', rows: ['APR-10'] },
  { name: 'connector call recording', kind: 'database', rows: ['CON-07', 'CON-08'] },
]

/** Whole ways through the path, on a real database. */
export const workflows: readonly Area[] = [
  { name: 'report end to end', kind: 'database', rows: ['EXM-02'] },
  { name: 'approval-gated publish', kind: 'database', rows: ['EXM-03'], says: /publish/ },
  { name: 'webhook deduplication', kind: 'database', rows: ['API-06'], says: /once/ },
  { name: 'agent tool proposal with approval', kind: 'database', rows: ['API-04'], says: /agrees, and it is done/ },
]

/** What must be stopped. */
export const safety: readonly Area[] = [
  { name: 'policy denial', kind: 'database', rows: ['POL-03'], says: /policy_denied/ },
  { name: 'external sharing approval', kind: 'database', rows: ['POL-07'], says: /require_approval/ },
  { name: 'memory consent', kind: 'database', rows: ['MEM-04'], says: /without consent/ },
  { name: 'forbidden tools', kind: 'database', rows: ['SEC-01'], says: /tool allowlist/ },
  { name: 'duplicate webhook', kind: 'database', rows: ['API-06'], says: /once/ },
]

/** A unit test is a `.test.ts` that is neither on Postgres nor a journey; a case belongs to the tests that import it. */
function kindsOf(tree: Tree, path: string, seen: ReadonlySet<string> = new Set()): ReadonlySet<string> {
  // The example programs run on a Postgres of their own.
  if (/\.pg\.test\.ts$|\.journey\.test\.ts$|^examples\/examples\.test\.ts$/.test(path)) return new Set(['database'])
  if (path.endsWith('.test.ts')) return new Set(['unit'])
  if (seen.has(path)) return new Set()
  // Imported by path (`./a.case.ts`) or by name (`#test/a.case`).
  const name = path.slice(path.lastIndexOf('/') + 1, -'.ts'.length)
  const users = [...tree].filter(
    ([other, text]) => isTest(other) && other !== path && (text.includes(`/${name}.ts'`) || text.includes(`/${name}'`)),
  )
  return new Set(users.flatMap(([other]) => [...kindsOf(tree, other, new Set([...seen, path]))]))
}

/** A title begins with its rows, wherever it is written. */
function cites(text: string, row: string, says = /^/): boolean {
  return [...text.matchAll(/['"`](\s*(?:\[[A-Z]{2,4}-\d{2,4}\]\s*)+[^'"`\n]*)/g)].some(
    ([, title = '']) => idsInTitle(title).includes(row) && says.test(title),
  )
}

export function checkAreas(tree: Tree, wanted: readonly Area[] = areas): Finding[] {
  const tests = [...tree].filter(([path]) => isTest(path) && !path.startsWith('test/tidy/'))
  return wanted.flatMap(({ name, kind, rows, says }) =>
    rows
      .filter((row) => !tests.some(([path, text]) => cites(text, row, says) && kindsOf(tree, path).has(kind)))
      .map((row) => ({ path: 'test', problem: `${name}: no ${kind} test cites ${row}` })),
  )
}

type OpenApi = { readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>> }

/** What others can ask for over HTTP is asked for by some test, under its own path. */
export function checkPaths(tree: Tree): Finding[] {
  const { paths } = JSON.parse(tree.get('openapi.json') ?? '{"paths":{}}') as OpenApi
  const texts = [...tree].filter(([path]) => isTest(path) || path.startsWith('test/support/')).map(([, text]) => text)
  return Object.keys(paths)
    .filter((path) => !texts.some((text) => isAsked(text, path)))
    .map((path) => ({ path: 'openapi.json', problem: `offers ${path}, which no test asks for` }))
}

/** A test writes `/commands/${id}/cancel` at once or in two parts; one that speaks to the scheduler alone leaves its name out. */
function isAsked(text: string, path: string): boolean {
  const short = text.includes('scheduler') ? path.replace(/^\/scheduler(?=\/)/, '') : path
  const [head = '', ...others] = short.split(/\{[^}]+\}/)
  const tail = others.at(-1) ?? head
  if (!text.includes(head)) return false
  return tail === '' || ["'", '`', '?', '"', '${'].some((end) => text.includes(`${tail}${end}`))
}

/** A room that no test enters is found, and one that keeps rows and is entered by none on Postgres. */
export function checkRooms(tree: Tree): Finding[] {
  const names = new Set([...tree.keys()].flatMap((path) => /^src\/domains\/([^/]+)\//.exec(path)?.[1] ?? []))
  return [...names].flatMap((name) => {
    const inside = `src/domains/${name}/`
    const tests = [...tree].filter(
      ([path, text]) => isTest(path) && (path.startsWith(inside) || text.includes(`'#domains/${name}'`)),
    )
    const keepsRows = [...tree].some(
      ([path, text]) => path.startsWith(inside) && !isTest(path) && text.includes(`'#store'`),
    )
    return [
      ...(tests.some(([path]) => path.startsWith(inside)) ? [] : ['no test of its own']),
      ...(!keepsRows || tests.some(([path]) => path.endsWith('.pg.test.ts')) ? [] : ['no test on Postgres']),
    ].map((problem) => ({ path: `src/domains/${name}`, problem: `has ${problem}` }))
  })
}
