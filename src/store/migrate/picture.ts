/** Draws a catalogue as text that a person can read and a test can compare, byte by byte the same for the same schema. */
import type { Catalogue, CatalogueColumn, CatalogueLine } from './catalogue.ts'

const HEADING = `-- The schema that the migrations make, drawn from the catalogue of a migrated database.
-- Written by scripts/schema.ts and compared by a test; change a migration, not this file.
`

export function drawSchema(catalogue: Catalogue): string {
  const blocks = [
    HEADING.trimEnd(),
    of(catalogue.roles, 'cluster').join('\n'),
    ...catalogue.schemas.map((schema) => drawNamespace(catalogue, schema)),
    ...catalogue.tables.map((table) => drawTable(catalogue, table)),
  ]
  return `${blocks.join('\n\n')}\n`
}

function drawNamespace(catalogue: Catalogue, schema: string): string {
  const functions = catalogue.functions.filter(({ owner }) => owner === schema).map(({ text }) => `${text.trimEnd()};`)
  return [
    `create schema ${schema};`,
    ...of(catalogue.grants, schema),
    ...of(catalogue.domains, schema),
    ...functions,
    ...of(catalogue.others, schema),
  ].join('\n')
}

function drawTable(catalogue: Catalogue, { table, options, rowSecurity }: Catalogue['tables'][number]): string {
  const columns = catalogue.columns.filter((column) => column.table === table)
  const parts = [
    ...drawColumns(columns),
    ...catalogue.constraints.filter(({ owner }) => owner === table).map(({ text }) => `  ${text}`),
  ]
  return [
    `create table ${table} (\n${parts.join(',\n')}\n)${options ? ` with (${options})` : ''};`,
    ...of(catalogue.indexes, table),
    ...of(catalogue.triggers, table),
    ...(rowSecurity ? [`alter table ${table} ${rowSecurity};`] : []),
    ...of(catalogue.policies, table),
    ...of(catalogue.grants, table),
    ...of(catalogue.comments, table),
  ].join('\n')
}

function drawColumns(columns: readonly CatalogueColumn[]): string[] {
  const nameWidth = Math.max(...columns.map(({ column }) => column.length))
  const typeWidth = Math.max(...columns.map(({ type }) => type.length))
  return columns.map(({ column, type, notNull, default: value }) => {
    const given = value === null ? '' : value.startsWith('generated') ? ` ${value}` : ` default ${value}`
    return `  ${column.padEnd(nameWidth)} ${type.padEnd(typeWidth)}${notNull ? ' not null' : ''}${given}`.trimEnd()
  })
}

function of(lines: readonly CatalogueLine[], owner: string): string[] {
  return lines.filter((line) => line.owner === owner).map(({ text }) => `${text};`)
}

/** The first place where two pictures differ, for a message that a person can act on. */
export function firstDifference(expected: string, actual: string): string | undefined {
  if (expected === actual) return undefined
  const [left, right] = [expected.split('\n'), actual.split('\n')]
  const index = left.findIndex((line, at) => line !== right[at])
  const line = index === -1 ? left.length : index
  return `line ${line + 1}: expected ${JSON.stringify(left[line] ?? '(end)')}, found ${JSON.stringify(right[line] ?? '(end)')}`
}
