/** Renders a catalogue as text for people and tests: the same schema gives the same bytes. */
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
    ...catalogue.views.map(({ owner, text }) =>
      [`${text};`, ...of(catalogue.grants, owner), ...of(catalogue.comments, owner)].join('\n'),
    ),
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

const ROWS_HEADING = `/**
 * The row of every table as the driver returns it, by the table's name. Numbers that do not fit a double (\`numeric\`, \`bigint\`, \`xid8\`) are text.
 * Written by scripts/schema.ts from the catalogue of a migrated database; change a migration, not this file.
 */
import type { JsonValue } from '#kernel/json-value'

/** A row whose room knows more about some columns than the catalogue does, such as the shape of a document. */
export type RowOf<Table extends keyof Rows, Known extends Partial<Rows[Table]>> = Omit<Rows[Table], keyof Known> & Known
`

/** Returns the TypeScript type of a column. A domain counts as its base type. */
const TYPES: Readonly<Record<string, string>> = {
  uuid: 'string',
  text: 'string',
  'character varying': 'string',
  numeric: 'string',
  bigint: 'string',
  xid8: 'string',
  smallint: 'number',
  integer: 'number',
  real: 'number',
  boolean: 'boolean',
  bytea: 'Uint8Array',
  json: 'JsonValue',
  jsonb: 'JsonValue',
  'timestamp with time zone': 'Date',
}
const LINE_MAX = 120

/** The types of all rows, with the closed list of a column where a check or a domain has one. */
export function drawRows(catalogue: Catalogue): string {
  const tables = catalogue.tables
    .filter(({ table }) => !table.startsWith('public.'))
    .map(({ table }) => {
      const columns = catalogue.columns.filter((column) => column.table === table)
      return `  '${table}': {\n${columns.map((column) => drawField(catalogue, column)).join('')}  }\n`
    })
  return `${ROWS_HEADING}\nexport type Rows = {\n${tables.join('')}}\n`
}

function drawField(catalogue: Catalogue, column: CatalogueColumn): string {
  const isArray = column.baseType.endsWith('[]')
  const type = TYPES[column.baseType.replace('[]', '').replace(/\([\d,]+\)$/, '')]
  if (type === undefined) throw new Error(`${column.table}.${column.column}: no row type for ${column.baseType}`)
  const list = closedList(catalogue, column)
  const values = list?.map((value) => `'${value}'`) ?? [isArray ? `readonly ${type}[]` : type]
  const union = column.notNull ? values : [...values, 'null']
  const line = `    readonly ${column.column}: ${union.join(' | ')}\n`
  if (line.length <= LINE_MAX + 1) return line
  return `    readonly ${column.column}:\n${union.map((value) => `      | ${value}\n`).join('')}`
}

/** Reads the list from the check that consists of it alone, on the column or on its domain. */
export function closedList(
  catalogue: Catalogue,
  { table, column, type }: Pick<CatalogueColumn, 'table' | 'column' | 'type'>,
): string[] | undefined {
  const checks = [
    ...catalogue.constraints.filter(({ owner }) => owner === table).map(({ text }) => text),
    ...catalogue.domains
      .filter(({ text }) => text.startsWith(`create domain ${type} as `))
      .map(({ text }) => text.replaceAll('VALUE', column)),
  ]
  // As Postgres prints it for text, and for varchar.
  const list = new RegExp(
    `CHECK \\(\\(\\(?${column}(?:\\)::text)? = ANY \\(\\(?ARRAY\\[([^\\]]*)\\](?:\\)::text\\[\\])?\\)\\)\\)$`,
  )
  const found = checks.map((text) => list.exec(text)?.[1]).find((values) => values !== undefined)
  return found?.split(', ').map((value) => value.replace(/^'(.*)'::(?:text|character varying)$/, '$1'))
}

/** Returns the first difference of two pictures, for a message that a person can act on. */
export function firstDifference(expected: string, actual: string): string | undefined {
  if (expected === actual) return undefined
  const [left, right] = [expected.split('\n'), actual.split('\n')]
  const index = left.findIndex((line, at) => line !== right[at])
  const line = index === -1 ? left.length : index
  return `line ${line + 1}: expected ${JSON.stringify(left[line] ?? '(end)')}, found ${JSON.stringify(right[line] ?? '(end)')}`
}
