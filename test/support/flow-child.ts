/**
 * A process that deploys a DAG, makes the tasks of its source and works on everything until it is done, or until a planned fault ends it. Argument: a JSON object.
 * Its queue is a list in memory: what a killed process had there is lost, and the next one fills it again from the rows.
 */
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { systemDeps } from '../../src/app/system-deps.ts'
import { readDag } from '../../src/domains/flow/dag-file.ts'
import { findCurrentVersion } from '../../src/domains/flow/dag.ts'
import { deployDag } from '../../src/domains/flow/deploy.ts'
import type { FlowDeps } from '../../src/domains/flow/deps.ts'
import { reapTasks, requeueTasks } from '../../src/domains/flow/end-task.ts'
import { defineOperator } from '../../src/domains/flow/operator.ts'
import { openOperators } from '../../src/domains/flow/operators.ts'
import { drainFlow, rehydrateTasks } from '../../src/domains/flow/route.ts'
import { openTaskDrive } from '../../src/domains/flow/run-task.ts'
import { createTasks } from '../../src/domains/flow/task.ts'
import { openDb } from '../../src/store/db.ts'
import { nextFence } from './commands.ts'
import { accepted } from './tenant.ts'

export type FlowChildTask = {
  readonly url: string
  readonly orgId: string
  readonly workspaceId: string
  readonly dag: string
  /** Each is an event of the source, and then a partition of every dataset. */
  readonly names: readonly string[]
  /** One line per run of an operator. */
  readonly book: string
}

const { url, orgId, workspaceId, dag, names, book } = JSON.parse(process.argv[2] ?? '') as FlowChildTask
const VISIBILITY_MS = 700
const BEAT_MS = 300
const { newId, random, now } = systemDeps()
const db = openDb({ url, role: 'concord_engine', poolMax: 6 })

/** The source writes the partition of its event; the others write what they were given. The first attempt of each `left` fails. */
const work = defineOperator({
  name: 'work',
  config: z.object({ role: z.string() }),
  async do({ config: { role }, partitions, task_id, attempt, state }) {
    appendFileSync(book, `${role} ${task_id} ${attempt}\n`)
    await pause(10)
    if (role === 'left' && attempt === 1) throw new Error('The first attempt fails.')
    const seen = z.object({ default: z.object({ tasks: z.array(z.string()) }) }).safeParse(state)
    const tasks = [...(seen.data?.default.tasks ?? []), task_id]
    return { outputs: [{ index: 0, partitions: role === 'pull' ? [task_id] : partitions }], state: { tasks } }
  },
})

const queue: string[] = []
const deps: FlowDeps = {
  commands: { db, now, newId } as unknown as FlowDeps['commands'],
  runtime: {
    wake: async ({ id }) => void queue.push(id),
    schedule: () => Promise.reject(new Error('not here')),
    unschedule: async () => false,
  },
  operators: openOperators([work], fetch),
  random,
  data: {} as FlowDeps['data'],
  announce: () => {},
  keepAlive(everyMs, beat) {
    const beats = [beat()]
    const timer = setInterval(() => beats.push(beat()), Math.min(everyMs, BEAT_MS))
    return async () => {
      clearInterval(timer)
      await Promise.all(beats)
    }
  },
}

const job = (role: string, rest: string) =>
  `  - { name: ${role}, runtime: dispatcher, operator: work, config: { role: ${role} }, heartbeat_timeout_seconds: 1, max_attempts: 20, outputs: [${role}_${dag}], update_strategy: replace, ${rest} }`
const reads = (inputs: string, more = '') =>
  `activation: reactive, execution_strategy: PerPartition, inputs: [${inputs}]${more}`
const yaml = [
  `dag: ${dag}`,
  'jobs:',
  // One at a time, so that each sees the state that the one before has left.
  job('pull', 'activation: source, source: { kind: event }, scaling: { max_concurrency: 1 }'),
  job('left', reads(`pull_${dag}`)),
  job('right', reads(`pull_${dag}`)),
  job('both', reads(`left_${dag}, right_${dag}`, ', when: all')),
].join('\n')

async function deploy(): Promise<void> {
  const spec = accepted(readDag(Buffer.from(yaml), deps))
  if (await findCurrentVersion(db, orgId, dag)) return
  const asked = { orgId, workspaceId, commandId: null, spec, versionId: newId(), previousId: null }
  accepted(await db.transaction((tx) => deployDag(deps, tx, asked)))
}

async function start(): Promise<void> {
  const [pull] = await db.query<{ id: string }>(`select id from flow.jobs where name = 'pull' and dag_name = $1`, [dag])
  const tasks = names.map((name) => ({ jobId: pull?.id ?? '', dedupeKey: `event:${name}`, causedBy: { kind: 'test' } }))
  await createTasks(deps, db, tasks)
}

const isDone = async () => {
  const [row] = await db.query<{ done: boolean }>(
    `select (select count(*) from flow.tasks t join flow.jobs j on j.id = t.job_id where j.dag_name = $1 and j.name = 'both' and t.status = 'Completed') >= $2::int
       and not exists (select from flow.outbox where status in ('Pending', 'Processing')) as done`,
    [dag, names.length],
  )
  return row?.done === true
}

await deploy()
await start()
await rehydrateTasks(deps)
const drive = openTaskDrive(deps)
while (!(await isDone())) {
  await drainFlow(deps, { visibilityMs: VISIBILITY_MS })
  await reapTasks(deps)
  // A retry is due at once: the test waits for no backoff.
  await db.query(`update flow.tasks set next_retry_at = now() where status = 'Failed' and next_retry_at > now()`)
  await requeueTasks(deps)
  const turn = queue.splice(0)
  const results = await Promise.all(turn.map(async (id) => ({ id, next: await drive(id, nextFence()) })))
  queue.push(...results.filter(({ next }) => next.t === 'wait').map(({ id }) => id))
  if (turn.length === 0) await pause(30)
}
await db.close()
