/** Sync Vendor Data: a schedule fires, errors are retried by class, and any number of runs gives the same rows. */
import assert from 'node:assert/strict'
import type { z } from 'zod'
import type { rate } from './catalog/hotel-vendor.ts'
import { ratesFile } from './catalog/index.ts'
import { openRates } from './catalog/sync-vendor-data.ts'
import { dataOf, eventsOf, eventually, openExample, pathOf } from './open-example.ts'

/** Seed 22: too many requests, then every row twice. */
await using example = await openExample({ seed: 22, trouble: 2 })
const { concord, vendor, folder, syncVendorData } = example
const HOUR_MS = 3_600_000
const NAME = 'sync_vendor_rates'
const query = { task_name: syncVendorData.taskName }
const list = async () => dataOf(await concord.api.GET('/commands', { params: { query } })).items
/** Moves the clock to half past the next hour, so that one due time has passed. */
const passHour = () => concord.clock.advance(1.5 * HOUR_MS - (concord.clock.now().getTime() % HOUR_MS))
const listRates = () => {
  using db = openRates(ratesFile(folder))
  return db.prepare('select * from rates order by rate_id').all() as z.infer<typeof rate>[]
}

const { items: schedules } = dataOf(await concord.api.GET('/schedules'))
const { cron } = schedules.find(({ name }) => name === NAME) ?? assert.fail()
console.log(`The schedule ${NAME} (${cron}) is on. An hour passes.`)
await passHour()
const fired = await eventually(async () => (await list())[0])
const { result, ingress } = await concord.wait<{ rows_received: number }>(fired.command_id)
const [created] = await eventsOf(concord, fired)
const key = String(created?.payload['idempotency_key']).replace(/\d{4}-.*/, '{due time}')
console.log(`It fires: ${fired.task_name}, ${ingress}, with the key ${key}`)
console.log(`  ${(await pathOf(concord, fired)).join(' → ')}`)
for (const { operation, trouble } of (await vendor.books()).calls) console.log(`  ${operation}: ${trouble}`)
const rates = listRates()
console.log(`  ${result?.rows_received} rows received, ${rates.length} rates in the copy`)

// Looks at the same due time again.
await concord.clock.advance(0)
await passHour()
const next = await eventually(async () => (await list()).find(({ command_id }) => command_id !== fired.command_id))
assert.equal((await concord.wait(next.command_id)).status, 'succeeded')
assert.equal((await list()).length, 2)
console.log('The scheduler looks at the same due time again: no second command.')
assert.deepEqual(listRates(), rates)
console.log('The next due time: another command, and the same rows.')
for (const { rate_id, hotel_name, night, price_usd } of rates)
  console.log(`  ${rate_id}  ${hotel_name.padEnd(14)}${night}  ${price_usd} USD`)
