/** A workspace with as many commands as a test or bench wants: copies of the commands that it has, with their rows in all tables. */
import { type Db, openDb } from '../../src/store/db.ts'

export type GrowOptions = {
  readonly workspaceId: string
  /** How many copies to make in all; the templates are mixed by weight. */
  readonly copies: number
  /** The number of copies that earlier calls have made. */
  readonly after?: number
  /** The commands to copy, with the part of each. */
  readonly templates: readonly { readonly commandId: string; readonly weight: number }[]
  /** The copies are spread over this time before `until`. */
  readonly spanMs: number
  readonly until: Date
}

const HOUR_MS = 3_600_000

/** The owner's connection for statements over a whole table. */
export const openPatient = (url: string): Db =>
  openDb({ url, poolMax: 2, statementTimeoutMs: HOUR_MS, queryTimeoutMs: HOUR_MS })

/** The tables with rows of a command, and the columns that get a new id. */
const tables = [
  { table: 'concord.commands', ids: [] },
  { table: 'concord.domain_effects', ids: ['domain_effect_id'] },
  { table: 'concord.approvals', ids: ['approval_id'] },
  { table: 'concord.domain_events', ids: ['event_id'] },
  { table: 'concord.journal', ids: ['entry_id'] },
] as const

const CHUNK = 20_000
/** The document columns name the command in their text. */
const DOCUMENTS = ['json', 'jsonb']

/** The id of the copy `n` with this time in its first 48 bits. `salt` separates the ids of one copy. */
const idAt = (ms: string, n: string, salt: string) =>
  `overlay(overlay(md5(${salt} || ${n}) placing lpad(to_hex(${ms}), 12, '0') from 1 for 12) placing '7' from 13 for 1)::uuid`

/**
 * `owner` is opened with `openPatient`.
 * Works on every version of the schema.
 */
export async function growWorkspace(owner: Db, options: GrowOptions): Promise<void> {
  const { workspaceId, copies, after = 0, templates, spanMs, until } = options
  const slots = templates.flatMap(({ commandId, weight }) => Array.from({ length: weight }, () => commandId))
  const startMs = until.getTime() - spanMs
  const ms = `($3::float8 + (n - ${after}) * $4::float8)::bigint`
  const commandId = idAt(ms, 'n', `'command'`)
  for (const { table, ids } of tables) {
    const columns = await owner.query<{ name: string; type: string }>(
      `select a.attname as name, coalesce(b.typname, t.typname) as type
       from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_type t on t.oid = a.atttypid left join pg_type b on b.oid = t.typbasetype
       where a.attrelid = to_regclass($1) and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped and a.attname not in ('seq', 'xid')
       order by a.attnum`,
      [table],
    )
    if (columns.length === 0) continue
    const valueOf = ({ name, type }: { name: string; type: string }): string => {
      if (name === 'command_id') return commandId
      if ((ids as readonly string[]).includes(name)) return idAt(ms, 'n', `t.${name}::text`)
      if (name === 'created_at') return `to_timestamp(${ms} / 1000.0)`
      if (name.endsWith('_key')) return `t.${name} || '#' || n`
      if (name.endsWith('runtime_workflow_id')) return `replace(t.${name}, t.command_id::text, ${commandId}::text)`
      if (DOCUMENTS.includes(type)) return `replace(t.${name}::text, t.command_id::text, ${commandId}::text)::${type}`
      return `t.${name}`
    }
    const order = table === 'concord.domain_events' || table === 'concord.journal' ? 'n, t.seq' : 'n'
    const text = `insert into ${table} (${columns.map(({ name }) => name).join(', ')})
      select ${columns.map(valueOf).join(', ')} from generate_series($5::bigint, $6::bigint) as n
      join ${table} as t on t.command_id = ($2::uuid[])[1 + n * 7919 % cardinality($2::uuid[])] and t.workspace_id = $1 order by ${order}`
    for (let from = after + 1; from <= after + copies; from += CHUNK)
      await owner.transaction(async (tx) => {
        const to = Math.min(from + CHUNK - 1, after + copies)
        await tx.query(text, [workspaceId, slots, startMs, spanMs / copies, from, to])
      })
    await owner.query(`vacuum analyze ${table}`)
  }
}
