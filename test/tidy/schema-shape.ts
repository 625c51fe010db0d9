/** The shape of the schema: every table is documented, logs are append-only, types grow in JSONB, blobs are outside. */
import type { Finding } from './finding.ts'
import type { Tree } from './tree.ts'

const dumpPath = 'src/store/schema.sql'
const readmePath = 'src/store/README.md'

/** Tables of a schema dump with their columns, as `schema.table`. */
function tablesOf(dump: string): ReadonlyMap<string, readonly string[]> {
  const tables = new Map<string, string[]>()
  for (const [, name = '', body = ''] of dump.matchAll(/^create table (\S+) \(\n([\s\S]*?)^\)/gim)) {
    tables.set(
      name,
      [...body.matchAll(/^ {2}(?!constraint\b)([a-z_0-9]+) +[a-z]/gm)].flatMap((column) => column[1] ?? []),
    )
  }
  return tables
}

/** Tables that only grow. */
const appendOnly = [
  'concord.journal',
  'concord.domain_event_seals',
  'concord.history_archives',
  'concord.memory_reads',
  'concord.budget_entries',
  'missions.orchestration_events',
] as const

/** Columns to which a new type, project or provider adds without a migration. */
const extensible = [
  'concord.commands',
  'concord.domain_effects',
  'concord.journal',
  'concord.approvals',
  'concord.artifacts',
  'concord.connector_invocations',
  'concord.memory_candidates',
  'concord.memory_records',
  'concord.agent_runs',
  'concord.swarm_runs',
  'schedules.command_schedules',
  'missions.orchestration_runs',
  'missions.orchestration_tasks',
] as const

/** Columns that locate content instead of holding it. */
const references = { 'concord.artifacts': ['location', 'checksum', 'size_bytes'] } as const

export function checkSchemaShape(tree: Tree): Finding[] {
  const dump = tree.get(dumpPath) ?? ''
  const tables = tablesOf(dump)
  const documented = documentedTables(tree.get(readmePath) ?? '')
  const inDump = [
    ...[...tables.keys()].flatMap((table) => checkColumns(table, bodyOf(dump, table))),
    ...appendOnly.flatMap((table) => checkAppendOnly(dump, table)),
    ...extensible
      .filter((table) => !/ (?:jsonb?|concord\.\w*json)\b/.test(bodyOf(dump, table)))
      .map((table) => `${table} has no JSON column: what differs by type needs a migration each time`),
    ...Object.entries(references).flatMap(([table, columns]) =>
      columns.filter((column) => !tables.get(table)?.includes(column)).map((column) => `${table} has no ${column}`),
    ),
  ].map((problem) => ({ path: dumpPath, problem }))
  const inReadme = [
    ...[...tables.keys()]
      // A table may be explained by a sentence in its migration.
      .filter((table) => !documented.includes(table) && !dump.includes(`\ncomment on table ${table} is `))
      .map((table) => `does not tell of ${table}`),
    ...documented.filter((table) => !tables.has(table)).map((table) => `documents ${table}, which does not exist`),
  ].map((problem) => ({ path: readmePath, problem }))
  return [...inDump, ...inReadme]
}

function bodyOf(dump: string, table: string): string {
  const start = dump.indexOf(`create table ${table} (`)
  return start < 0 ? '' : dump.slice(start, dump.indexOf('\n)', start))
}

function checkColumns(table: string, body: string): string[] {
  return [...body.matchAll(/^ {2}(?!constraint\b)([a-z_0-9]+) +(bytea|oid|xml)\b/gm)]
    .filter(([, name = '', type]) => !(type === 'bytea' && name.endsWith('_hash')))
    .map(([, name, type]) => `${table}.${name} is ${type}: content lies outside, a row says where`)
}

function checkAppendOnly(dump: string, table: string): string[] {
  const grants = [...dump.matchAll(new RegExp(`^grant ([^;]*) on ${table.replace('.', '\\.')} to (\\w+);$`, 'gm'))]
  if (grants.length === 0) return [`${table} has no grants`]
  return grants
    .filter(([, rights = '']) => /\b(update|delete|truncate|all)\b/.test(rights))
    .map(([, , role]) => `${table} is append-only, and ${role} may change it`)
}

/** `| \`concord\` | a, b | … |`; an empty first cell means the schema of the row above. */
function documentedTables(readme: string): string[] {
  let schema = ''
  return [...readme.matchAll(/^\| +(?:`(\w+)`)? +\| ([a-z_, ]+?)(?::[^|]*)? +\|$/gm)].flatMap(
    ([, named, list = '']) => {
      schema = named ?? schema
      return list.split(',').map((table) => `${schema}.${table.trim()}`)
    },
  )
}
