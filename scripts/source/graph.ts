/** The files of a source tree and the names between them: which file uses what, and which files form a cycle. */
import { posix } from 'node:path'
import { type Names, readNames } from './names.ts'

/** Path → text, as `test/tidy/tree.ts` reads it. */
type Texts = ReadonlyMap<string, string>

export type Graph = {
  readonly files: ReadonlyMap<string, Names>
  /** The file of a specifier, or undefined for a package. */
  resolve(from: string, specifier: string): string | undefined
}

/** Only files that `isIn` accepts are nodes. Names such as `#store` are resolved by the `imports` of the tree's package.json. */
export function readGraph(texts: Texts, isIn: (path: string) => boolean): Graph {
  const files = new Map([...texts].filter(([path]) => isIn(path)).map(([path, text]) => [path, readNames(text)]))
  const importMap = importMapOf(texts.get('package.json') ?? '{}')
  return { files, resolve: (from, specifier) => resolveIn(files, importMap, from, specifier) }
}

function importMapOf(manifest: string): [pattern: string, target: string][] {
  const { imports = {} } = JSON.parse(manifest) as { imports?: Record<string, string> }
  return Object.entries(imports)
}

function resolveIn(
  files: ReadonlyMap<string, Names>,
  importMap: [string, string][],
  from: string,
  specifier: string,
): string | undefined {
  if (specifier.startsWith('.')) return known(posix.join(posix.dirname(from), specifier))
  for (const [pattern, target] of importMap) {
    const [head = '', tail] = pattern.split('*')
    if (tail === undefined ? specifier === pattern : specifier.startsWith(head) && specifier.endsWith(tail)) {
      const middle = specifier.slice(head.length, specifier.length - (tail?.length ?? 0))
      const found = known(posix.normalize(target.replace('*', middle)))
      if (found !== undefined) return found
    }
  }
  return undefined

  function known(path: string): string | undefined {
    return files.has(path) ? path : undefined
  }
}

/** Every edge between two files; type-only edges vanish before the program runs. */
export function edgesOf(graph: Graph, which: 'values' | 'all'): Map<string, Set<string>> {
  return new Map(
    [...graph.files].map(([path, { takes, passesOn }]) => {
      const targets = [...takes, ...passesOn]
        .filter(({ isType }) => which === 'all' || !isType)
        .flatMap(({ specifier }) => graph.resolve(path, specifier) ?? [])
      return [path, new Set(targets.filter((target) => target !== path))]
    }),
  )
}

/** The groups of files that reach one another (Tarjan), largest first. */
export function findCircles(edges: ReadonlyMap<string, ReadonlySet<string>>): string[][] {
  const index = new Map<string, number>()
  const low = new Map<string, number>()
  const stack: string[] = []
  const open = new Set<string>()
  const circles: string[][] = []
  const visit = (path: string): number => {
    const own = index.size
    index.set(path, own)
    stack.push(path)
    open.add(path)
    let lowest = own
    for (const target of edges.get(path) ?? []) {
      if (!index.has(target)) lowest = Math.min(lowest, visit(target))
      else if (open.has(target)) lowest = Math.min(lowest, low.get(target) ?? index.get(target) ?? lowest)
    }
    low.set(path, lowest)
    if (lowest === own) {
      const circle = stack.splice(stack.indexOf(path))
      for (const each of circle) open.delete(each)
      if (circle.length > 1) circles.push(circle.toSorted())
    }
    return lowest
  }
  for (const path of edges.keys()) if (!index.has(path)) visit(path)
  return circles.toSorted((a, b) => b.length - a.length)
}

/** Names with more than one definition, and the files that define them. */
export function findDoubles(graph: Graph): [name: string, files: string[]][] {
  const places = new Map<string, Set<string>>()
  for (const [path, { defines }] of graph.files)
    for (const { name } of defines) places.set(name, (places.get(name) ?? new Set()).add(path))
  return [...places].filter(([, files]) => files.size > 1).map(([name, files]) => [name, [...files].toSorted()])
}

/** `file#name` of every definition that another file uses, through any number of barrels. */
export function findUsed(graph: Graph, users: (path: string) => boolean): Set<string> {
  const used = new Set<string>()
  const use = (path: string, name: string): void => {
    const names = graph.files.get(path)
    if (!names || used.has(`${path}#${name}`)) return
    used.add(`${path}#${name}`)
    if (name === '*') for (const each of names.defines) used.add(`${path}#${each.name}`)
    for (const passed of names.passesOn) {
      const target = graph.resolve(path, passed.specifier)
      if (target === undefined) continue
      if (passed.name === '*') use(target, passed.as === undefined ? name : '*')
      else if (name === '*' || passed.as === name) use(target, passed.name)
    }
  }
  for (const [path, { takes }] of graph.files) {
    if (!users(path)) continue
    for (const { specifier, name } of takes) {
      const target = graph.resolve(path, specifier)
      if (target !== undefined && target !== path) use(target, name)
    }
  }
  return used
}
