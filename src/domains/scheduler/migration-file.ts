/** The migrations of the scheduler file: numbered and named SQL with a way up, a way down and a checksum. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { KernelFault } from '#kernel/errors'

export type Migration = {
  readonly number: number
  /** The file name without its ending. */
  readonly name: string
  readonly up: string
  readonly down: string
  /** SHA-256 of the text; line ends and trailing blanks do not count. */
  readonly checksum: string
}

/** Beside this file both in `src` and in the built package. */
const folder = fileURLToPath(new URL('./migrations/', import.meta.url))

export function loadMigrations(): readonly Migration[] {
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql'))
  return names
    .toSorted()
    .map((fileName, index) => parseMigration(fileName, readFileSync(join(folder, fileName), 'utf8'), index + 1))
}

/** They ship with the code, so a wrong one is a fault of ours. */
export function parseMigration(fileName: string, text: string, number: number): Migration {
  const plain = normalise(text)
  const [up, down, ...more] = plain.split(/^-- down$/m)
  const name = fileName.replace(/\.sql$/, '')
  if (!up?.trim() || !down?.trim() || more.length > 0 || !name.startsWith(`${String(number).padStart(4, '0')}_`)) {
    throw new KernelFault(
      'scheduler.migration',
      `${fileName} is not migration ${number} with one way up and one way down`,
    )
  }
  return { number, name, up, down, checksum: createHash('sha256').update(plain).digest('hex') }
}

function normalise(text: string): string {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  return `${lines
    .map((line) => line.trimEnd())
    .join('\n')
    .trimEnd()}\n`
}
