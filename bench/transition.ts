/**
 * The cost of a move with its event compared with one bare prepared insert per commit, with the same number of connections: as
 * one statement, and as begin … commit. Every commit is flushed.
 *
 * node bench/transition.ts [--rounds 5] [--seconds 1.5]
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { commandMachine } from '#kernel/machines/index'
import { uuidV7Generator } from '#kernel/ids'
import { type Db, domainEventLog, statement, storedMachine, transition } from '#store'
import { runLoop } from './harness/closed-loop.ts'
import { type Case, compare, printResults } from './harness/compare.ts'
import { openBenchServer } from './harness/server.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: { rounds: { type: 'string', default: '5' }, seconds: { type: 'string', default: '1.5' } },
})
const ROUNDS = Number(options.rounds)
const FOR_MS = Number(options.seconds) * 1_000
/** Each of 32 connections plans each statement five times before it keeps a plan; 300 ms on a busy machine were not enough. */
const WARM_UP_MS = 1_000
const CONNECTIONS = [8, 32] as const
const ROWS_PER_SLOT = 16

const newId = uuidV7Generator(
  () => new Date(),
  (count) => randomBytes(count),
)
/** About 200 bytes, like the events of a real command. */
const payload = { note: 'x'.repeat(120), from: 'running', to: 'blocked', target_type: 'command' }
const log = domainEventLog({
  status_changed: 'event',
  cancellation_requested: 'audit',
  compensation_started: 'event',
  compensation_completed: 'event',
  compensation_drift: 'audit',
})
const stored = storedMachine({
  machine: commandMachine,
  table: 'concord.commands',
  id: 'command_id',
  tenant: 'workspace_id',
  state: 'status',
  touched: 'updated_at',
  returning: ['command_id', 'workspace_id', 'status'],
  log: { log, target: 'command', links: { workspace_id: 'workspace_id', command_id: 'command_id' } },
})

const server = await openBenchServer()
const login = server.open({ role: 'none', poolMax: 1 })
await login.query(
  'create table public.bare (id uuid primary key, payload jsonb not null, created_at timestamptz not null)',
)
await login.query('grant insert on public.bare to concord_engine')
const [org, workspaceId] = [randomUUID(), randomUUID()]
await login.query(`insert into identity.orgs (id, name, slug) values ($1, 'bench', 'bench')`, [org])
await login.query(`insert into identity.workspaces (id, org_id, slug, name) values ($1, $2, 'bench', 'bench')`, [
  workspaceId,
  org,
])

type Row = { readonly command_id: string; readonly workspace_id: string; status: string }

/** Every caller has its own commands, so that the bench measures the write and not a lock. */
async function someRows(slots: number): Promise<Row[][]> {
  const ids = Array.from({ length: slots * ROWS_PER_SLOT }, () => newId())
  await login.query(
    `insert into concord.commands (command_id, command_type, requested_by, ingress, payload, context, status, workspace_id, payload_hash)
     select id, 'bench.run', 'user:1', 'user_request', $3, '{}', 'running', $2, 'none' from unnest($1::uuid[]) as id`,
    [ids, workspaceId, JSON.stringify(payload)],
  )
  const rows = ids.map((command_id) => ({ command_id, workspace_id: workspaceId, status: 'running' }))
  return Array.from({ length: slots }, (_, slot) => rows.slice(slot * ROWS_PER_SLOT, (slot + 1) * ROWS_PER_SLOT))
}

/** Gives every slot its rows in turn; each moves between running and blocked. */
async function turns(slots: number): Promise<(slot: number) => { row: Row; to: 'running' | 'blocked' }> {
  const rows = await someRows(slots)
  const next = Array.from({ length: slots }, () => 0)
  return (slot) => {
    const own = rows[slot] ?? []
    const row = own[(next[slot] ?? 0) % own.length]
    if (!row) throw new Error(`Slot ${slot} has no rows.`)
    next[slot] = (next[slot] ?? 0) + 1
    return { row, to: row.status === 'running' ? 'blocked' : 'running' }
  }
}

