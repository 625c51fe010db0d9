/**
 * What the gate adds to a call: durable writes, and microseconds compared with the minimum for a record, one bare insert and
 * one bare update, each flushed. Cases alternate; the output is medians.
 *
 * node bench/connectors.ts [--rounds 20] [--calls 20]
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import {
  type Connectors,
  defineConnector,
  openConnectors,
  openSecrets,
  type RateLimits,
  succeeded,
} from '#domains/connectors'
import { uuidV7Generator } from '#kernel/ids'
import { type Db, statement } from '#store'
import { openBenchServer } from './harness/server.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: { rounds: { type: 'string', default: '20' }, calls: { type: 'string', default: '20' } },
})
const [ROUNDS, CALLS] = [Number(options.rounds), Number(options.calls)]
const newId = uuidV7Generator(
  () => new Date(),
  (count) => randomBytes(count),
)

const server = await openBenchServer()
const login = server.open({ role: 'none', poolMax: 1 })
const ids = {
  org: randomUUID(),
  workspace: randomUUID(),
  user: randomUUID(),
  command: randomUUID(),
  effect: randomUUID(),
}
await login.query(`insert into identity.orgs (id, name, slug) values ($1, 'bench', 'bench')`, [ids.org])
await login.query(`insert into identity.workspaces (id, org_id, slug, name) values ($1, $2, 'bench', 'bench')`, [
  ids.workspace,
  ids.org,
])
await login.query(
  `insert into concord.commands (command_id, workspace_id, command_type, requested_by, ingress, payload, context, status, payload_hash)
   values ($1, $2, 'bench', 'user:bench', 'user_request', '{}', '{}', 'running', 'h')`,
  [ids.command, ids.workspace],
)
await login.query(
  `insert into concord.domain_effects (domain_effect_id, workspace_id, command_id, effect_type, effect_payload, declaration_order, status)
   values ($1, $2, $3, 'connector.bench.do', '{}', 0, 'executing')`,
  [ids.effect, ids.workspace, ids.command],
)
await login.query('create table public.bare (id uuid primary key, payload jsonb not null, done_at timestamptz)')
await login.query('grant select, insert, update on public.bare to concord_engine')

const db = server.open({ poolMax: 4 })
let writes = 0
/** Every statement or transaction of the gate is one writing commit. */
const counting = new Proxy(db, {
  get(target, name, receiver) {
    if (name === 'run' || name === 'transaction') writes += 1
    return Reflect.get(target, name, receiver) as unknown
  },
})

function openGate(rate_limits: Partial<RateLimits>): Connectors {
  const definition = defineConnector({
    connector_type: 'bench',
    name: 'bench',
    description: 'Answers at once.',
    auth: { mode: 'bearer', secret_ref: 'vault://bench' },
    rate_limits,
    operations: [
      {
        name: 'do',
        description: 'Does it.',
        input: z.strictObject({ note: z.string() }),
        output: z.strictObject({ answer: z.string() }),
        side_effect_class: 'keyed',
      },
    ],
    open: () => ({
      name: 'bench',
      connector_type: 'bench',
      capabilities: () => ['do'],
      call: () => Promise.resolve(succeeded({ answer: 'x'.repeat(200) })),
    }),
  })
  const opened = openConnectors([definition], {
    db: counting,
    now: () => new Date(),
    newId,
    sleep: (ms, signal) => wait(ms, undefined, { signal }).catch(() => {}),
    secrets: openSecrets({ vault: () => Promise.resolve('bench-secret-0123456789') }),
  })
  if (!opened.ok) throw new Error(opened.reason)
  return opened.value
}

const signal = new AbortController().signal
const callGate = (gate: Connectors) => async () => {
  const result = await gate.call({
    connector_name: 'bench',
    capability: 'do',
    input: { note: 'x'.repeat(200) },
    command_id: ids.command,
    context: {
      workspace_id: ids.workspace,
      domain_effect_id: ids.effect,
      trace_id: 'trace_bench',
      attempt: 1,
      idempotency_key: newId(),
      signal,
    },
  })
  if (!result.ok) throw new Error(result.error?.message)
}

const insertBare = statement('bench_insert_bare', 'insert into public.bare values ($1, $2, null)')
const updateBare = statement('bench_update_bare', 'update public.bare set done_at = now() where id = $1')
async function bareRecord(to: Db): Promise<void> {
  const id = newId()
  await to.run(insertBare, [id, { note: 'x'.repeat(200) }])
  await to.run(updateBare, [id])
}

const cases = {
  'bare insert and update': () => bareRecord(db),
  'gate, no limits': callGate(openGate({})),
  'gate, 1,000,000 per minute': callGate(openGate({ requests_per_minute: 1_000_000 })),
  'gate, 100 at once': callGate(openGate({ concurrent: 100 })),
} as const

const medianOf = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
const micros = new Map<string, number[]>()
const commits = new Map<string, number>()
for (let round = -2; round < ROUNDS; round += 1) {
  for (const [name, work] of Object.entries(cases)) {
    writes = 0
    const start = performance.now()
    for (let call = 0; call < CALLS; call += 1) await work()
    // The first two rounds warm up plans and caches.
    if (round >= 0) micros.set(name, [...(micros.get(name) ?? []), ((performance.now() - start) * 1_000) / CALLS])
    commits.set(name, writes / CALLS)
  }
}

const bare = medianOf(micros.get('bare insert and update') ?? [])
console.log(`${'case'.padEnd(28)} durable writes   µs per call   beside a bare record`)
for (const [name, values] of micros) {
  const median = medianOf(values)
  const count = name.startsWith('bare') ? 2 : (commits.get(name) ?? Number.NaN)
  console.log(
    `${name.padEnd(28)} ${String(count).padStart(14)} ${median.toFixed(0).padStart(13)} ${(median / bare).toFixed(2).padStart(22)}`,
  )
}
await db.close()
await login.close()
await server.stop()
