/**
 * Takes rows for one worker: found and locked past what others hold (`for update skip locked`), leased, moved and told, in
 * one statement. All times are the database's: a process clock that is wrong can make nobody lose a lease.
 */
import type { EventDraft } from '../events.ts'
import type { AnyLeased } from '../claim.ts'
import { columnList, movedColumns } from './move-row.ts'
import { type Bound, bind, collectParams, type Params } from './params.ts'
import type { AnyRow } from '../transition/stored-machine.ts'

const NOW = 'statement_timestamp()'

export type ClaimCall = {
  readonly token: string
  readonly worker: string
  readonly leaseMs: number
  readonly limit: number
  readonly id: unknown
  readonly tenant: unknown
  readonly set: AnyRow
  /** One per event of the move, the same for every row but for its id and target. */
  readonly events: readonly EventDraft[]
  readonly eventIds: readonly string[]
}

export type ClaimShape = {
  /** Rows that wait, or rows whose holder let the lease run out. */
  readonly of: 'waiting' | 'lapsed'
  readonly byId: boolean
  readonly byTenant: boolean
  readonly set: readonly string[]
}

const list = (states: readonly string[]) => states.map((state) => `'${state}'`).join(', ')

function conditionsOf<Row>(
  { stored, claim, until, claimable, heldIn }: AnyLeased<Row>,
  of: ClaimShape['of'],
): string[] {
  const held = `t.${stored.state} in (${list(heldIn)})`
  if (of === 'lapsed') return [held, `t.${until} <= ${NOW}`]
  const waiting = claim
    ? [`t.${stored.state} = '${claim.from}'`]
    : [held, `(t.${until} is null or t.${until} <= ${NOW})`]
  return [...waiting, ...(claimable ? [`(${claimable})`] : [])]
}

export function compileClaim<Row>(leased: AnyLeased<Row>, shape: ClaimShape): Bound<ClaimCall, Row> {
  const { stored } = leased
  const { idType = 'uuid', tenantType = 'uuid', settable = {} } = stored
  const params = collectParams<ClaimCall>()
  const move = shape.of === 'waiting' ? leased.claim : undefined
  const conditions = [
    ...conditionsOf(leased, shape.of),
    ...(shape.byId ? [`t.${stored.id} = ${params.add(idType, (call) => call.id)}`] : []),
    ...(shape.byTenant ? [`t.${stored.tenant} = ${params.add(tenantType, (call) => call.tenant)}`] : []),
  ]
  const assigned: Record<string, string> = {
    ...(move ? movedBy(leased, move.to) : {}),
    [leased.token]: params.add('uuid', (call) => call.token),
    [leased.until]: `${NOW} + ${params.add('integer', (call) => call.leaseMs)} * interval '1 millisecond'`,
    ...(leased.worker ? { [leased.worker]: params.add('text', (call) => call.worker) } : {}),
    ...(leased.heartbeat ? { [leased.heartbeat]: NOW } : {}),
    ...Object.fromEntries(
      shape.set.map((name) => [name, params.add(settable[name] ?? 'text', (call) => call.set[name])]),
    ),
  }
  const order = shape.of === 'lapsed' ? `t.${leased.until}` : leased.order
  const events = move
    ? stored.machine.moves.find(({ from, to }) => from === move.from && to === move.to)?.emits.length
    : 0
  const text = `with next as materialized (
  select t.${stored.id} as id from ${stored.table} as t
  where ${conditions.join(' and ')}
  order by ${order}
  limit ${params.add('integer', (call) => call.limit)}
  for update skip locked
), moved as (
  update ${stored.table} as t set
    ${Object.entries(assigned)
      .map(([column, value]) => `${column} = ${value}`)
      .join(',\n    ')}
  where t.${stored.id} = any(array(select id from next))
  returning ${columnList('t', movedColumns(stored))}
)${events ? `, logged as (\n  ${insertEvents(leased, events, params)}\n)` : ''}
select ${columnList('m', stored.returning)} from moved as m`
  return bind(`claim_${stored.machine.name}`, text, params)
}

function movedBy<Row>({ stored }: AnyLeased<Row>, to: string): Record<string, string> {
  const { machine, lock = {} } = stored
  const entries: [string, string][] = [
    [stored.state, `'${to}'`],
    ...(stored.stateType ? [[stored.stateType, `'${machine.states[to]}'`] as [string, string]] : []),
    ...(stored.touched ? [[stored.touched, NOW] as [string, string]] : []),
    ...(machine.lock === 'version' ? Object.keys(lock).map((name): [string, string] => [name, `t.${name} + 1`]) : []),
    ...(machine.stamps ?? [])
      .filter(({ on }) => on.includes(to))
      .map(({ column, once }): [string, string] => [column, once ? `coalesce(t.${column}, ${NOW})` : NOW]),
    ...(machine.clears ?? [])
      .filter(({ on }) => on.includes(to))
      .map(({ column }): [string, string] => [column, 'null']),
  ]
  return Object.fromEntries(entries)
}

