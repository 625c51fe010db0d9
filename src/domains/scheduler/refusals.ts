/** The refusal codes of the scheduler, each with its kind and its default hint. */
import { isUnavailable, type Refusal, type RefusalTable } from '#kernel/refusal'
import { kernelRefusals } from '#kernel/refusals'

export const schedulerRefusals = {
  'scheduler.file.locked': ['conflict', 'Ask the running scheduler, or stop it first.'],
  'scheduler.file.malformed': ['malformed', 'Keep a copy, and start from a backup or with a new file.'],
  'scheduler.file.network_mount': ['configuration', 'Put the file on a local disk.'],
  'scheduler.file.read_only': ['configuration', 'Choose a file that you can write.'],
  'scheduler.file.foreign': ['configuration', 'Choose another file: this one belongs to another program.'],
  'scheduler.file.newer': ['configuration', 'Use the version of Concord that wrote the file, or a later one.'],
  'scheduler.file.older': ['configuration', 'Start its scheduler once, which migrates the file.'],
  'scheduler.file.changed': ['configuration', 'Use the version of Concord that wrote the file.'],
  'scheduler.file.io': ['unavailable', 'Check the disk, then try again.'],
  'scheduler.setting.invalid': ['configuration', 'Fix the named setting.'],
  'scheduler.not_owner': ['conflict', 'Ask the running scheduler to do it.'],
  'scheduler.not_recovered': ['conflict', 'Wait until recovery has ended.'],
  'scheduler.not_enabled': [
    'not_found',
    'Set CONCORD_SCHEDULER_FILE to a file on a local disk and start the server again.',
  ],
  'scheduler.not_running': ['unavailable', 'Start it with `concord scheduler run`.'],
  'scheduler.check.broken': ['invalid', 'Keep a copy of the file. The next start repairs what it can.'],
  'scheduler.job.not_found': ['not_found', 'Check the id: `concord jobs list` shows the jobs.'],
  'scheduler.job.not_queued': ['conflict', 'Only a queued job can change. Add a new job instead.'],
  'scheduler.job_type.unknown': [
    'invalid',
    'Use a registered type, or register this one with --types or CONCORD_SCHEDULER_TYPES.',
  ],
  'scheduler.command.not_registered': [
    'forbidden',
    'Register a job type (CONCORD_SCHEDULER_TYPES) or a template on the machine, or set CONCORD_SCHEDULER_HTTP=any.',
  ],
  'scheduler.queue.other_priority': ['conflict', 'Give the job the other priority first.'],
  'scheduler.run.not_found': ['not_found', 'Check the id: the job names its runs.'],
  'scheduler.run.finished': ['conflict', 'Nothing to do: the first outcome is final.'],
  'scheduler.template.not_found': ['not_found', 'Check the id: `concord job-templates list` shows the templates.'],
  'scheduler.template.name_taken': ['conflict', 'Choose another name, or change the existing one.'],
  'scheduler.template.in_use': ['conflict', 'Delete the schedule, or give it another template.'],
  'scheduler.params.invalid': ['invalid', 'Send params that match the schema of the template.'],
  'scheduler.schema.keyword': ['invalid', 'Fix the schema at the named position.'],
  'scheduler.group.not_found': ['not_found', 'Check the id: `concord job-groups list` shows the groups.'],
  'scheduler.group.too_large': ['invalid', 'Submit several groups, or smaller params.'],
  'scheduler.group.halted': ['conflict', 'Submit a new group with the remaining jobs.'],
  'scheduler.schedule.not_found': ['not_found', 'Check the id: `concord jobs schedules list` shows the schedules.'],
  'scheduler.schedule.name_taken': ['conflict', 'Choose another name, or change the existing one.'],
  'scheduler.schedule.not_due': ['conflict', 'Wait for the time in `facts.next`.'],
  'scheduler.reservation.busy': ['conflict', 'Wait for it, or try again later.'],
  'scheduler.reservation.not_found': ['not_found', 'Use the id that the reservation returned.'],
  'scheduler.reservation.ended': ['conflict', 'Make a new reservation.'],
  'scheduler.reservation.slot_taken': ['conflict', 'Try again when the running job has ended.'],
  'scheduler.reservation.job_in_flight': ['conflict', 'Finish its run first.'],
  'scheduler.notification.not_found': ['not_found', 'Nothing to do: it was delivered, or was never pending.'],
  'scheduler.notification.undelivered': ['unavailable', 'Check the URL and its receiver. The delivery is retried.'],
  'scheduler.runner.invalid': ['invalid', 'Fix the runner of the job type.'],
  'scheduler.job.not_running': ['conflict', 'Check the job: it has ended, or has not started.'],
  'scheduler.job.not_failed': ['conflict', 'Add a new job to do the same work twice.'],
  'scheduler.work.changed': ['conflict', 'Read the template or the job again, then send the request again.'],
  'scheduler.job.repeated': ['conflict', 'Nothing to do: read the job in `facts.job_id`.'],
  'scheduler.job.failed': ['invalid', '`concord jobs logs <id>` shows its output.'],
  'scheduler.log.not_found': ['not_found', 'The job itself shows how it ended.'],
  schema_limits: ['invalid', 'Send a smaller schema.'],
} as const satisfies RefusalTable

/** Returns whether the same call can succeed later. */
export function isTransient({ code }: Refusal): boolean {
  return isUnavailable([kernelRefusals, schedulerRefusals], code)
}

declare module '#kernel/refusal' {
  interface RefusalTables {
    scheduler: typeof schedulerRefusals
  }
}
