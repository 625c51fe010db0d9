/** Sync Vendor Data: a schedule fires, errors are retried by class, and any number of runs gives the same rows. */
import assert from 'node:assert/strict'
import { fireSchedule, listCommands } from '#domains/commands'
import { listCommandSchedules } from '#domains/command-schedules'
import { encodeId } from '#kernel/ids'
import { ratesFile } from './catalog/index.ts'
import { openRates } from './catalog/sync-vendor-data.ts'
import { granted, runExample, type Stage } from './run-example.ts'
import { TRACE } from './story/company.ts'
import { eventually } from './story/desk.ts'

const HOUR_MS = 3_600_000
const NAME = 'sync_vendor_rates'
/** The schedule clock starts at half past, so that exactly one due time falls into the hour that passes. */
let aheadMs = HOUR_MS / 2 - (Date.now() % HOUR_MS)

/** Turns a due time into a command; a second firing of the same due time finds the existing command. */
function fire({ commands, company }: Pick<Stage, 'commands' | 'company'>, dueAt: Date) {
  const spec = commands.catalog.schedules.find(({ name }) => name === NAME)
  assert.ok(spec)
  const { workspaceId } = company
  return fireSchedule(commands, spec, { workspaceId, dueAt, traceId: TRACE, requestId: 'req_schedule' })
}

function listRates(folder: string) {
  using db = openRates(ratesFile(folder))
  return db.prepare('select * from rates order by rate_id').all() as {
    rate_id: string
    hotel_name: string
    night: string
    price_usd: number
  }[]
}

/** Seed 22: too many requests, then every row twice. */
const settings = { seed: 22, trouble: 2, scheduleAheadMs: () => aheadMs }

await runExample(settings, async (stage) => {
  const { company, db, runtime, startSchedules, reachStatus, path, countEvents, vendor, folder } = stage
  const list = async () => {
    const all = await listCommands(db, company.workspaceId, { beforeId: null, limit: 10 })
    return all.filter(({ command_type }) => command_type === 'sync_vendor_data')
  }
  await startSchedules()
  const kept = await listCommandSchedules(db, company.workspaceId, { afterName: null, limit: 10 })
  const schedule = kept.find(({ name }) => name === NAME)
  assert.ok(schedule?.enabled)
  const { name, cron } = schedule
  assert.equal((await list()).length, 0)
  console.log(`The schedule ${name} (${cron}) is on. An hour passes.`)

  aheadMs += HOUR_MS
  await runtime.wake({ kind: 'schedule', id: encodeId('command_schedule', schedule.schedule_id) })
  const fired = await eventually(
    async () => (await list())[0],
    () => 'the schedule did not fire',
  )
  const { command } = await reachStatus(fired.command_id, 'succeeded')
  assert.deepEqual([fired.ingress, fired.requested_by], ['scheduled_trigger', `schedule:${name}`])
  console.log(`It fires: ${fired.task_name}, ${fired.ingress}, with the key schedule:${name}:{due time}`)
  console.log(`  ${(await path(fired.command_id)).join(' → ')}`)
  const { calls } = await vendor.books()
  for (const { operation, trouble } of calls) console.log(`  ${operation}: ${trouble}`)
  assert.deepEqual(
    calls.map(({ trouble }) => trouble),
    ['rate_limited', 'repeat'],
  )
  assert.equal(await countEvents(fired.command_id, 'retry_scheduled'), 1)
  assert.equal(await countEvents(fired.command_id, 'approval_requested'), 0)
  const received = command.result as { rows_received: number; rates: number }
  const rates = listRates(folder)
  assert.deepEqual([received.rows_received, received.rates, rates.length], [6, 3, 3])
  console.log(`  ${received.rows_received} rows received, ${rates.length} rates in the copy`)

  const dueAt = new Date(fired.idempotency_key?.slice(`schedule:${name}:`.length) ?? '')
  const again = granted(await fire(stage, dueAt))
  assert.deepEqual([again.isNew, again.command.command_id], [false, fired.command_id])
  console.log('The same due time fires again from another scheduler: the same command.')

  const next = granted(await fire(stage, new Date(dueAt.getTime() + HOUR_MS)))
  await reachStatus(next.command.command_id, 'succeeded')
  assert.equal(next.isNew, true)
  assert.deepEqual(listRates(folder), rates)
  console.log('The next due time: another command, and the same rows.')
  for (const { rate_id, hotel_name, night, price_usd } of rates)
    console.log(`  ${rate_id}  ${hotel_name.padEnd(14)}${night}  ${price_usd} USD`)
})
