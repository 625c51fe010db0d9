/** Migrations are numbered without gaps, have a way back, and never change after their checksum is frozen. */
import { createHash } from 'node:crypto'
import type { Finding } from './finding.ts'
import type { Tree } from './tree.ts'

const folder = 'src/store/migrations'
const frozenPath = `${folder}/checksums.json`

export function checkMigrations(tree: Tree): Finding[] {
  const files = [...tree]
    .filter(([path]) => path.startsWith(`${folder}/`) && path.endsWith('.sql'))
    .map(([path, text]) => ({ path, name: path.slice(folder.length + 1, -'.sql'.length), text }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1))
  const frozen = JSON.parse(tree.get(frozenPath) ?? '{}') as Record<string, string>
  const gone = Object.keys(frozen).filter((name) => !files.some((file) => file.name === name))
  return [
    ...files.flatMap(({ path, name, text }, index) =>
      [...numberProblems(name, index + 1), ...textProblems(text), ...frozenProblems(frozen[name], text)].map(
        (problem) => ({ path, problem }),
      ),
    ),
    ...gone.map((name) => ({ path: frozenPath, problem: `${name} is frozen but its file is gone` })),
  ]
}

function numberProblems(name: string, expected: number): string[] {
  return Number.parseInt(name, 10) === expected
    ? []
    : [`is not number ${expected}: numbers have no holes and no doubles`]
}

function textProblems(text: string): string[] {
  const separators = text.split('\n').filter((line) => line.trimEnd() === '-- down').length
  return [
    ...(separators === 1 ? [] : ['needs exactly one line "-- down" between its two ways']),
    ...(text.startsWith('-- ') ? [] : ['does not open with a comment that says why']),
  ]
}

function frozenProblems(frozen: string | undefined, text: string): string[] {
  if (frozen === undefined) return [`is not frozen yet: its checksum belongs into ${frozenPath}`]
  return frozen === checksum(text)
    ? []
    : ['was edited after its checksum was frozen; put the change into a new migration']
}

/** The rule of the migrator, repeated on purpose: line ends and trailing blanks do not count. */
export function checksum(text: string): string {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  const plain = lines.map((line) => line.trimEnd()).join('\n')
  return createHash('sha256').update(`${plain.trimEnd()}\n`).digest('hex')
}
