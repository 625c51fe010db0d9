/** A scheduler for tests of the API: a real file, the real loop and real children. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import {
  followDirect,
  type JobTypeBody,
  registerJobType,
  runScheduler,
  type Scheduler,
} from '../../src/domains/scheduler/index.ts'
import { checkJobsAside } from '../../src/app/open-jobs.ts'
import { openJobs, realWait } from '../../src/app/scheduler.ts'
import type { SchedulerApi } from '../../src/api/index.ts'
import { accepted } from './tenant.ts'

export type TestSchedulerApi = {
  readonly face: SchedulerApi
  readonly scheduler: Scheduler
  readonly folder: string
  /** All rows of all tables: a test compares them to prove that nothing was written. */
  fingerprint(): string
  /** Starts the loop; nothing is dispatched before. */
  begin(): void
  close(): Promise<void>
}

/** `shell` runs a fixed command, so a writer may use it. */
const shell: JobTypeBody = {
  job_type: 'shell',
  retry_policy: { max_retries: 0 },
  runner: { command: 'sh', args: ['-c', 'read -r line; echo "got $line"'] },
}

const tables = ['jobs', 'job_runs', 'job_groups', 'job_templates', 'schedules', 'direct_reservations', 'notifications']

function dump(file: string): string {
  const db = new DatabaseSync(file, { readOnly: true })
  const rows = tables.map((table) => db.prepare(`select * from ${table} order by 1`).all())
  db.close()
  return JSON.stringify(rows)
}

export function openTestSchedulerApi(orgId: string, admits: SchedulerApi['admits'] = 'any'): TestSchedulerApi {
  const folder = mkdtempSync(join(tmpdir(), 'concord-face-'))
  const scheduler = accepted(openJobs({ file: join(folder, 'jobs.db'), role: 'owner' }))
  accepted(registerJobType(scheduler, shell))
  const stop = new AbortController()
  const over = new AbortController()
  let loop: Promise<unknown> | undefined
  const followed: Promise<unknown>[] = []
  return {
    scheduler,
    folder,
    fingerprint: () => dump(scheduler.db.file),
    face: {
      scheduler,
      orgId,
      admits,
      wait: realWait,
      check: () => checkJobsAside(scheduler.db.file),
      stopped: () => (loop ? undefined : 'it has not begun'),
      follow: (asked, startByMs) =>
        void followed.push(followDirect(scheduler, asked, { wait: realWait, startByMs, leave: over.signal })),
    },
    begin() {
      loop ??= runScheduler(scheduler, {
        wait: realWait,
        stop: stop.signal,
        environment: { PATH: process.env['PATH'] },
        folder,
        pollMs: 10,
        graceMs: 1,
      })
    },
    async close() {
      stop.abort()
      await loop
      over.abort()
      await Promise.all(followed)
      scheduler.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
