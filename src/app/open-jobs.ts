/** The scheduler inside `concord up`: owns its file, runs its jobs next to the API and stops with the server. */
import { readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { SchedulerApi } from '#api'
import {
  type AskedDirect,
  type Deliver,
  followDirect,
  type JobTypeBody,
  registerJobType,
  type RunEvent,
  runScheduler,
  type Scheduler,
  type SelfCheck,
  webhookDeliver,
} from '#domains/scheduler'
import { parseGuardedObject } from '#kernel/json-guard'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Config, Environment } from './config.ts'
import type { Log } from './log.ts'
import { killAtExit, openJobs, realWait, realWebhook } from './scheduler.ts'

type OpenServerJobs = {
  readonly config: Config
  readonly environment: Environment
  readonly folder: string
  readonly log: Log
  readonly orgId: string
  /** Aborted when no new job may start. */
  readonly stop: AbortSignal
}

type OpenedJobs = {
  readonly api: SchedulerApi
  /** Recovers, then runs jobs; called after every other part of the server is open. */
  begin(): void
  close(): Promise<void>
}

const MIB = 1_048_576
/** SQLite is synchronous: a guest that writes blocks the whole server, so the wait is short. */
const BUSY_TIMEOUT_MS = 500

/** Undefined when the scheduler is off. */
export function openServerJobs(options: OpenServerJobs): Decision<OpenedJobs | undefined> {
  const { config, log, orgId } = options
  const file = config.schedulerFile
  if (file === undefined) return accept(undefined)
  const types = readTypes(config.schedulerTypes)
  if (!types.ok) return types
  const deliver = readWebhook(config)
  if (!deliver.ok) return deliver
  const opened = openJobs({
    file,
    role: 'owner',
    busyTimeoutMs: BUSY_TIMEOUT_MS,
    settings: {
      workers: config.schedulerWorkers,
      keepMs: config.schedulerKeep,
      logBytesMax: config.schedulerLogMib * MIB,
    },
  })
  if (!opened.ok) return opened
  const scheduler = opened.value
  for (const type of types.value) {
    const registered = registerJobType(scheduler, type)
    if (registered.ok) continue
    scheduler.close()
    return registered
  }
  log.info({ file: scheduler.db.file, workers: config.schedulerWorkers }, 'the scheduler opened its file')
  const over = new AbortController()
  const ending = new AbortController()
  const stop = AbortSignal.any([options.stop, ending.signal])
  let loop: Loop | undefined
  const followed = new Set<Promise<unknown>>()
  const follow = (asked: AskedDirect, startByMs: number) => {
    const following = followDirect(scheduler, asked, { wait: realWait, startByMs, leave: over.signal })
      .catch((error: unknown) => log.error({ err: error }, 'a direct execution could not be followed'))
      .finally(() => followed.delete(following))
    followed.add(following)
  }
  return accept({
    api: {
      scheduler,
      orgId,
      admits: config.schedulerHttp,
      wait: realWait,
      stopped: () => (loop ? loop.stopped() : 'The scheduler has not started.'),
      check: () => checkJobsAside(scheduler.db.file),
      follow,
    },
    begin() {
      loop ??= run(scheduler, { ...options, stop }, deliver.value)
    },
    async close() {
      ending.abort()
      await loop?.ended
      over.abort()
      await Promise.all(followed)
      scheduler.close()
    },
  })
}

type Loop = { readonly ended: Promise<void>; readonly stopped: () => string | undefined }

function run(scheduler: Scheduler, options: OpenServerJobs, deliver: Deliver | undefined): Loop {
  const { config, environment, folder, log, stop } = options
  let stopped: string | undefined
  const ended = runScheduler(scheduler, {
    wait: realWait,
    stop,
    environment,
    folder,
    graceMs: config.schedulerGrace,
    ...(deliver && { deliver }),
    atExit: killAtExit,
    onEvent: (event) => note(log, event),
  })
    .then((done) => {
      stopped = done.ok ? 'The scheduler was stopped.' : done.reason
      if (!done.ok) log.error({ code: done.code, reason: done.reason }, 'the scheduler stopped')
    })
    .catch((error: unknown) => {
      stopped = 'The scheduler failed with an internal error. The server log has the details.'
      log.error({ err: error }, 'the scheduler stopped')
    })
  return { ended, stopped: () => stopped }
}

