/**
 * The cost of a search in 100,000 memories compared with bare SQL. The room also records every read in the same statement and
 * commit, so the fair comparison is the bare search plus a bare insert.
 *
 * node bench/memory.ts [--records 100000] [--rounds 5] [--seconds 1]
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { openMemory, type SearchMemory, searchMemory } from '#domains/memory'
import { uuidV7Generator } from '#kernel/ids'
import { statement } from '#store'
import { runLoop } from './harness/closed-loop.ts'
import { type Case, compare, printResults } from './harness/compare.ts'
import { openBenchServer } from './harness/server.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: {
    records: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1' },
  },
})
const RECORDS = Number(options.records)
const SUBJECTS = Math.max(1, Math.floor(RECORDS / 20))
const WORDS = 5_000
const IN_FLIGHT = 4

const now = () => new Date()
const newId = uuidV7Generator(now, (count) => randomBytes(count))
const server = await openBenchServer()
const db = server.open({ poolMax: IN_FLIGHT })
const login = server.open({ role: 'none', poolMax: 1, statementTimeoutMs: 600_000, queryTimeoutMs: 600_000 })
const [org, workspaceId] = [randomUUID(), randomUUID()]
await login.query(`insert into identity.orgs (id, name, slug) values ($1, 'bench', 'bench')`, [org])
await login.query(`insert into identity.workspaces (id, org_id, slug, name) values ($1, $2, 'bench', 'bench')`, [
  workspaceId,
  org,
])
// 20 memories of each subject, 8 words each out of 5,000: a word is in about 160 of 100,000 memories.
await login.query(
  `insert into concord.memory_records (memory_id, workspace_id, subject_type, subject_id, scope, memory_type, content, confidence, status, created_by, fact_key, task_type)
   select gen_random_uuid(), $1, 'customer', 's' || n % $3, 'project', 'preference',
     jsonb_build_object('note', (select string_agg('w' || (hashint8(n * 8 + i) & 2147483647) % $4, ' ') from generate_series(1, 8) as i)),
     0.9, 'active', 'user:1', 'k' || n, 't' || n % 500
   from generate_series(1, $2::bigint) as n`,
  [workspaceId, RECORDS, SUBJECTS, WORDS],
)
await login.query('vacuum analyze concord.memory_records')
await login.query('create table public.bare_reads (id uuid primary key, ids uuid[] not null, at timestamptz not null)')
await login.query('grant insert on public.bare_reads to concord_engine')

const opened = await openMemory({ db, now, newId })
if (!opened.ok) throw new Error(opened.reason)
const memory = opened.value
const reader = { id: 'user:1', kind: 'user', traceId: 'trace_1' } as const
const pick = (count: number) => Math.floor(Math.random() * count)

const bareInsert = statement<never>(
  'bench_bare_insert',
  'insert into public.bare_reads (id, ids, at) values ($1, $2, $3)',
)
const bare = {
  subject: statement<{ memory_id: string }>(
    'bench_by_subject',
    `select * from concord.memory_records where workspace_id = $1 and subject_type = 'customer' and subject_id = $2 and status = 'active'
     order by created_at desc, memory_id limit 10`,
  ),
  text: statement<{ memory_id: string }>(
    'bench_by_text',
    `select *, ts_rank(to_tsvector('simple'::regconfig, content::jsonb), websearch_to_tsquery('simple'::regconfig, $2)) as score
     from concord.memory_records where workspace_id = $1 and status = 'active'
       and to_tsvector('simple'::regconfig, content::jsonb) @@ websearch_to_tsquery('simple'::regconfig, $2)
     order by score desc, created_at desc, memory_id limit 10`,
  ),
}
const asked = { subject: () => `s${pick(SUBJECTS)}`, text: () => `w${pick(WORDS)}` }

async function searchBare(way: 'subject' | 'text', isRecorded: boolean) {
  const rows = await db.run(bare[way], [workspaceId, asked[way]()])
  if (isRecorded) await db.run(bareInsert, [newId(), rows.map(({ memory_id }) => memory_id), now()])
}

async function searchRoom(way: 'subject' | 'text') {
  const value = asked[way]()
  const by: Partial<SearchMemory> =
    way === 'text' ? { text: value } : { subject: { subject_type: 'customer', subject_id: value } }
  await searchMemory(memory, reader, { workspaceId, limit: 10, ...by })
}

const loop = (operation: () => Promise<unknown>) => () =>
  runLoop({
    inFlight: IN_FLIGHT,
    forMs: Number(options.seconds) * 1_000,
    warmUpMs: 300,
    postmaster: server.pid,
    operation,
  })
const cases: Case[] = (['subject', 'text'] as const).flatMap((way) => [
  { name: `by ${way}, bare SQL, unrecorded`, run: loop(() => searchBare(way, false)) },
  { name: `by ${way}, bare SQL and a bare insert`, run: loop(() => searchBare(way, true)) },
  {
    name: `by ${way}, the room, recorded`,
    against: `by ${way}, bare SQL and a bare insert`,
    run: loop(() => searchRoom(way)),
  },
])
console.log(`${RECORDS} memories, ${IN_FLIGHT} callers, ten results each`)
printResults(await compare(cases, Number(options.rounds)))
await Promise.all([db.close(), login.close()])
await server.stop()
