/** The refusals of the scheduler of one machine: each code with its kind and the next step. */
import { isUnavailable, type Refusal, type RefusalTable } from '#kernel/refusal'
import { kernelRefusals } from '#kernel/refusals'

export const schedulerRefusals = {
  'scheduler.file.locked': ['conflict', 'Ask the running scheduler, or stop it first.'],
  'scheduler.file.malformed': ['malformed', 'Keep a copy, and start with a file of a backup or a new one.'],
  'scheduler.file.network_mount': ['configuration', 'Put the file on a disk of this machine.'],
  'scheduler.file.read_only': ['configuration', 'Name a file that you may write.'],
  'scheduler.file.foreign': ['configuration', 'Name another file: this one belongs to another program.'],
  'scheduler.file.newer': ['configuration', 'Use the version of Concord that wrote it, or a later one.'],
  'scheduler.file.older': ['configuration', 'Start its scheduler once: the start brings the file up to date.'],
  'scheduler.file.changed': ['configuration', 'Use the version of Concord that wrote it.'],
  'scheduler.file.io': ['unavailable', 'Check the disk, then try again.'],
  'scheduler.setting.invalid': ['configuration', 'Fix the named setting.'],
  'scheduler.not_owner': ['conflict', 'Ask the running scheduler to do it.'],
  'scheduler.not_recovered': ['conflict', 'Wait until recovery has ended.'],
  'scheduler.not_enabled': [
    'not_found',
    'Set CONCORD_SCHEDULER_FILE to a file on a local disk and start the server again.',
  ],
  'scheduler.not_running': ['unavailable', 'Start it with `concord scheduler run`.'],
  'scheduler.check.broken': ['invalid', 'Keep a copy of the file; the next start repairs what can be repaired.'],
  'scheduler.job.not_found': ['not_found', 'Check the id: `concord jobs list` shows the jobs.'],
  'scheduler.job.not_queued': ['conflict', 'Only a job that waits can be changed; add another one.'],
  'scheduler.job_type.unknown': [
    'invalid',
    'Name a type that is registered, or register it with --types or CONCORD_SCHEDULER_TYPES.',
  ],
  'scheduler.queue.other_priority': ['conflict', 'Give the job the other priority first.'],
  'scheduler.run.not_found': ['not_found', 'Check the id: the job names its runs.'],
  'scheduler.run.finished': ['conflict', 'There is nothing to do: the first outcome stands.'],
  'scheduler.template.not_found': ['not_found', 'Check the id: `concord job-templates list` shows the templates.'],
  'scheduler.template.name_taken': ['conflict', 'Choose another name, or change that one.'],
  'scheduler.template.in_use': ['conflict', 'Delete the schedule, or give it another template.'],
  'scheduler.params.invalid': ['invalid', 'Send params that fit the schema of the template.'],
  'scheduler.schema.keyword': ['invalid', 'Fix the schema at the named position.'],
  'scheduler.group.not_found': ['not_found', 'Check the id: `concord job-groups list` shows the groups.'],
  'scheduler.group.halted': ['conflict', 'Make a new group for what is left to do.'],
  'scheduler.schedule.not_found': ['not_found', 'Check the id: `concord jobs schedule list` shows the schedules.'],
  'scheduler.schedule.name_taken': ['conflict', 'Choose another name, or change that one.'],
  'scheduler.schedule.not_due': ['conflict', 'Wait for the time in `facts.next`.'],
  'scheduler.reservation.busy': ['conflict', 'Wait for it, or try again later.'],
  'scheduler.reservation.not_found': ['not_found', 'Check the id: the reservation gave it.'],
  'scheduler.reservation.ended': ['conflict', 'Make a new reservation.'],
  'scheduler.reservation.slot_taken': ['conflict', 'Try again when what runs has ended.'],
  'scheduler.reservation.job_in_flight': ['conflict', 'Finish its run first.'],
  'scheduler.notification.not_found': ['not_found', 'There is nothing to do: it was delivered, or never waited.'],
  'scheduler.notification.undelivered': [
    'unavailable',
    'Look at the address and at who listens there; it is sent again.',
  ],
  'scheduler.runner.invalid': ['invalid', 'Fix the runner of the job type.'],
  'scheduler.job.not_running': ['conflict', 'Look at the job: it has ended, or has not started.'],
  'scheduler.job.not_failed': ['conflict', 'Add a new job for work that is wanted twice.'],
  'scheduler.job.failed': ['invalid', '`concord jobs logs <id>` shows what it said.'],
  'scheduler.log.not_found': ['not_found', 'The job itself says how it ended.'],
  schema_limits: ['invalid', 'Send a smaller schema.'],
} as const satisfies RefusalTable

/** The same call can succeed later. */
export function isPassing({ code }: Refusal): boolean {
  return isUnavailable([kernelRefusals, schedulerRefusals], code)
}

declare module '#kernel/refusal' {
  interface RefusalTables {
    scheduler: typeof schedulerRefusals
  }
}
