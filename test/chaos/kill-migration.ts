/**
 * A database of schema 17 with a long history: the migrating process is killed in the middle of the copy and started again, then the database goes
 * down and up. Every field of every event is compared, and time and disk are reported.
 */
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { openBenchServer } from '../../bench/harness/server.ts'
import { decideApproval } from '#domains/approvals'
import { byPerson } from '#kernel/actor'
import { type Db, migrateDown, migrateUp } from '#store'
import { decider, openRoomOn, pendingOf } from '#test/commands'
import { growWorkspace, openPatient } from '#test/large-workspace'
import { spawnRunner, versionOf } from '#test/migrations'
import { accepted, aTenant, aWorld, TRACE } from '#test/tenant'

/** The last schema in which an event is a row. */
const OLD = 17
const JOURNAL = '0019_journal'
/** The copy writes fewer events than this in a millisecond, so a kill after that time finds it at work. */
const EVENTS_PER_MS = 200
const DAY_MS = 86_400_000

const COLUMNS =
  'event_id command_id agent_run_id swarm_run_id purpose event_type payload actor trace_id step_index tool_name latency_ms token_usage cost_units created_at workspace_id seq xid'.split(
    ' ',
  )

/** One number per column, over the values of all events by their ids. */
async function fingerprint(db: Db): Promise<Readonly<Record<string, string>>> {
  const sums = COLUMNS.map(
    (name) => `sum(hashtextextended(concat_ws(' ', e.event_id, e.${name}::text), 0)::numeric)::text as ${name}`,
  )
  const [row] = await db.query<Record<string, string>>(
    `select count(*)::text as events, ${sums.join(', ')} from concord.domain_events as e`,
  )
  return row ?? {}
}

async function diskOf(db: Db): Promise<number> {
  const [row] = await db.query<{ mb: number }>(
    `select round(pg_total_relation_size(coalesce(to_regclass('concord.journal'), 'concord.domain_events'::regclass)) / 1e6)::int as mb`,
  )
  return row?.mb ?? 0
}

const seconds = async (work: () => Promise<unknown>): Promise<number> => {
  const from = performance.now()
  await work()
  return Math.round((performance.now() - from) / 100) / 10
}

type Report = {
  readonly events: number
  readonly secondsUp: Readonly<Record<string, number>>
  readonly secondsDown: number
  readonly megabytesBefore: number
  readonly megabytesAfter: number
  /** From the kill until the server had rolled back. */
  readonly secondsToRollBack: number
  /** The columns that differ, each after what was done. */
  readonly differences: readonly string[]
}

export async function killMigration({ events }: { readonly events: number }): Promise<Report> {
  const server = await openBenchServer()
  const owner = openPatient(server.url)
  try {
    await writeHistory(server.open({ poolMax: 6 }), server.url, owner, events)
    const before = await fingerprint(owner)
    const megabytesBefore = await diskOf(owner)
    const differences: string[] = []
    const compare = async (what: string) => {
      const now = await fingerprint(owner)
      differences.push(
        ...Object.keys(before).flatMap((name) => (now[name] === before[name] ? [] : [`${what}: ${name}`])),
      )
    }
    const secondsToRollBack = await killDuringCopy(server.url, owner, events / EVENTS_PER_MS)
    await compare('killed')
    const secondsUp: Record<string, number> = {}
    let at = performance.now()
    accepted(
      await migrateUp(server.url, {
        onStep({ name }) {
          secondsUp[name] = Math.round((performance.now() - at) / 100) / 10
          at = performance.now()
        },
      }),
    )
    await owner.query('analyze')
    await compare('up')
    const megabytesAfter = await diskOf(owner)
    const secondsDown = await seconds(async () => accepted(await migrateDown(server.url, { to: OLD })))
    await compare('down')
    accepted(await migrateUp(server.url))
    await compare('up again')
    const count = Number(before['events'])
    return { events: count, secondsUp, secondsDown, megabytesBefore, megabytesAfter, secondsToRollBack, differences }
  } finally {
    await owner.close()
    await server.stop()
  }
}

/** Some commands of different fates run through the product; their copies are made in the old schema. */
async function writeHistory(db: Db, url: string, owner: Db, events: number): Promise<void> {
  const clock = aWorld(db)
  const room = openRoomOn(clock, await aTenant(clock))
  const templates: { commandId: string; weight: number }[] = []
  const run = async (weight: number, payload: Record<string, unknown>, more = {}) => {
    const commandId = await room.submit(payload, more)
    await room.settle(commandId)
    templates.push({ commandId, weight })
    return commandId
  }
  await run(6, { subject: 's' }, { taskName: 'Echo' })
  await run(2, { subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
  await run(1, { subject: 's', decide: 'deny' })
  const asked = await run(1, { subject: 's', decide: 'require_approval', steps: ['connector.hotel.book_a'] })
  const workspaceId = room.tenant.workspace.id
  const given = { workspaceId, approvalId: await pendingOf(room, asked), decision: 'approved', reason: 'yes' } as const
  accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), given))
  await room.settle(asked)
  const ids = templates.map(({ commandId }) => commandId)
  const counts = await room.rows<{ command_id: string; count: number }>(
    'select command_id, count(*)::int as count from concord.domain_events where command_id = any($1) group by 1',
    [ids],
  )
  const inTurn = templates.reduce(
    (sum, { commandId, weight }) => sum + weight * (counts.find((row) => row.command_id === commandId)?.count ?? 0),
    0,
  )
  const weights = templates.reduce((sum, { weight }) => sum + weight, 0)
  await room.close()
  await db.close()
  accepted(await migrateDown(url, { to: OLD }))
  const copies = Math.ceil((events / inTurn) * weights)
  await growWorkspace(owner, { workspaceId, templates, copies, spanMs: 30 * DAY_MS, until: new Date() })
}

/** Starts the migration in a process and kills it in the middle of the copy. Returns after how long the copy was gone. */
async function killDuringCopy(url: string, owner: Db, runsMs: number): Promise<number> {
  const runner = spawnRunner(url)
  const ended = once(runner, 'exit')
  const runners = (more: string) =>
    owner.query(
      `select from pg_stat_activity where datname = current_database() and application_name = 'concord-migrate' ${more}`,
    )
  const isCopying = `and state = 'active' and query like '-- ${JOURNAL.replace('_', ' ')}%' and clock_timestamp() - query_start > '${runsMs} ms'`
  while ((await runners(isCopying)).length === 0) {
    if (runner.exitCode !== null) throw new Error('The migration ended before it could be killed.')
    await wait(5)
  }
  runner.kill('SIGKILL')
  await ended
  const from = performance.now()
  while ((await runners('')).length > 0) await wait(50)
  const version = await versionOf(url)
  if (version >= Number.parseInt(JOURNAL, 10)) throw new Error(`The kill came too late: the schema is ${version}.`)
  return Math.round((performance.now() - from) / 100) / 10
}
