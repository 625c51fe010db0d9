/** The scheduler with the real clock, random numbers, timers and network, for the command line and the server. */
import { dirname } from 'node:path'
import process from 'node:process'
import { setTimeout as timer } from 'node:timers/promises'
import {
  COMMAND_TYPE,
  commandRunner,
  defaultJobTypes,
  type JobTypeBody,
  type JobDeps,
  openProcessTable,
  openScheduler,
  type OpenScheduler,
  readPlans,
  registerJobType,
  runFolderOf,
  type Scheduler,
  type Wait,
  type Webhook,
} from '#domains/scheduler'
import { nextTimerMs } from '#kernel/duration'
import { accept, type Decision } from '#kernel/refusal'
import type { Environment } from './config.ts'
import { systemDeps } from './system-deps.ts'

export * from '#domains/scheduler'

export const realWait: Wait = (ms, signal) =>
  timer(nextTimerMs(ms), undefined, { signal }).catch((error: unknown) => {
    if (!signal?.aborted) throw error
  })

type OpenJobs = Pick<OpenScheduler, 'file' | 'role' | 'settings' | 'busyTimeoutMs'>

/** Registers the job types `story`, `research` and `command` unless the file has them. Changed types stay as they are. */
export function openJobs(options: OpenJobs): Decision<Scheduler> {
  const opened = openScheduler({ ...options, deps: systemDeps(), jobTypes: [] })
  if (!opened.ok) return opened
  const ready = addMissingTypes(opened.value)
  if (ready.ok) return opened
  opened.value.close()
  return ready
}

function addMissingTypes(scheduler: Scheduler): Decision<undefined> {
  const plans = readPlans(scheduler)
  if (!plans.ok) return plans
  const known = new Set(plans.value.jobTypes.map((type) => type.job_type))
  // A command from the command line is not retried.
  const command: JobTypeBody = {
    job_type: COMMAND_TYPE,
    runner: { ...commandRunner },
    retry_policy: { max_retries: 0 },
  }
  for (const type of [...defaultJobTypes, command]) {
    if (known.has(type.job_type)) continue
    const added = registerJobType(scheduler, type)
    if (!added.ok) return added
  }
  return accept(undefined)
}

export function realJobDeps(scheduler: Scheduler, environment: Environment, folder: string): JobDeps {
  const runFolder = runFolderOf(scheduler.db.file) ?? `${dirname(folder)}/jobs.runs`
  return { handlers: {}, environment, folder, runFolder, table: openProcessTable(), wait: realWait }
}

export function realWebhook(url: string, secret: string): Webhook {
  return { url, secret, fetch, timeout: (ms) => AbortSignal.timeout(ms) }
}

/** Kills the children when the process exits. The next start recovers their jobs. */
export function killAtExit(killNow: () => void): void {
  process.once('exit', killNow)
}
