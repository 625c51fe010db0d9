/** Several jobs that belong together, put into the queue in one transaction: all of them or none. */
import type { z } from 'zod'
import { accept, type Decision } from '#kernel/refusal'
import { submitGroupBody } from './contract.ts'
import { parseInput } from './parse-input.ts'
import { countGroup, type GroupCounts, insertGroup, listStoredGroups, requireGroup } from './group-repository.ts'
import { type GroupStatus, groupStatusOf } from './group-status.ts'
import { checkLimit } from './list-jobs.ts'
import { prepareJob } from './prepare-job.ts'
import { nowMs, type Scheduler } from './scheduler.ts'
import type { StoredGroup, StoredJob } from './stored-rows.ts'
import { addJob } from './submit-job.ts'

export type SubmittedGroup = { readonly group: StoredGroup; readonly jobs: readonly StoredJob[] }

/** Sequential: the first takes its place in the queue, each other one when the member before it has come to its end. */
export function submitGroup(scheduler: Scheduler, body: z.input<typeof submitGroupBody>): Decision<SubmittedGroup> {
  const parsed = parseInput(submitGroupBody, body)
  if (!parsed.ok) return parsed
  const { name = null, mode, on_failure, jobs: wantedJobs } = parsed.value
  return scheduler.db.write((tx) => {
    const group = insertGroup(tx, { group_id: scheduler.deps.newId(), name, mode, on_failure, now: nowMs(scheduler) })
    const jobs: StoredJob[] = []
    for (const [index, { not_before, ...wanted }] of wantedJobs.entries()) {
      const prepared = prepareJob(tx, wanted)
      if (!prepared.ok) return { ...prepared, path: [`jobs[${index}]`, prepared.path].filter(Boolean).join('.') }
      jobs.push(addJob(scheduler, tx, prepared.value, { notBefore: not_before, group, order: index + 1 }))
    }
    return accept({ group, jobs })
  })
}

export type GroupReport = { readonly group: StoredGroup; readonly status: GroupStatus; readonly counts: GroupCounts }

/** Newest first; `before` is the last one seen. */
export function listGroups(
  scheduler: Scheduler,
  page: { readonly limit?: number; readonly before?: string } = {},
): Decision<readonly GroupReport[]> {
  const limit = checkLimit(page.limit)
  if (!limit.ok) return limit
  return scheduler.db.read((reader) =>
    listStoredGroups(reader, limit.value, page.before).map((group) => {
      const counts = countGroup(reader, group.group_id)
      return { group, status: groupStatusOf(counts), counts }
    }),
  )
}

export function readGroup(scheduler: Scheduler, groupId: string): Decision<GroupReport> {
  const read = scheduler.db.read((reader): Decision<GroupReport> => {
    const group = requireGroup(reader, groupId)
    if (!group.ok) return group
    const counts = countGroup(reader, groupId)
    return accept({ group: group.value, status: groupStatusOf(counts), counts })
  })
  return read.ok ? read.value : read
}
