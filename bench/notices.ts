/**
 * The cost of a notification about a write: one in every commit, one in every flush of a lane, one after it on the same
 * connection, or a coalesced one from a separate connection. One process listens. Every commit is flushed.
 *
 * node bench/notices.ts [--rounds 5] [--seconds 1.5]
 */
import { randomBytes } from 'node:crypto'
import { uuidV7Generator } from '#kernel/ids'
import { openLane, openNotices, type Sql, statement } from '#store'
import { runLoop } from './harness/closed-loop.ts'
import { type Case, compare, printResults } from './harness/compare.ts'
import { openBenchServer } from './harness/server.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: { rounds: { type: 'string', default: '5' }, seconds: { type: 'string', default: '1.5' } },
})
const ROUNDS = Number(options.rounds)
const FOR_MS = Number(options.seconds) * 1_000
const IN_FLIGHT = 64
const CONNECTIONS = 8
const payload = JSON.stringify({ note: 'x'.repeat(160) })

const newId = uuidV7Generator(
  () => new Date(),
  (count) => randomBytes(count),
)
const server = await openBenchServer()
const login = server.open({ role: 'none', poolMax: 1 })
await login.query(
  'create table public.bare (id uuid primary key, payload jsonb not null, created_at timestamptz not null)',
)
await login.query('grant insert on public.bare to concord_engine')
const listening = openNotices(login)
listening.listen('bench', () => {})

const insertOne = statement('bench_one', 'insert into public.bare values ($1, $2, now())')
const insertAndNotify = statement(
  'bench_one_notify',
  `with i as (insert into public.bare values ($1, $2, now())) select pg_notify('bench', '')`,
)
const insertMany = statement(
  'bench_many',
  'insert into public.bare select id, $2::jsonb, now() from unnest($1::uuid[]) as id',
)
const insertManyAndNotify = statement(
  'bench_many_notify',
  `with i as (insert into public.bare select id, $2::jsonb, now() from unnest($1::uuid[]) as id) select pg_notify('bench', '')`,
)
const notify = statement('bench_notify', `select pg_notify('bench', '')`)

function writers(name: string, insert: typeof insertOne, against?: string): Case {
  return {
    name,
    ...(against ? { against } : {}),
    async run() {
      const db = server.open({ poolMax: CONNECTIONS })
      const operation = () => db.run(insert, [newId(), payload])
      const sample = await runLoop({
        inFlight: CONNECTIONS,
        operation,
        forMs: FOR_MS,
        warmUpMs: 300,
        postmaster: server.pid,
      })
      await db.close()
      return sample
    },
  }
}

function lane(name: string, flushAll: (sql: Sql, ids: string[]) => Promise<void>, announces = false): Case {
  return {
    name,
    ...(name === 'lane' ? {} : { against: 'lane' }),
    async run() {
      const db = server.open({ poolMax: 1 })
      const notices = openNotices(db)
      const opened = openLane<string, true>(db, {
        name: 'bench',
        async flush(sql, items) {
          await flushAll(
            sql,
            items.map(({ item }) => item),
          )
          // Outside the callers' path, as after a commit.
          if (announces) setImmediate(() => notices.announce('bench'))
          return items.map(() => true)
        },
      })
      const operation = () => opened.submit(newId())
      const sample = await runLoop({
        inFlight: IN_FLIGHT,
        operation,
        forMs: FOR_MS,
        warmUpMs: 300,
        postmaster: server.pid,
      })
      await opened.close()
      await notices.close()
      await db.close()
      return sample
    },
  }
}

const plain = async (sql: Sql, ids: string[]) => void (await sql.run(insertMany, [ids, payload]))
const results = await compare(
  [
    writers(`insert per commit, ${CONNECTIONS} connections`, insertOne),
    writers('… with a notice in every commit', insertAndNotify, `insert per commit, ${CONNECTIONS} connections`),
    lane('lane', plain),
    lane('lane, announced from its own connection', plain, true),
    lane('lane, notice in every flush', async (sql, ids) => void (await sql.run(insertManyAndNotify, [ids, payload]))),
    lane('lane, notice after every flush', async (sql, ids) => {
      await plain(sql, ids)
      await sql.run(notify)
    }),
  ],
  ROUNDS,
)
console.log(`Telling others about a write; the lane has ${IN_FLIGHT} in flight.`)
printResults(results)
await listening.close()
await login.close()
await server.stop()
