/** Shared by the three examples: a scheduler in a temporary folder, run until it is idle. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { setTimeout } from 'node:timers/promises'
import { systemDeps } from '@concordhq/concord'
import {
  type JobTypeBody,
  openScheduler,
  type RunEvent,
  runScheduler,
  type Scheduler,
} from '@concordhq/concord/scheduler'

export type Example = {
  readonly folder: string
  readonly scheduler: Scheduler
  /** Runs until no job is queued or running. */
  run(): Promise<readonly RunEvent[]>
  [Symbol.dispose](): void
}

export function openExample(jobTypes: readonly JobTypeBody[], now = () => new Date()): Example {
  const folder = mkdtempSync(join(tmpdir(), 'concord-example-'))
  const opened = openScheduler({ file: join(folder, 'jobs.db'), deps: { ...systemDeps(), now }, jobTypes })
  if (!opened.ok) throw new Error(opened.reason)
  const scheduler = opened.value
  return {
    folder,
    scheduler,
    async run() {
      const events: RunEvent[] = []
      const done = await runScheduler(scheduler, {
        wait: (ms, signal) => setTimeout(ms, undefined, { signal }).catch(() => undefined),
        stop: new AbortController().signal,
        environment: process.env,
        folder,
        untilIdle: true,
        pollMs: 20,
        onEvent: (event) => void events.push(event),
      })
      if (!done.ok) throw new Error(done.reason)
      return events
    },
    [Symbol.dispose]() {
      scheduler.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
