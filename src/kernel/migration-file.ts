/** Splits migration files, for both migrators: numbered and named SQL files with an up part and a down part. */

export type MigrationFile = {
  readonly number: number
  /** The file name without its extension: `0002_identity`. */
  readonly name: string
  readonly up: string
  readonly down: string
}

const FILE_NAME = /^(\d{4})_[a-z][a-z0-9_]*\.sql$/
const SEPARATOR = /^-- down$/m

/** Returns the text that the checksum covers: without line-end styles and trailing blanks, so a checkout on Windows is the same file. */
export function normaliseMigration(text: string): string {
  const lines = text.replace(/^\uFEFF/, '').split(/\r\n|\r|\n/)
  const trimmed = lines.map((line) => line.trimEnd()).join('\n')
  return `${trimmed.trimEnd()}\n`
}

/** Returns the reason as a string when the file is not a migration. */
export function splitMigration(fileName: string, text: string): MigrationFile | string {
  const named = FILE_NAME.exec(fileName)
  if (!named) return 'its name is not NNNN_what_it_adds.sql'
  const [up, down, ...more] = normaliseMigration(text).split(SEPARATOR)
  if (!up?.trim() || !down?.trim() || more.length > 0) return 'it needs one line "-- down" between its two parts'
  return { number: Number(named[1]), name: fileName.slice(0, -'.sql'.length), up, down }
}