function note(log: Log, event: RunEvent): void {
  switch (event.kind) {
    case 'started':
      return log.info({ job_id: event.run.job.job_id, run_id: event.run.runId }, 'a job started')
    case 'ended':
      return log.info({ job_id: event.run.job.job_id, outcome: event.end.outcome }, 'a job ended')
    case 'alert':
      return log.error({ run_id: event.alert.runId, code: event.alert.refusal.code }, 'an outcome could not be written')
    case 'waiting':
      return log.warn({ code: event.refusal.code, reason: event.refusal.reason }, 'the scheduler waits')
    case 'undelivered':
      return log.warn({ notification_id: event.notificationId, error: event.error }, 'a notification was not delivered')
    case 'recovered':
      return log.info({ actions: event.actions }, 'the scheduler recovered')
    case 'fired':
      return log.info({ schedule_id: event.firing.schedule_id, outcome: event.firing.outcome }, 'a schedule came due')
    case 'pruned':
      return log.info({ ...event.pruned }, 'deleted old logs and notifications')
    case 'stopping':
      return log.info({ running: event.running }, 'the scheduler is stopping')
  }
}

/** Each type is checked when it is registered. */
function readTypes(file: string | undefined): Decision<readonly JobTypeBody[]> {
  if (file === undefined) return accept([])
  const text = readText('CONCORD_SCHEDULER_TYPES', file)
  if (!text.ok) return text
  const parsed = parseGuardedObject(text.value)
  const list = parsed.ok ? parsed.value['job_types'] : undefined
  if (Array.isArray(list)) return accept(list as unknown as JobTypeBody[])
  return invalid(
    'CONCORD_SCHEDULER_TYPES',
    parsed.ok ? `${file} has no list \`job_types\`.` : `${file}: ${parsed.reason}`,
  )
}

function readWebhook({ schedulerWebhook: url, schedulerWebhookSecret: file }: Config): Decision<Deliver | undefined> {
  if (url === undefined || file === undefined) return accept(undefined)
  const secret = readText('CONCORD_SCHEDULER_WEBHOOK_SECRET', file)
  if (!secret.ok) return secret
  if (secret.value.trim() !== '') return accept(webhookDeliver(realWebhook(url, secret.value.trim())))
  return invalid('CONCORD_SCHEDULER_WEBHOOK_SECRET', `${file} is empty.`)
}

function readText(variable: string, file: string): Decision<string> {
  try {
    return accept(readFileSync(file, 'utf8'))
  } catch (error) {
    return invalid(variable, `${file} cannot be read (${(error as NodeJS.ErrnoException).code ?? String(error)}).`)
  }
}

function invalid(variable: string, reason: string): Decision<never> {
  return refuse('app.setting.invalid', reason, {
    path: variable,
    hint: `Set ${variable} to an existing, valid file.`,
  })
}

/** The file of the thread is next to this one, with the same extension in the source and in the build. */
const thread = new URL(`./check-jobs-thread${extname(import.meta.filename)}`, import.meta.url)

const underWay = new Map<string, Promise<Decision<SelfCheck>>>()

/** Checks a scheduler file in a thread, because the check reads every row. Concurrent calls for one file share one thread. */
export function checkJobsAside(file: string): Promise<Decision<SelfCheck>> {
  const known = underWay.get(file)
  if (known) return known
  const checking = startThread(file).finally(() => underWay.delete(file))
  underWay.set(file, checking)
  return checking
}

function startThread(file: string): Promise<Decision<SelfCheck>> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(thread, { workerData: { file } })
    worker.once('message', (checked: Decision<SelfCheck>) => resolve(checked))
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('The thread of the self-check ended without an answer.')))
  })
}
