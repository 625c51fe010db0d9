/** Sync Vendor Data: runs on a schedule, without approval; any number of runs gives the same rows. */
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { defineCommand, defineEffect, defineSchedule, from } from '@concordhq/concord'
import { z } from 'zod'
import { type HotelVendor, rate } from './hotel-vendor.ts'

/** Opens the copy of the rates. */
export function openRates(file: string): DatabaseSync {
  mkdirSync(dirname(file), { recursive: true })
  const db = new DatabaseSync(file, { timeout: 5_000 })
  db.exec('create table if not exists rates (rate_id text primary key, hotel_name text, night text, price_usd real)')
  return db
}

export function syncVendorData({ data }: HotelVendor, file: string) {
  const storeRates = defineEffect('rates.store', {
    input: z.object({ rates: z.array(rate) }),
    class: 'keyed',
    async do({ input: { rates } }) {
      using db = openRates(file)
      db.exec('begin immediate')
      const upsert = db.prepare('insert or replace into rates values (?, ?, ?, ?)')
      for (const { rate_id, hotel_name, night, price_usd } of rates) upsert.run(rate_id, hotel_name, night, price_usd)
      db.exec('commit')
      return { rows_received: rates.length, rates: new Set(rates.map(({ rate_id }) => rate_id)).size }
    },
  })
  return defineCommand('sync_vendor_data', {
    description: 'Brings the copy of the vendor data up to date.',
    // A firing has no payload, so every field has a default.
    input: z.strictObject({ dataset: z.enum(['rates']).default('rates') }).meta({ example: { dataset: 'rates' } }),
    policy: [],
    steps: () => [data.sync_rates({}), storeRates({ rates: from(data.sync_rates, 'rates') })],
    type: { cancellable_by: ['writer', 'admin'] },
    task: { name: 'Sync Vendor Data', ingress_types: ['scheduled_trigger', 'user_request'] },
  })
}

export const syncSchedule = defineSchedule({
  name: 'sync_vendor_rates',
  command_type: 'sync_vendor_data',
  cron: '0 * * * *',
  queue: 'scheduled_maintenance',
})
