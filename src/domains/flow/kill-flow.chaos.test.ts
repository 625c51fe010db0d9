/** kill -9 at the named points of flow: no task is lost, no partition and no event is there twice, and no state runs ahead of its data. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { encodeId } from '#kernel/ids'
import { openTestDb, type TestDb } from '#test/database'
import { type FailpointName, faultEnv } from '#test/fault-plan'
import type { FlowChildTask } from '#test/flow-child'
import { proofSize } from '#test/proof-size'
import { aTenant, aWorld, type Tenant } from '#test/tenant'
import { flowInvariants } from './flow-invariants.ts'

const child = fileURLToPath(new URL('../../../test/support/flow-child.ts', import.meta.url))
const NAMES = 4
/** Kills at each point; `--property-runs=8` makes eight. */
const KILLS = proofSize(1, 1)
/** Three starts of a process for each kill; a busy machine must not fail it. */
const PATIENT_MS = 300_000

type Kill = { readonly point: FailpointName; readonly hit?: number }
/** Each list: one process after the other is killed there, and the next one takes over. */
const cases: readonly (readonly [string, readonly Kill[]])[] = [
  ['a version is written and not switched to', [{ point: 'flow.version_written' }]],
  ['[FLOW-063] [FLOW-082] tasks are created and nobody is woken', [{ point: 'flow.tasks_created' }]],
  ['[FLOW-082] tasks of consumers are written and not committed', [{ point: 'flow.tasks_created', hit: 2 }]],
  ['[FLOW-086] outbox rows are claimed and not handled', [{ point: 'flow.outbox_claimed' }]],
  ['[FLOW-086] [FLOW-088] outbox rows are handled and not done', [{ point: 'flow.outbox_handled' }]],
  ['[FLOW-088] events are routed, handled and not done', [{ point: 'flow.outbox_handled', hit: 2 }]],
  ['[FLOW-082] an event is routed and not committed', [{ point: 'flow.routed' }]],
  ['[FLOW-089] a task is claimed and not run', [{ point: 'flow.claimed' }]],
  ['a task has just been kept', [{ point: 'flow.heartbeat' }]],
  ['[FLOW-096] an operator is done and its task is not completed', [{ point: 'flow.operator_done', hit: 2 }]],
  ['[FLOW-066] [FLOW-082] [FLOW-096] a task is completed and nothing is routed', [{ point: 'flow.completed' }]],
  ['a task has failed and waits for its retry', [{ point: 'flow.failed' }]],
  ['a task is queued again and nobody is woken', [{ point: 'flow.requeued' }]],
  ['a lost task is reaped', [{ point: 'flow.claimed' }, { point: 'flow.reaped' }]],
]

describe('flow whose process is killed', () => {
  let opened: TestDb
  let tenant: Tenant
  let home: string
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 4 })
    tenant = await aTenant({ ...aWorld(opened.db), now: () => new Date() })
    home = await mkdtemp(join(tmpdir(), 'concord-kill-flow-'))
  })
  after(async () => {
    await opened.close()
    await rm(home, { recursive: true, force: true })
  })

  function work(given: Pick<FlowChildTask, 'dag' | 'names' | 'book'>, kill?: Kill): Promise<string | number | null> {
    const task: FlowChildTask = {
      url: opened.url,
      orgId: tenant.orgId,
      workspaceId: tenant.workspace.id,
      ...given,
    }
    const plan = kill ? faultEnv([{ point: kill.point, hit: kill.hit ?? 1, act: 'kill' }]) : {}
    const running = spawn(process.execPath, [child, JSON.stringify(task)], {
      env: { ...process.env, ...plan },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    return new Promise((resolve) => running.on('exit', (code, signal) => resolve(signal ?? code)))
  }

  async function killAndFinish(dag: string, kills: readonly Kill[]): Promise<void> {
    const names = Array.from({ length: NAMES }, (_, nth) => `${dag}_${nth}`)
    const given = { dag, names, book: join(home, dag) }
    for (const kill of kills) assert.equal(await work(given, kill), 'SIGKILL', kill.point)
    // Two take over at the same time.
    assert.deepEqual(await Promise.all([work(given), work(given)]), [0, 0])

    const tasks = await opened.db.query<{ id: string; job: string; status: string; key: string; partition: string }>(
      `select t.id, j.name as job, t.status, t.dedupe_key as key, t.outputs->0->'partitions'->>0 as partition
         from flow.tasks t join flow.jobs j on j.id = t.job_id where j.dag_name = $1`,
      [dag],
    )
    assert.deepEqual([...new Set(tasks.map(({ status }) => status))], ['Completed'], 'no task is lost')
    const pulled = tasks.filter(({ job }) => job === 'pull')
    assert.deepEqual(pulled.map(({ key }) => key).sort(), names.map((name) => `event:${name}`).sort())
    const partitions = pulled.map(({ id }) => encodeId('flow_task', id)).sort()
    for (const name of ['pull', 'left', 'right', 'both']) {
      const done = tasks.filter(({ job }) => job === name).map(({ partition }) => partition)
      assert.deepEqual(done.sort(), partitions, `${name} has each partition once`)
    }

    const written = await opened.db.query<{ name: string; generation: number; times: number }>(
      `select d.name, p.generation, count(*)::int as times from flow.dataset_partitions p
         join flow.dataset_versions v on v.id = p.dataset_version join flow.datasets d on d.id = v.dataset_uuid
        where d.producer_dag_name = $1 group by 1, 2 order by 1`,
      [dag],
    )
    const once = ['both', 'left', 'pull', 'right'].map((job) => ({
      name: `${job}_${dag}`,
      generation: 1,
      times: NAMES,
    }))
    assert.deepEqual(written, once, 'no partition is materialised twice')

    // The state of the source names exactly the tasks that have completed, each once.
    const [state] = await opened.db.query<{ tasks: string[] }>(
      `select s.state->'tasks' as tasks from flow.operator_state s join flow.jobs j on j.id = s.job_id where j.dag_name = $1 and j.name = 'pull'`,
      [dag],
    )
    assert.deepEqual(state?.tasks.toSorted(), partitions)

    const runs = (await readFile(given.book, 'utf8')).trim().split('\n')
    assert.equal(new Set(runs).size, runs.length, 'an attempt runs once')
    for (const { code, sql } of flowInvariants) assert.deepEqual(await opened.db.query(sql), [], code)
  }

  for (const [at, [title, kills]] of cases.entries())
    test(`${title}: kill -9 there`, { timeout: PATIENT_MS * KILLS }, async () => {
      for (let nth = 0; nth < KILLS; nth++) await killAndFinish(`k${at}_${nth}`, kills)
    })
})