function insertEvents<Row>({ stored }: AnyLeased<Row>, count: number, params: Params<ClaimCall>): string {
  const { log, links } = stored.log as NonNullable<typeof stored.log>
  const ids = params.addList('uuid', (call) => call.eventIds)
  const columns = log.columns.map(({ name }) => name)
  const rows = Array.from({ length: count }, (_, index) => [
    ...log.columns.map((column) =>
      params.add(column.type, (call) => {
        const event = call.events[index]
        return event && column.valueOf(event)
      }),
    ),
    String(index + 1),
  ])
  const valueOf = (name: string) => {
    if (name === log.id) return `(${ids})[(m.row_n - 1) * ${count} + e.event_n]`
    if (name === log.target.column) return `jsonb_set(e.${name}::jsonb, '${log.target.path}', to_jsonb(m.${stored.id}))`
    return name === log.time ? NOW : `e.${name}`
  }
  return `insert into ${log.table} (${[...columns, ...Object.keys(links)].join(', ')})
  select ${[...columns.map(valueOf), ...Object.values(links).map((column) => `m.${column}`)].join(', ')}
  from (select moved.*, row_number() over () as row_n from moved) as m
  cross join (values ${rows.map((row) => `(${row.join(', ')})`).join(', ')}) as e(${columns.join(', ')}, event_n)
  order by m.row_n, e.event_n`
}

export type Held = { readonly id: string; readonly token: string }
type RenewCall = { readonly held: readonly Held[]; readonly leaseMs: number }

/** Each row with its own token. The search goes by id (`= any`); this only sorts out what it found. */
function pairedWith(pair: string, ids: string, tokens: string): string {
  return `${pair} in (select h.id, h.token from unnest(${ids}, ${tokens}) as h(id, token))`
}

/**
 * All leases of a worker in one statement: 200 renewals cost what four would cost alone. The token decides, not the time: a
 * lease that has run out lives on if nobody took the row. It never gets shorter, whatever the server's clock did.
 */
export function compileRenew<Row>({
  stored,
  token,
  until,
  heartbeat,
  heldIn,
}: AnyLeased<Row>): Bound<RenewCall, { readonly id: string }> {
  const params = collectParams<RenewCall>()
  const ids = params.addList(stored.idType ?? 'uuid', ({ held }) => held.map(({ id }) => id))
  const tokens = params.addList('uuid', ({ held }) => held.map((each) => each.token))
  const isPair = pairedWith(`(t.${stored.id}, t.${token})`, ids, tokens)
  const lease = `${NOW} + ${params.add('integer', ({ leaseMs }) => leaseMs)} * interval '1 millisecond'`
  const text = `update ${stored.table} as t set ${until} = greatest(t.${until}, ${lease})${heartbeat ? `, ${heartbeat} = ${NOW}` : ''}
where t.${stored.id} = any(${ids}) and ${isPair}
  and t.${stored.state} in (${list(heldIn)})
returning t.${stored.id}::text as id`
  return bind(`renew_${stored.machine.name}`, text, params)
}

/** Gives a lease back before its time: the row waits again at once, and the token is worth nothing from then on. */
export function compileRelease<Row>({
  stored,
  token,
  until,
  worker,
  claim,
  heldIn,
}: AnyLeased<Row>): Bound<readonly Held[], { readonly id: string }> {
  const params = collectParams<readonly Held[]>()
  const ids = params.addList(stored.idType ?? 'uuid', (held) => held.map(({ id }) => id))
  const tokens = params.addList('uuid', (held) => held.map((each) => each.token))
  const isPair = pairedWith(`(t.${stored.id}, t.${token})`, ids, tokens)
  // A row that was moved by its claim is found again by its time; one that was only leased waits without any.
  const assigned = [`${token} = null`, `${until} = ${claim ? NOW : 'null'}`, ...(worker ? [`${worker} = null`] : [])]
  const text = `update ${stored.table} as t set ${assigned.join(', ')}
where t.${stored.id} = any(${ids}) and ${isPair} and t.${stored.state} in (${list(heldIn)})
returning t.${stored.id}::text as id`
  return bind(`release_${stored.machine.name}`, text, params)
}
