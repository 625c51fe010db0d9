/**
 * A worker process with the schedule `every minute`: `node schedule-worker-child.ts <url> <workspace>` says `ready` when it is open. Each
 * line of its input is a number: so many milliseconds the clock of the schedules is ahead from now on.
 */
import { createInterface } from 'node:readline'
import { openLog } from '../../src/app/log.ts'
import { openWork } from '../../src/app/open-work.ts'
import { systemDeps } from '../../src/app/system-deps.ts'
import { defineSchedule } from '../../src/domains/commands/index.ts'
import { openDb } from '../../src/store/db.ts'
import { noArtifacts } from './no-artifacts.ts'
import { everyMinute, tickDefinitions } from './projects/commands.ts'

const [, , url = '', defaultWorkspace = '', startMs = '0'] = process.argv
let aheadMs = Number(startMs)
const db = openDb({ url, role: 'concord_engine', poolMax: 4, onConnectionError: () => {} })
const catalog = [...tickDefinitions, defineSchedule({ ...everyMinute, misfire: 'all', overlap: 'allow' })]
const world = systemDeps()
const opened = await openWork(db, world, { catalog }, openLog('silent'), {
  artifacts: noArtifacts(db, world),
  defaultWorkspace,
  scheduleAheadMs: () => aheadMs,
})
if (!opened.ok) {
  console.log(`${opened.code}: ${opened.reason}`)
  process.exit(1)
}
const { runtime, startSchedules } = opened.value
await startSchedules()
const [row] = await db.query<{ id: string }>(
  `select 'csched_' || replace(schedule_id::text, '-', '') as id from schedules.command_schedules where name = $1`,
  [everyMinute.name],
)
console.log('ready')
const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => {
  aheadMs = Number(line)
  // The clock has jumped, and a real timer would not notice.
  void runtime.wake({ kind: 'schedule', id: row?.id ?? '' }).catch(() => {})
})
// The process ends with its input, and its input ends with its parent.
lines.on('close', () => process.exit(1))
