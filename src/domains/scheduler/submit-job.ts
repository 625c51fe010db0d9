/** Puts a job at the end of its priority, in one transaction with everything that decides where it stands. */
import type { z } from 'zod'
import { KernelFault } from '#kernel/errors'
import { accept, type Decision } from '#kernel/refusal'
import { submitJobBody } from './contract.ts'
import type { Tx } from './database.ts'
import { parseInput } from './parse-input.ts'
import { nextGroupOrder } from './group-repository.ts'
import { type PreparedJob, prepareJob } from './prepare-job.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import { placeInGroup, requireOpenGroup } from './settle-group.ts'
import { insertJob, type NewJobRow } from './sql/insert-job.ts'
import type { StoredGroup, StoredJob } from './stored-rows.ts'

export type SubmitJob = z.input<typeof submitJobBody>

export function submitJob(scheduler: Scheduler, body: SubmitJob): Decision<StoredJob> {
  const parsed = parseInput(submitJobBody, body)
  if (!parsed.ok) return parsed
  const { group_id, not_before, ...wanted } = parsed.value
  const submitted = scheduler.db.write((tx): Decision<StoredJob> => {
    const prepared = prepareJob(tx, wanted)
    if (!prepared.ok) return prepared
    if (group_id === undefined) return accept(addJob(scheduler, tx, prepared.value, { notBefore: not_before }))
    const group = requireOpenGroup(tx, group_id)
    if (!group.ok) return group
    const order = nextGroupOrder(tx, group_id)
    return accept(addJob(scheduler, tx, prepared.value, { notBefore: not_before, group: group.value, order }))
  })
  if (submitted.ok) scheduler.pass('submit.committed')
  return submitted
}

export type Placing = {
  readonly notBefore?: Date | undefined
  readonly group?: StoredGroup
  readonly order?: number
  readonly scheduleId?: string
}

/** The one way a job of the queue comes into being, retries aside. */
export function addJob(scheduler: Scheduler, tx: Tx, prepared: PreparedJob, placing: Placing = {}): StoredJob {
  const now = nowMs(scheduler)
  const { group, order = 1, scheduleId } = placing
  const notBefore = placing.notBefore?.getTime() ?? null
  const place = group && placeInGroup(tx, group, order)
  const isEarly = notBefore !== null && notBefore > now
  const job = insertNewJob(tx, {
    job_id: scheduler.deps.newId(),
    ...prepared,
    schedule_id: scheduleId ?? null,
    group_id: group?.group_id ?? null,
    now,
    group_order: place?.group_order ?? null,
    reservation_id: null,
    hold: place?.isHeld ? 'group' : isEarly ? 'delay' : null,
    not_before: notBefore,
  })
  scheduler.pass('submit.inserted')
  return job
}

export function insertNewJob(tx: Tx, row: NewJobRow): StoredJob {
  const job = tx.one(insertJob, row)
  if (!job) throw new KernelFault('scheduler.insert', 'an insert without conditions gave no row')
  return job
}
