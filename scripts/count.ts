/**
 * Prints figures about the shape of the source, each by one rule, so that two checkouts can be compared.
 *
 *   npm run count                            this checkout
 *   npm run count -- --root ../before        another one, for example a `git worktree` of an old commit
 *   npm run count -- --list doubles          the names or files behind one figure: circles, doubles, unused, entries, small, walk, entity
 *   npm run count -- --json                  for machines
 *   node scripts/count/measure-walk.ts       the files that run for one command, measured on a server of the checkout
 *
 * Production is `src/**` without `*.test.ts`; `*.case.ts` are part of it and also counted apart.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { linesOf } from '../test/tidy/size.ts'
import { readTree, repositoryRoot } from '../test/tidy/tree.ts'
import { readFlags } from './read-flags.ts'
import { edgesOf, findCircles, findDoubles, findUsed, type Graph, readGraph } from './source/graph.ts'

const { values: options } = readFlags({
  options: {
    root: { type: 'string', default: repositoryRoot },
    list: { type: 'string' },
    json: { type: 'boolean', default: false },
  },
})
const root = resolve(options.root)
const tree = readTree(root)
const isProduction = (path: string) => /^src\/.*\.tsx?$/.test(path) && !path.includes('.test.')

const graph = readGraph(tree, isProduction)
const lists: Record<string, string[]> = {}
const figures: [name: string, value: number | string][] = []

const lines = (isIn: (path: string) => boolean) =>
  [...tree].filter(([path]) => isIn(path)).map(([, text]) => linesOf(text))
const sum = (counts: readonly number[]) => counts.reduce((total, count) => total + count, 0)
const share = (counts: readonly number[], part: number) =>
  counts.toSorted((a, b) => a - b)[Math.floor(counts.length * part)] ?? 0
const under = (folder: string) => lines((path) => path.startsWith(`${folder}/`))

const production = lines(isProduction)
const cases = lines((path) => isProduction(path) && path.endsWith('.case.ts'))
const beside = lines((path) => path.startsWith('src/') && path.endsWith('.test.ts'))
figures.push(['src without tests: files', production.length], ['src without tests: lines', sum(production)])
figures.push(['  of these *.case.ts: files', cases.length], ['  of these *.case.ts: lines', sum(cases)])
figures.push(['  lines per file: median', share(production, 0.5)], ['  lines per file: p90', share(production, 0.9)])
figures.push(['  lines per file: longest', Math.max(...production)])

const importers = new Map<string, number>()
for (const targets of edgesOf(graph, 'all').values())
  for (const target of targets) importers.set(target, (importers.get(target) ?? 0) + 1)
lists['small'] = [...graph.files.keys()].filter(
  (path) => linesOf(tree.get(path) ?? '') <= 40 && importers.get(path) === 1,
)
figures.push(['files of at most 40 lines with one importer', lists['small'].length])

countNames(graph)
countCircles(graph)

figures.push(['openapi.json: lines', linesOf(tree.get('openapi.json') ?? '')])
figures.push(['tests beside the code: lines', sum(beside)])
for (const folder of ['test', 'test/tidy', 'test/support', 'test/chaos', 'test/journeys'])
  figures.push([`${folder}: files`, under(folder).length], [`${folder}: lines`, sum(under(folder))])

/** A list of paths beside this script in that checkout, or in this one for a commit without it. */
function readList(name: string): string[] {
  const own = join(root, 'scripts/count', `${name}.txt`)
  const text = readFileSync(existsSync(own) ? own : new URL(`count/${name}-1e80db2.txt`, import.meta.url), 'utf8')
  return text.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
}

lists['walk'] = readList('command-walk')
const gone = lists['walk'].filter((path) => !tree.has(path))
figures.push(['files on the walk of one command', lists['walk'].length])
figures.push(['  their lines', sum(lists['walk'].map((path) => linesOf(tree.get(path) ?? '')))])
lists['entity'] = readList('entity-files')
figures.push(['files written or changed for one entity', lists['entity'].length])

