/**
 * The smallest durable queue: a row, a notification in this process, and a claim with a lease. The start of an engine is compared
 * with it.
 */
import { randomUUID } from 'node:crypto'
import { type Db, statement } from '#store'

export type LeaseQueue = { enqueueAndStart(): Promise<void>; close(): Promise<void> }

const enqueue = statement('bench_enqueue', `insert into public.leases (id, state) values ($1, 'queued')`)
const claim = statement<{ readonly id: string }>(
  'bench_claim',
  `update public.leases set state = 'running', lease_until = clock_timestamp() + interval '30 s'
where id = (select id from public.leases where state = 'queued' order by seq limit 1 for update skip locked)
returning id`,
)

export async function openLeaseQueue(owner: Db, db: Db): Promise<LeaseQueue> {
  await owner.query(
    `create table public.leases (id uuid primary key, seq bigint generated always as identity, state text not null,
       lease_until timestamptz)`,
  )
  await owner.query(`create index leases_queued on public.leases (seq) where state = 'queued'`)
  await owner.query('grant select, insert, update on public.leases to concord_engine')
  return {
    async enqueueAndStart() {
      await db.run(enqueue, [randomUUID()])
      const [row] = await db.run(claim, [])
      if (!row) throw new Error('No job was claimed.')
    },
    close: () => db.close(),
  }
}
