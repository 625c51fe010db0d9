/** For tests of the running loop: a real clock, real timers, real children and a file for each test. */
import { randomBytes } from 'node:crypto'
import { setTimeout as timer } from 'node:timers/promises'
import { uuidV7Generator } from '#kernel/ids'
import type { JobTypeBody } from '../../../src/domains/scheduler/job-types.ts'
import { openScheduler } from '../../../src/domains/scheduler/open-scheduler.ts'
import { type RunEvent, type RunScheduler, runScheduler } from '../../../src/domains/scheduler/run-scheduler.ts'
import { aFile, must } from './fixture.ts'
import type { Scheduler, Wait } from '../../../src/domains/scheduler/scheduler.ts'

export const wait: Wait = (ms, signal) => timer(Math.min(ms, 2 ** 31 - 1), undefined, { signal }).catch(() => {})

/** A type that runs a shell script. */
export function aShellType(script: string, runner: object = {}, retries = 0): JobTypeBody {
  return {
    job_type: 'story',
    retry_policy: { max_retries: retries },
    runner: { command: 'sh', args: ['-c', script], ...runner },
  }
}

export function aRealScheduler(jobTypes: readonly JobTypeBody[], file = aFile(), workers = 1): Scheduler {
  const now = () => new Date()
  const world = { now, random: () => 0.5, newId: uuidV7Generator(now, randomBytes) }
  return must(openScheduler({ file, deps: world, jobTypes, settings: { workers } }))
}

/** Runs until the queue is empty and returns the events. */
export async function runUntilIdle(scheduler: Scheduler, options: Partial<RunScheduler> = {}): Promise<RunEvent[]> {
  const events: RunEvent[] = []
  const environment = { PATH: process.env['PATH'] }
  const stop = new AbortController().signal
  const onEvent = (event: RunEvent) => void events.push(event)
  must(await runScheduler(scheduler, { wait, stop, environment, untilIdle: true, pollMs: 10, onEvent, ...options }))
  return events
}
