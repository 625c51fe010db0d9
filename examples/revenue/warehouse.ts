/** The database of a shop, on a Postgres of its own: twelve weeks of orders, in the last of which card payments in Germany fail. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openDb, openEmbeddedPostgres } from '@concordhq/concord/store'

export type Warehouse = {
  /** The connection string of a login that can only read. */
  readonly url: string
  countFailed(): Promise<number>
  close(): Promise<void>
}

/** Each week has 40 orders in each of three countries, half of them by card. Germany sells 50 USD an order, the others 30. */
const SEED = `
create table orders (order_id integer primary key, ordered_on date not null, country text not null, payment text not null,
  amount_usd integer not null, status text not null);
insert into orders
select (week * 3 + place) * 40 + nth, date '2026-03-02' + week * 7 + nth % 7, country, payment,
  case country when 'DE' then 50 else 30 end,
  case when week = 11 and country = 'DE' and payment = 'card' then 'payment_failed' else 'paid' end
from generate_series(0, 11) as week, generate_series(0, 39) as nth,
  unnest(array['DE', 'FR', 'US']) with ordinality as place_of(country, place),
  lateral (select case nth % 2 when 0 then 'card' else 'invoice' end as payment) as paid_by;
create role analyst login password 'reads-only-0042';
grant select on orders to analyst;`

export async function openWarehouse(): Promise<Warehouse> {
  const home = await mkdtemp(join(tmpdir(), 'concord-warehouse-'))
  // Under root the server runs as another user, who needs access to the folder.
  await chmod(home, 0o711)
  const opened = await openEmbeddedPostgres({ home })
  if (!opened.ok) throw new Error(opened.reason)
  const server = opened.value
  const owner = openDb({ url: server.superuserUrl, poolMax: 1 })
  await owner.query(SEED)
  const url = new URL(server.superuserUrl)
  url.username = 'analyst'
  url.password = 'reads-only-0042'
  return {
    url: url.href,
    async countFailed() {
      const [row] = await owner.query<{ count: number }>(
        `select count(*)::integer as count from orders where status = 'payment_failed'`,
      )
      return row?.count ?? 0
    },
    async close() {
      await owner.close()
      await server.stop()
      await rm(home, { recursive: true, force: true })
    },
  }
}
