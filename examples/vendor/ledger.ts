/** The vendor's ledger in its own file: records arrivals and effects before any answer. */
import { createHash } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'

type Arrival = {
  readonly operation: string
  readonly key: string
  readonly body: string
  readonly trouble: string
}

type Reservation = {
  readonly reservation_id: string
  readonly client_reference: string
  readonly key: string
  readonly hotel_name: string
  readonly status: 'booked' | 'cancelled'
}

export type Books = {
  /** Every call in order of arrival; `applied` is 1 if this call changed something. */
  readonly calls: readonly {
    readonly arrival: number
    readonly operation: string
    readonly key: string
    readonly body_hash: string
    readonly trouble: string
    readonly applied: number
  }[]
  readonly reservations: readonly Reservation[]
  readonly cancellations: readonly { readonly key: string; readonly reservation_id: string }[]
}

export type Ledger = {
  arrive(call: Arrival): number
  /** Books once per key; the same key returns the first booking. */
  book(arrival: number, key: string, draft: { client_reference: string; hotel_name: string }): Reservation
  findReservation(clientReference: string): Reservation | undefined
  /** Returns undefined without such a reservation. */
  cancel(arrival: number, key: string, clientReference: string): Reservation | undefined
  books(): Books
  close(): void
}

const schema = `
pragma journal_mode = wal;
pragma synchronous = full;
create table if not exists calls (
  arrival integer primary key autoincrement, operation text not null, key text not null,
  body_hash text not null, trouble text not null, applied integer not null default 0
);
create table if not exists reservations (
  reservation_id text primary key, client_reference text not null, key text not null unique,
  hotel_name text not null, status text not null check (status in ('booked', 'cancelled'))
);
create table if not exists cancellations (key text primary key, reservation_id text not null unique);`

export function openLedger(file: string): Ledger {
  const db = new DatabaseSync(file)
  db.exec(schema)
  const rows = <Row>(text: string, ...values: string[]) => db.prepare(text).all(...values) as Row[]
  const columns = 'reservation_id, client_reference, key, hotel_name, status'
  const apply = (arrival: number) => db.prepare('update calls set applied = 1 where arrival = ?').run(arrival)
  const find = (field: 'key' | 'client_reference', value: string) =>
    rows<Reservation>(`select ${columns} from reservations where ${field} = ? order by rowid desc limit 1`, value)[0]

  return {
    arrive({ operation, key, body, trouble }) {
      const hash = createHash('sha256').update(body).digest('hex')
      const insert = db.prepare('insert into calls (operation, key, body_hash, trouble) values (?, ?, ?, ?)')
      return Number(insert.run(operation, key, hash, trouble).lastInsertRowid)
    },
    book(arrival, key, { client_reference, hotel_name }) {
      const known = find('key', key)
      if (known) return known
      const made = {
        reservation_id: `HV-${1_000 + arrival}`,
        client_reference,
        key,
        hotel_name,
        status: 'booked' as const,
      }
      db.prepare(`insert into reservations (${columns}) values (?, ?, ?, ?, ?)`).run(...Object.values(made))
      apply(arrival)
      return made
    },
    findReservation: (clientReference) => find('client_reference', clientReference),
    cancel(arrival, key, clientReference) {
      const found = find('client_reference', clientReference)
      if (found?.status !== 'booked') return found
      db.prepare('insert into cancellations (key, reservation_id) values (?, ?)').run(key, found.reservation_id)
      db.prepare(`update reservations set status = 'cancelled' where reservation_id = ?`).run(found.reservation_id)
      apply(arrival)
      return { ...found, status: 'cancelled' }
    },
    books: () => ({
      calls: rows('select arrival, operation, key, body_hash, trouble, applied from calls order by arrival'),
      reservations: rows(`select ${columns} from reservations order by rowid`),
      cancellations: rows('select key, reservation_id from cancellations order by rowid'),
    }),
    close: () => db.close(),
  }
}
