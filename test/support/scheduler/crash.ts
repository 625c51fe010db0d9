/**
 * Run as a child process by `kill.chaos.test.ts`: repeats a story of jobs, retries, reservations and schedules on one file until
 * the plan on its command line kills it. Each job writes a record to a separate file before it ends, as a job program would.
 */
import { appendFileSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { uuidV7Generator } from '#kernel/ids'
import { claimJobs } from '../../../src/domains/scheduler/claim-next.ts'
import { createSchedule } from '../../../src/domains/scheduler/schedule.ts'
import { createTemplate } from '../../../src/domains/scheduler/job-template.ts'
import { fireDueSchedules } from '../../../src/domains/scheduler/fire-schedules.ts'
import { finishRun } from '../../../src/domains/scheduler/finish-run.ts'
import { openScheduler } from '../../../src/domains/scheduler/open-scheduler.ts'
import type { SchedulerFault } from '../../../src/domains/scheduler/failpoints.ts'
import { recover } from '../../../src/domains/scheduler/recover.ts'
import { releaseReservation, renewReservation, reserve } from '../../../src/domains/scheduler/reservations.ts'
import { must } from './fixture.ts'
import { startDirectJob } from '../../../src/domains/scheduler/direct-job.ts'
import { submitJob } from '../../../src/domains/scheduler/submit-job.ts'

export type CrashPlan = {
  readonly file: string
  readonly faults: readonly SchedulerFault[]
  readonly startMs: number
  readonly coverFile: string
  readonly execLog: string
  readonly ackLog: string
}

const plan = JSON.parse(process.argv[2] ?? '{}') as CrashPlan
let nowMs = plan.startMs
const now = () => new Date(nowMs)
const scheduler = must(
  openScheduler({
    file: plan.file,
    deps: { now, random: () => 0.5, newId: uuidV7Generator(() => new Date(), randomBytes) },
    points: { faults: plan.faults, coverFile: plan.coverFile },
  }),
)
must(await recover(scheduler, { endOrphan: async () => 'gone' }))
const template = createTemplate(scheduler, { name: 'hourly', job_type: 'research' })
if (template.ok)
  must(
    createSchedule(scheduler, {
      template_id: template.value.template_id,
      name: 'hourly',
      cron_expression: '0 * * * *',
    }),
  )

function work(run: { readonly runId: string; readonly job: { readonly job_id: string } }, index: number): void {
  appendFileSync(plan.execLog, `${JSON.stringify({ jobId: run.job.job_id, runId: run.runId })}\n`)
  must(finishRun(scheduler, run.runId, index % 3 === 0 ? { outcome: 'failed', error: 'no' } : { outcome: 'completed' }))
}

for (let round = 0; round < 2; round++) {
  for (let count = 0; count < 2; count++)
    appendFileSync(plan.ackLog, `${must(submitJob(scheduler, { job_type: 'story' })).job_id}\n`)
  nowMs += 1_800_000
  must(fireDueSchedules(scheduler))
  for (let index = 0; index < 3; index++) {
    nowMs += 10
    for (const run of must(claimJobs(scheduler)).runs) work(run, index + round)
  }
  nowMs += 10
  const { reservation_id } = must(reserve(scheduler, { reserved_by: 'crash' }))
  nowMs += 10
  must(renewReservation(scheduler, reservation_id))
  work(must(startDirectJob(scheduler, reservation_id, { job_type: 'research' })), 1)
  nowMs += 10
  // Every other reservation expires.
  if (round % 2 === 1) must(releaseReservation(scheduler, reservation_id))
  else nowMs += 300_000
}
scheduler.close()
