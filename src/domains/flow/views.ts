/** The API shapes of what people read. */
import { z } from 'zod'
import { idView, orNull, pageView, textView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import { flowTaskStatus } from './contract.ts'
import {
  type explainFlowTask,
  type listDags,
  type listDagVersions,
  type listFlowJobs,
  type ReadFlowTask,
  sayCause,
  sayStanding,
} from './read-flow.ts'

type Row<List extends (...args: never[]) => Promise<readonly unknown[]>> = Awaited<ReturnType<List>>[number]
type ValueOf<Read extends (...args: never[]) => Promise<unknown>> =
  Extract<Awaited<ReturnType<Read>>, { readonly ok: true }> extends { readonly value: infer Value } ? Value : never

const dag = textView('shop')
const names = z.array(z.string()).meta({ example: ['orders'] })
const at = (time: Date | null) => orNull(time, formatInstant)

const dagView = z
  .object({ dag, version: idView('dag_version'), jobs: z.int().meta({ example: 2 }), deployed_at: timeView() })
  .meta({ id: 'FlowDag' })
export const dagPageView = pageView(dagView, 'FlowDagPage')
export const toDagView = ({ dag_name, id, jobs, deployed_at }: Row<typeof listDags>) => ({
  dag: dag_name,
  version: encodeId('dag_version', id),
  jobs,
  deployed_at: formatInstant(deployed_at),
})

const dagVersionView = z
  .object({
    version: idView('dag_version'),
    is_current: z.boolean().meta({ example: true, description: 'Whether this version serves.' }),
    command_id: idView('command', 'The command that deployed it first.').nullable(),
    created_at: timeView(),
  })
  .meta({ id: 'FlowDagVersion' })
export const dagVersionPageView = pageView(dagVersionView, 'FlowDagVersionPage')
export const toDagVersionView = (row: ValueOf<typeof listDagVersions>[number]) => ({
  version: encodeId('dag_version', row.id),
  is_current: row.is_current,
  command_id: orNull(row.command_id, (id) => encodeId('command', id)),
  created_at: formatInstant(row.created_at),
})

const jobView = z
  .object({
    dag,
    job: textView('daily'),
    state: z
      .enum(['Pending', 'Running', 'Dead', 'Draining', 'Idle'])
      .meta({ example: 'Running', description: 'Computed from its tasks.' }),
    activation: z.enum(['source', 'reactive']).meta({ example: 'reactive' }),
    runtime: textView('ecs_udf'),
    operator: textView('count_rows'),
    inputs: names,
    outputs: names,
    queued: z.int().meta({ example: 0 }),
    running: z.int().meta({ example: 1 }),
    last_activity_at: timeView().nullable(),
  })
  .meta({ id: 'FlowJob' })
export const flowJobPageView = pageView(jobView, 'FlowJobPage')
export const toFlowJobView = (row: Row<typeof listFlowJobs>) => ({
  dag: row.dag_name,
  job: row.name,
  state: row.state,
  activation: row.activation,
  runtime: row.runtime,
  operator: row.operator,
  inputs: [...row.inputs],
  outputs: [...row.outputs],
  queued: row.queued,
  running: row.running,
  last_activity_at: at(row.last_activity_at),
})

export const readFlowTaskView = z
  .object({
    task_id: idView('flow_task'),
    dag,
    job: textView('daily'),
    status: flowTaskStatus,
    attempt: z.int().meta({ example: 1 }),
    max_attempts: z.int().nullable().meta({ example: 3 }),
    partitions: z.array(z.string()).meta({ example: ['2026-05-01'] }),
    dedupe_key: textView('event:evt-17', 'A job has one task per key.').nullable(),
    worker_id: textView('w1').nullable(),
    error: textView('The file is empty.').nullable(),
    memo_of: idView('flow_task', 'The task whose outputs it has.').nullable(),
    command_id: idView('command', 'The command that it follows.').nullable(),
    created_at: timeView(),
    started_at: timeView().nullable(),
    completed_at: timeView().nullable(),
    next_retry_at: timeView().nullable(),
  })
  .meta({ id: 'FlowTask' })
export const readFlowTaskPageView = pageView(readFlowTaskView, 'FlowTaskPage')
export const toReadFlowTaskView = (task: ReadFlowTask) => ({
  task_id: encodeId('flow_task', task.id),
  dag: task.dag,
  job: task.job,
  status: task.status,
  attempt: task.attempt,
  max_attempts: task.max_attempts,
  partitions: [...(task.partitions ?? [])],
  dedupe_key: task.dedupe_key,
  worker_id: task.worker_id,
  error: task.error_message,
  memo_of: orNull(task.memo_of, (id) => encodeId('flow_task', id)),
  command_id: orNull(task.command_id, (id) => encodeId('command', id)),
  created_at: formatInstant(task.created_at),
  started_at: at(task.started_at),
  completed_at: at(task.completed_at),
  next_retry_at: at(task.next_retry_at),
})

export const flowTaskWhyView = z
  .object({
    task: readFlowTaskView,
    cause: textView('The event "evt-17" was reported.', 'Why the task exists.'),
    standing: textView('Attempt 1 of 3 waits for a worker.', 'Why it stands where it stands.'),
    caused_by: z
      .record(z.string(), z.unknown())
      .meta({ example: { kind: 'event', event_id: 'evt-17' }, description: 'As recorded with the task.' }),
    inputs: z.array(
      z.object({
        dataset: textView('orders'),
        partition: textView('2026-05-01').nullable(),
        materialized_at: timeView().nullable(),
      }),
    ),
  })
  .meta({ id: 'FlowTaskWhy' })
export const toFlowTaskWhyView = (task: ValueOf<typeof explainFlowTask>) => ({
  task: toReadFlowTaskView(task),
  cause: sayCause(task),
  standing: sayStanding(task),
  caused_by: task.caused_by ?? {},
  // The database writes times into JSON in its own form.
  inputs: task.read.map(({ dataset, partition, at: time }) => ({
    dataset,
    partition,
    materialized_at: orNull(time, (each) => formatInstant(new Date(each))),
  })),
})
