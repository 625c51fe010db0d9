/** A flow room on a test database: DAGs are deployed without a command, and the test drains, sweeps and works. */
import { z } from 'zod'
import type { DataStore } from '../../src/domains/flow/data-store.ts'
import { readDag } from '../../src/domains/flow/dag-file.ts'
import { findCurrentVersion } from '../../src/domains/flow/dag.ts'
import { deployDag } from '../../src/domains/flow/deploy.ts'
import type { FlowDeps } from '../../src/domains/flow/deps.ts'
import { completeFlowTask, type TaskHolder } from '../../src/domains/flow/end-task.ts'
import { defineOperator, type Operator } from '../../src/domains/flow/operator.ts'
import { openOperators } from '../../src/domains/flow/operators.ts'
import { drainFlow } from '../../src/domains/flow/route.ts'
import type { OutputReport } from '../../src/domains/flow/decide-flow.ts'
import { claimFlowTask, createTasks, type StoredFlowTask } from '../../src/domains/flow/task.ts'
import type { Decision } from '../../src/kernel/refusal.ts'
import type { Process } from '../../src/runtime/port.ts'
import { openTestDb, type TestDb } from './database.ts'
import { aTenant, aWorld, type Tenant } from './tenant.ts'

const anyOperator = (name: string): Operator => defineOperator({ name, config: z.record(z.string(), z.json()) })

const noData = new Proxy({} as DataStore, {
  get: (_, name) => () => Promise.reject(new Error(`The test has no data store for ${String(name)}.`)),
})

export type FlowRoom = {
  readonly opened: TestDb
  readonly tenant: Tenant
  readonly deps: FlowDeps
  readonly woken: Process[]
  deploy(
    yaml: string,
    tenant?: Tenant,
  ): Promise<Decision<{ readonly version: { readonly id: string }; readonly isNew: boolean }>>
  /** Makes a task of a job of the current version, as a source does. */
  start(job: string, key?: string | null): Promise<string | undefined>
  claim(operator: string, workerId?: string): Promise<StoredFlowTask | undefined>
  complete(task: StoredFlowTask, outputs?: readonly OutputReport[], more?: object): ReturnType<typeof completeFlowTask>
  holder(task: StoredFlowTask): TaskHolder
  /** Until the outbox has nothing due. */
  drain(): Promise<void>
  tasks(job?: string): Promise<readonly (StoredFlowTask & { readonly job: string })[]>
  close(): Promise<void>
}

export async function openFlowRoom(
  more: Partial<FlowDeps> = {},
  operators: readonly Operator[] = [],
): Promise<FlowRoom> {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 12 })
  const { db } = opened
  const world = aWorld(db)
  const tenant = await aTenant(world)
  const woken: Process[] = []
  const deps: FlowDeps = {
    // Only these are used outside of commands.
    commands: { db, now: () => new Date(), newId: world.newId } as unknown as FlowDeps['commands'],
    runtime: {
      wake: async (process) => void woken.push(process),
      schedule: () => Promise.reject(new Error('not here')),
      unschedule: async () => false,
    },
    operators: openOperators([anyOperator('pull'), anyOperator('count_rows'), ...operators], fetch),
    random: () => 0,
    data: noData,
    announce: () => {},
    keepAlive: () => async () => {},
    ...more,
  }
  const room: FlowRoom = {
    opened,
    tenant,
    deps,
    woken,
    async deploy(yaml, of = tenant) {
      const spec = readDag(Buffer.from(yaml), deps)
      if (!spec.ok) return spec
      const previousId = (await findCurrentVersion(db, of.orgId, spec.value.dag))?.id ?? null
      const asked = {
        orgId: of.orgId,
        workspaceId: of.workspace.id,
        commandId: null,
        spec: spec.value,
        versionId: world.newId(),
        previousId,
      }
      return db.transaction((tx) => deployDag(deps, tx, asked))
    },
    async start(job, key = null) {
      const [found] = await db.query<{ id: string }>(
        `select j.id from flow.jobs j join flow.dag_current_versions c on c.dag_version_id = j.dag_version_id where j.name = $1 and j.org_id = $2`,
        [job, tenant.orgId],
      )
      if (!found) throw new Error(`There is no job ${job}.`)
      const [made] = await createTasks(deps, db, [{ jobId: found.id, dedupeKey: key, causedBy: { kind: 'test' } }])
      return made?.id
    },
    claim: (operator, workerId = 'w1') => claimFlowTask(deps, { orgId: tenant.orgId, operators: [operator], workerId }),
    holder: (task) => ({
      orgId: tenant.orgId,
      taskId: task.id,
      leaseToken: task.lease_token ?? '',
      attempt: task.attempt,
    }),
    complete: (task, outputs = [], rest = {}) => completeFlowTask(deps, { ...room.holder(task), outputs, ...rest }),
    async drain() {
      while ((await drainFlow(deps)).claimed > 0);
    },
    tasks: (job) =>
      db.query(
        `select t.*, j.name as job from flow.tasks t join flow.jobs j on j.id = t.job_id where ($1::text is null or j.name = $1) order by t.created_at, t.id`,
        [job ?? null],
      ),
    close: () => opened.close(),
  }
  return room
}

/** A source, two consumers of its dataset, and a job that needs both. */
export const DIAMOND = `
dag: shop
jobs:
  - { name: pull, activation: source, runtime: ecs_udf, operator: pull, source: { kind: event }, update_strategy: append, unique_key: [id], outputs: [orders] }
  - { name: left, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerPartition, inputs: [orders], outputs: [lefts], update_strategy: replace }
  - { name: right, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerPartition, inputs: [orders], outputs: [rights], update_strategy: replace }
  - { name: both, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerPartition, when: all, inputs: [lefts, rights], outputs: [totals], update_strategy: replace }
`
