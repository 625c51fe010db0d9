/** The local copy of the vendor's rates in one SQLite file: rates are upserted by id, so any number of syncs gives one copy. */
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

export type Rate = {
  readonly rate_id: string
  readonly hotel_name: string
  readonly night: string
  readonly price_usd: number
}

export function ratesFile(folder: string): string {
  return join(folder, 'vendor-rates.sqlite')
}

function open(file: string): DatabaseSync {
  mkdirSync(dirname(file), { recursive: true })
  const db = new DatabaseSync(file, { timeout: 5_000 })
  db.exec(
    `create table if not exists rates (rate_id text primary key, hotel_name text not null, night text not null, price_usd real not null)`,
  )
  return db
}

/** All rows or none: a sync that dies halfway leaves the copy as it was. */
export function upsertRates(file: string, rates: readonly Rate[]): void {
  const db = open(file)
  try {
    db.exec('begin immediate')
    const upsert = db.prepare(
      `insert into rates (rate_id, hotel_name, night, price_usd) values (?, ?, ?, ?)
       on conflict (rate_id) do update set hotel_name = excluded.hotel_name, night = excluded.night, price_usd = excluded.price_usd`,
    )
    for (const { rate_id, hotel_name, night, price_usd } of rates) upsert.run(rate_id, hotel_name, night, price_usd)
    db.exec('commit')
  } finally {
    // Closing the connection rolls back an open transaction.
    db.close()
  }
}

export function listRates(file: string): readonly Rate[] {
  const db = open(file)
  try {
    return db.prepare('select rate_id, hotel_name, night, price_usd from rates order by rate_id').all() as Rate[]
  } finally {
    db.close()
  }
}