/** An unused export is dead or local to its file. Exports of package.json count as used. */
function countNames(graph: Graph): void {
  const { exports = {} } = JSON.parse(tree.get('package.json') ?? '{}') as {
    exports?: Record<string, { 'concord-source'?: string }>
  }
  const published = Object.values(exports).flatMap((target) => target['concord-source']?.replace('./', '') ?? [])
  const outside = [...graph.files.keys()].filter((path) => published.includes(path))
  const world = new Map(graph.files)
  for (const path of outside)
    world.set(`published:${path}`, {
      defines: [],
      passesOn: [],
      takes: [{ specifier: `published:${path}`, name: '*', isType: false }],
    })
  const inWorld: Graph = {
    files: world,
    resolve: (from, specifier) =>
      specifier.startsWith('published:') ? specifier.slice('published:'.length) : graph.resolve(from, specifier),
  }
  const all = [...graph.files].flatMap(([path, { defines }]) => defines.map(({ name }) => `${path}#${name}`))
  const inSource = findUsed(graph, () => true)
  const anywhere = findUsed(inWorld, () => true)
  lists['unused'] = all.filter((each) => !anywhere.has(each))
  figures.push(['exported names', all.length])
  figures.push(['  used by no other production file', all.filter((each) => !inSource.has(each)).length])
  figures.push(['  and not published either', lists['unused'].length])

  const entries = [...graph.files].filter(([path]) => /^src\/domains\/[^/]+\/index\.ts$/.test(path))
  const named = entries.flatMap(([path, { passesOn, defines }]) =>
    [...passesOn.map(({ as = '' }) => as), ...defines.map(({ name }) => name)].map((name) => ({ path, name })),
  )
  const taken = new Set<string>()
  for (const [from, { takes, passesOn }] of graph.files)
    for (const { specifier, name } of [...takes, ...passesOn]) {
      const target = graph.resolve(from, specifier)
      if (target !== undefined) taken.add(`${target}#${name}`)
    }
  lists['entries'] = named
    .filter(({ path, name }) => !taken.has(`${path}#${name}`))
    .map(({ path, name }) => `${path}#${name}`)
  figures.push(['names exported by the rooms under src/domains', named.length])
  figures.push(['  used by no production file outside their room', lists['entries'].length])

  const doubles = findDoubles(graph)
  lists['doubles'] = doubles.map(([name, files]) => `${name}: ${files.join(', ')}`)
  figures.push(['exported names with two or more definitions', doubles.length])
}

function countCircles(graph: Graph): void {
  for (const [kind, which] of [
    ['value', 'values'],
    ['value and type', 'all'],
  ] as const) {
    const circles = findCircles(edgesOf(graph, which))
    figures.push([`import cycles (${kind})`, circles.length], [`  files in them`, circles.flat().length])
    figures.push([`  of more than 6 files`, circles.filter(({ length }) => length > 6).length])
    figures.push([`  sizes`, circles.map(({ length }) => length).join(' ') || '-'])
    if (which === 'all') lists['circles'] = circles.map((circle) => `${circle.length}: ${circle.join(' ')}`)
  }
}

if (options.list !== undefined) {
  const list = lists[options.list]
  if (!list) {
    console.error(`No list ${options.list}. Lists: ${Object.keys(lists).join(', ')}`)
    process.exit(64)
  }
  console.log(list.join('\n'))
} else if (options.json) console.log(JSON.stringify(Object.fromEntries(figures), null, 2))
else {
  const width = Math.max(...figures.map(([name]) => name.length))
  for (const [name, value] of figures)
    console.log(`${name.padEnd(width)}  ${typeof value === 'number' ? value.toLocaleString('en').padStart(8) : value}`)
}
for (const path of gone) {
  console.error(`scripts/count/command-walk.txt names ${path}, which does not exist`)
  process.exitCode = 1
}
