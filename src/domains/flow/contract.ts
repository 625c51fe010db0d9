/** The API shapes of the calls of flow workers. */
import { z } from 'zod'
import { idField, idView, jsonObjectField, nameField, textField, textView, timeView } from '#contract'
import { encodeId } from '#kernel/ids'
import { formatInstant } from '#kernel/instant'
import type { FlowTaskPayload } from './operator.ts'
import type { StoredFlowTask } from './task.ts'

const WAIT_SECONDS_MAX = 20
const OPERATORS_MAX = 50
const OUTPUTS_MAX = 100
const PARTITIONS_MAX = 1_000
const KEY_CHARS_MAX = 255
const MESSAGE_CHARS_MAX = 4_000

const uuid = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'
const held = {
  task_id: idField('flow_task'),
  attempt: z.int().min(1).meta({ example: 1 }),
  lease_token: z.uuid().meta({ example: uuid, description: 'From the claim.' }),
}
const key = nameField('2026-05-01', KEY_CHARS_MAX)

export const claimFlowTaskBody = z
  .strictObject({
    worker_id: nameField('w1', 100),
    operators: z
      .array(nameField('count_rows', 100))
      .min(1)
      .max(OPERATORS_MAX)
      .meta({ example: ['count_rows'] }),
    wait_s: z
      .int()
      .min(0)
      .max(WAIT_SECONDS_MAX)
      .default(0)
      .meta({ example: 20, description: 'How long to wait for a task.' }),
  })
  .meta({ id: 'ClaimFlowTask' })

export const keepFlowTaskBody = z
  .strictObject({
    ...held,
    draining: z.boolean().default(false).meta({ example: false, description: 'The worker has been told to stop.' }),
  })
  .meta({ id: 'KeepFlowTask' })

export const completeFlowTaskBody = z
  .strictObject({
    ...held,
    outputs: z
      .array(
        z.strictObject({
          index: z.int().min(0).meta({ example: 0 }),
          partitions: z
            .array(key)
            .max(PARTITIONS_MAX)
            .default([])
            .meta({ example: ['2026-05-01'] }),
          cursor: nameField('99', KEY_CHARS_MAX).optional(),
          metrics: jsonObjectField().optional(),
        }),
      )
      .max(OUTPUTS_MAX)
      .default([])
      .meta({ example: [{ index: 0, partitions: ['2026-05-01'], metrics: { rows: 42 } }] }),
    state: jsonObjectField().optional(),
  })
  .meta({ id: 'CompleteFlowTask' })

export const failFlowTaskBody = z
  .strictObject({
    ...held,
    error: textField(MESSAGE_CHARS_MAX, { filled: true }).meta({ example: 'The file is empty.' }),
    retryable: z.boolean().default(true).meta({ example: true }),
  })
  .meta({ id: 'FailFlowTask' })

export const flowEventBody = z
  .strictObject({
    dataset: nameField('orders', 63),
    event_id: nameField('evt-17', 200).meta({
      example: 'evt-17',
      description: 'The same id again makes no second task.',
    }),
    payload: jsonObjectField().optional(),
  })
  .meta({ id: 'FlowEvent' })

export const flowEventView = z.object({ is_new: z.boolean().meta({ example: true }) }).meta({ id: 'FlowEventTaken' })

export const fetchFlowTaskBody = z.strictObject(held).meta({ id: 'FetchFlowTask' })

export const flowTaskStatus = z
  .enum(['Queued', 'Running', 'Completed', 'Failed', 'Canceled'])
  .meta({ example: 'Running' })

export const heldFlowTaskView = z
  .object({
    task_id: idView('flow_task'),
    status: flowTaskStatus,
    attempt: z.int().meta({ example: 1 }),
    lease_expires_at: timeView().nullable(),
    next_retry_at: timeView('When the next attempt begins; null if there is none.').nullable(),
  })
  .meta({ id: 'HeldFlowTask' })

const place = { dataset: textView('orders'), version: idView('dataset_version') }

const payload = z.object({
  task_id: idView('flow_task'),
  attempt: z.int().meta({ example: 1 }),
  lease_token: textView(uuid),
  lease_expires_at: timeView(),
  job: z.object({
    name: textView('daily'),
    dag: textView('shop'),
    operator: textView('count_rows'),
    config: z.record(z.string(), z.unknown()).meta({ example: {} }),
    update_strategy: textView('replace'),
    unique_key: z.array(z.string()).meta({ example: ['id'] }),
  }),
  partitions: z.array(z.string()).meta({ example: ['2026-05-01'] }),
  inputs: z.array(
    z.object({
      ...place,
      partition: textView('2026-05-01').nullable(),
      materialized_at: timeView().nullable(),
    }),
  ),
  outputs: z.array(
    z.object({
      index: z.int().meta({ example: 0 }),
      ...place,
    }),
  ),
  state: z
    .record(z.string(), z.unknown())
    .meta({ example: {}, description: 'What the operator remembers, by state key.' }),
})
export const flowTaskView = payload.meta({ id: 'FlowTaskPayload' })
export const claimedFlowTaskView = flowTaskView.nullable()

/** JSON is the same in both; only the type that describes it differs. */
export const toFlowTaskView = (task: FlowTaskPayload) => task as unknown as z.output<typeof flowTaskView>
export const toClaimedFlowTask = (task: FlowTaskPayload | null) => task && toFlowTaskView(task)

export const toHeldFlowTask = ({ id, status, attempt, lease_expires_at, next_retry_at }: StoredFlowTask) => ({
  task_id: encodeId('flow_task', id),
  status,
  attempt,
  lease_expires_at: lease_expires_at && formatInstant(lease_expires_at),
  next_retry_at: next_retry_at && formatInstant(next_retry_at),
})