const context = () => ({
  actor: 'worker:1',
  actorKind: 'worker' as const,
  traceId: 'trace_bench',
  at: new Date(),
  newId,
  payload,
})

async function sample(inFlight: number, operation: (slot: number) => Promise<unknown>) {
  return runLoop({ inFlight, operation, forMs: FOR_MS, warmUpMs: WARM_UP_MS, postmaster: server.pid })
}

async function withDb<T>(connections: number, work: (db: Db) => Promise<T>): Promise<T> {
  const db = server.open({ poolMax: connections })
  try {
    return await work(db)
  } finally {
    await db.close()
  }
}

const insertBare = statement('bench_bare', 'insert into public.bare (id, payload, created_at) values ($1, $2, $3)')
const updateOnly = statement<Row>(
  'bench_update',
  'update concord.commands set status = $3::text, updated_at = $5::timestamptz where command_id = $1 and workspace_id = $2 and status = $4 returning command_id',
)
const insertEvent = statement(
  'bench_event',
  `insert into concord.domain_events (event_id, purpose, event_type, payload, actor, trace_id, created_at, workspace_id, command_id)
   values ($1, 'event', 'status_changed', $2::jsonb, 'worker:1', 'trace_bench', $3::timestamptz, $4, $5)`,
)

function bare(connections: number): Case {
  return {
    name: `bare insert, ${connections} connections`,
    run: () =>
      withDb(connections, (db) =>
        sample(connections, () => db.run(insertBare, [newId(), JSON.stringify(payload), new Date()])),
      ),
  }
}

/** Only the same event in the real log: the cost of its constraints and indexes without a move. */
function eventAlone(connections: number): Case {
  return {
    name: `event alone, ${connections} connections`,
    against: `bare insert, ${connections} connections`,
    run: () =>
      withDb(connections, async (db) => {
        const turn = await turns(connections)
        return sample(connections, (slot) => {
          const { row } = turn(slot)
          return db.run(insertEvent, [newId(), JSON.stringify(payload), new Date(), row.workspace_id, row.command_id])
        })
      }),
  }
}

function oneStatement(connections: number): Case {
  return {
    name: `transition, ${connections} connections`,
    against: `bare insert, ${connections} connections`,
    run: () =>
      withDb(connections, async (db) => {
        const turn = await turns(connections)
        return sample(connections, async (slot) => {
          const { row, to } = turn(slot)
          const moved = await transition(db, stored, row, to, context())
          if (!moved.ok) throw new Error(moved.reason)
          row.status = to
        })
      }),
  }
}

function beginCommit(connections: number): Case {
  return {
    name: `begin … commit, prepared, ${connections} connections`,
    against: `bare insert, ${connections} connections`,
    run: () =>
      withDb(connections, async (db) => {
        const turn = await turns(connections)
        return sample(connections, async (slot) => {
          const { row, to } = turn(slot)
          const at = new Date()
          await db.transaction(async (tx) => {
            await tx.run(updateOnly, [row.command_id, row.workspace_id, to, row.status, at])
            await tx.run(insertEvent, [newId(), JSON.stringify(payload), at, row.workspace_id, row.command_id])
          })
          row.status = to
        })
      }),
  }
}

const cases = CONNECTIONS.flatMap((count) => [bare, eventAlone, oneStatement, beginCommit].map((make) => make(count)))
console.log('One move with its event, against one bare prepared insert per commit of the same round.')
const results = await compare(cases, ROUNDS)
printResults(results)
for (const connections of CONNECTIONS) {
  const ratio = results.find(({ name }) => name === `transition, ${connections} connections`)?.ratio ?? Number.NaN
  console.log(
    `goal: transition ÷ bare insert ≥ 0.8 at ${connections} connections: ${ratio.toFixed(2)}${ratio >= 0.8 ? '' : ', missed'}`,
  )
}
await login.close()
await server.stop()
