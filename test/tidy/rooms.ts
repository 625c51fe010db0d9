/** Checks the source tree against the room table: imports between rooms, relative paths inside a room, and packages. */
import { posix } from 'node:path'
import { type Finding, lineAt } from './finding.ts'
import { computed, findImports } from '../../scripts/source/imports.ts'
import { computedImports, type Room } from './room-table.ts'
import { isTest, sources, type Tree } from './tree.ts'

/** The packages that a test may use in addition to those of its room. */
const testPackages = ['node:*', 'fast-check', 'croner']

export function checkRooms(tree: Tree, rooms: readonly Room[]): Finding[] {
  const inside = sources(tree, 'src').flatMap(([path, text]) => {
    const room = roomOf(path.slice('src/'.length), rooms)
    return findImports(text).flatMap(({ specifier, kind, start }) =>
      problemsOf(specifier, path, kind === 'type' ? withTypes(room) : room, rooms).map((problem) => ({
        path,
        line: lineAt(text, start),
        problem,
      })),
    )
  })
  return [...inside, ...checkOutside(tree), ...checkTable(rooms)]
}

/** The room of an `import type`. */
function withTypes(room: Room): Room {
  return { ...room, enters: [...room.enters, ...(room.types ?? [])] }
}

/** Deepest room first: `runtime/dbos/x.ts` is in `runtime/dbos`, not in `runtime`. */
function roomOf(pathInSource: string, rooms: readonly Room[]): Room {
  const homes = rooms.filter(({ name }) => name === '' || pathInSource.startsWith(`${name}/`))
  const [deepest] = homes.toSorted((a, b) => b.name.length - a.name.length)
  // A folder without a row may import nothing and is reported at its first import.
  const isRootFile = !pathInSource.includes('/')
  return deepest && (deepest.name !== '' || isRootFile)
    ? deepest
    : { name: posix.dirname(pathInSource), enters: [], packages: [] }
}

function problemsOf(specifier: string, path: string, room: Room, rooms: readonly Room[]): string[] {
  if (specifier === computed) return path in computedImports ? [] : ['imports a computed name, so its room is unknown']
  if (specifier.startsWith('.')) return relativeProblems(specifier, path, room, rooms)
  if (specifier.startsWith('#')) return doorProblems(specifier, path, room, rooms)
  const allowed = isTest(path) ? [...room.packages, ...testPackages] : room.packages
  return allowed.some((pattern) => isOf(pattern, specifier))
    ? []
    : [`${title(room)} may not use the package ${specifier}`]
}

function relativeProblems(specifier: string, path: string, room: Room, rooms: readonly Room[]): string[] {
  const target = posix.join(posix.dirname(path), specifier)
  // The registry reads the refusal table of every room, which imports only the kernel.
  if (path === 'src/refusals/index.ts' && /^src\/[a-z/-]+\/refusals\.ts$/.test(target)) return []
  if (!target.startsWith('src/') || roomOf(target.slice('src/'.length), rooms).name !== room.name) {
    return [`${specifier} leaves ${title(room)}; import through an entry (#…)`]
  }
  return /\.(ts|tsx|json)$/.test(specifier) ? [] : [`${specifier} needs its file ending`]
}

function doorProblems(specifier: string, path: string, room: Room, rooms: readonly Room[]): string[] {
  if (specifier.startsWith('#test/')) return isTest(path) ? [] : [`${specifier} is for tests only`]
  const target = throughDoor(specifier, rooms)
  if (target === undefined) return [`${specifier} is not an entry`]
  if (target === room.name) return [`${specifier} leads back into ${title(room)}; use a relative path`]
  if (!room.enters.includes(target)) return [`${title(room)} may not enter ${target}`]
  return []
}

/** `#kernel/x` is any file of the kernel; every other room has one entry. */
function throughDoor(specifier: string, rooms: readonly Room[]): string | undefined {
  const name = specifier.slice(1)
  // Two rooms have an entry per file: the kernel, whose parts are independent, and app, so that the command line loads only what
  // it runs.
  const perFile = /^(kernel|app)\//.exec(name)?.[1]
  if (perFile !== undefined) return perFile
  // Types only: the rows of the catalogue.
  if (name === 'store/rows') return 'store'
  return rooms.find((room) => room.name !== '' && room.name === name)?.name
}

function isOf(pattern: string, specifier: string): boolean {
  if (pattern.endsWith('*')) return specifier.startsWith(pattern.slice(0, -1))
  return specifier === pattern || (!pattern.startsWith('node:') && specifier.startsWith(`${pattern}/`))
}

function title(room: Room): string {
  return room.name === '' ? 'src/index.ts' : room.name
}

/** Tests and examples use the entries as well; test support and scripts are exempt. */
function checkOutside(tree: Tree): Finding[] {
  const outside = sources(tree, 'test', 'bench', 'examples').filter(([path]) => !path.startsWith('test/support/'))
  return outside.flatMap(([path, text]) =>
    findImports(text)
      .filter(
        ({ specifier }) => specifier.startsWith('.') && posix.join(posix.dirname(path), specifier).startsWith('src/'),
      )
      .map(({ specifier, start }) => ({
        path,
        line: lineAt(text, start),
        problem: `${specifier} reaches into src; import through an entry (#…)`,
      })),
  )
}

/** The table itself: a room may name only rooms above it. */
function checkTable(rooms: readonly Room[]): Finding[] {
  return rooms.flatMap((room, index) => {
    const above = new Set(rooms.slice(0, index).map(({ name }) => name))
    return room.enters
      .filter((name) => !above.has(name))
      .map((name) => ({
        path: 'test/tidy/room-table.ts',
        problem: `${title(room)} names ${name}, which is not above it`,
      }))
  })
}
