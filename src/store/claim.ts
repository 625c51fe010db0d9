/**
 * Claims and leases over any machine's table: takes the next rows, renews them, releases them, and takes over the rows of a dead or
 * frozen holder. Every claim has a new token; a write that names an old one is refused (`lease.lost`).
 */
import { KernelFault } from '#kernel/errors'
import type { NewId } from '#kernel/clock'
import { decideMove, isState } from '#kernel/machine'
import { accept, type Decision } from '#kernel/refusal'
import type { Sql } from './db.ts'
import { failpoint } from './failpoints.ts'
import {
  type ClaimCall,
  type ClaimShape,
  compileClaim,
  compileRelease,
  compileRenew,
  type Held,
} from './sql/claim-rows.ts'
import { columnName } from './sql/names.ts'
import type { Bound } from './sql/params.ts'
import { draftEvent } from './transition/plan-move.ts'
import type { AnyRow, StoredMachine } from './transition/stored-machine.ts'

export type { Held }

export type Leased<S extends string, A extends string, E extends string, Row> = {
  readonly stored: StoredMachine<S, A, E, Row>
  readonly token: string
  readonly until: string
  readonly worker?: string
  readonly heartbeat?: string
  /** The move that a claim makes; without one a claim only takes the lease. */
  readonly claim?: { readonly from: S; readonly to: S }
  /** The states in which a row may be leased. */
  readonly heldIn: readonly S[]
  /** A further condition over the row `t`, e.g. `t.run_after <= statement_timestamp()`. */
  readonly claimable?: string
  /** The order of the rows, e.g. `t.run_after, t.command_id`. */
  readonly order: string
}

export type AnyLeased<Row> = Leased<string, string, string, Row>

export function leasedTable<S extends string, A extends string, E extends string, Row>(
  leased: Leased<S, A, E, Row>,
): Leased<S, A, E, Row> {
  const { stored, token, until, worker, heartbeat, claim, heldIn } = leased
  for (const name of [token, until, worker, heartbeat]) if (name !== undefined) columnName(name)
  const strange = [...heldIn, ...(claim ? [claim.from, claim.to] : [])].find((state) => !isState(stored.machine, state))
  if (strange !== undefined)
    throw new KernelFault('store.lease.binding', `${stored.machine.name} has no state ${String(strange)}`)
  return leased
}

export type ClaimRequest<A extends string, E extends string> = {
  readonly worker: string
  /** New for every claim. */
  readonly token: string
  readonly leaseMs: number
  readonly limit?: number
  readonly id?: string
  readonly tenant?: string
  /** Written to every claimed row. */
  readonly set?: AnyRow
  readonly actorKind: A
  readonly traceId: string
  readonly newId: NewId
  readonly payload?: Readonly<Record<string, unknown>> | ((type: E) => Readonly<Record<string, unknown>>)
}

const compiled = new WeakMap<object, Map<string, unknown>>()

function compiledFor<Call, Row>(leased: object, key: string, compile: () => Bound<Call, Row>): Bound<Call, Row> {
  const known = compiled.get(leased) ?? new Map<string, unknown>()
  compiled.set(leased, known)
  // One key, one compiled statement: the types are those of its first call.
  const bound = (known.get(key) as Bound<Call, Row> | undefined) ?? compile()
  known.set(key, bound)
  return bound
}

/** Claims the next waiting rows, oldest first; skips rows that another claimer is taking. */
export async function claimNext<S extends string, A extends string, E extends string, Row>(
  sql: Sql,
  leased: Leased<S, A, E, Row>,
  request: ClaimRequest<A, E>,
): Promise<Decision<Row[]>> {
  const { stored, claim } = leased
  const move = claim ? decideMove(stored.machine, claim.from, claim.to, request.actorKind) : undefined
  if (move && !move.ok) return move
  const { newId, actorKind, traceId, worker, payload, limit = 1 } = request
  const emits = move?.value.emits ?? []
  const events = emits.map((type) =>
    // The statement fills in the target and the time of each event, per row.
    draftEvent(
      stored,
      type,
      { from: claim?.from ?? '', to: claim?.to ?? '', id: null },
      {
        actor: worker,
        actorKind,
        traceId,
        at: new Date(0),
        newId,
        ...(payload ? { payload } : {}),
      },
    ),
  )
  const eventIds = Array.from({ length: limit * emits.length }, () => newId())
  return accept(await take(sql, leased, 'waiting', request, { events, eventIds }))
}

/**
 * Takes over rows with an expired lease, under a new token: the old holder is fenced off before
 * anything is decided about the row. The caller then decides each row (retry, failure) by a transition.
 */
export async function claimLapsed<S extends string, A extends string, E extends string, Row>(
  sql: Sql,
  leased: Leased<S, A, E, Row>,
  request: Pick<ClaimRequest<A, E>, 'worker' | 'token' | 'leaseMs' | 'limit' | 'id' | 'tenant'>,
): Promise<Row[]> {
  return take(sql, leased, 'lapsed', request, { events: [], eventIds: [] })
}

async function take<Row>(
  sql: Sql,
  leased: AnyLeased<Row>,
  of: ClaimShape['of'],
  {
    worker,
    token,
    leaseMs,
    limit = 1,
    id,
    tenant,
    set = {},
  }: Omit<ClaimRequest<string, string>, 'actorKind' | 'traceId' | 'newId' | 'payload'>,
  { events, eventIds }: Pick<ClaimCall, 'events' | 'eventIds'>,
): Promise<Row[]> {
  const shape: ClaimShape = { of, byId: id !== undefined, byTenant: tenant !== undefined, set: Object.keys(set).sort() }
  const strange = shape.set.find((name) => !Object.hasOwn(leased.stored.settable ?? {}, name))
  if (strange !== undefined)
    throw new KernelFault('store.column.not_settable', `${leased.stored.machine.name}.${strange} is not settable`)
  const { statement, values } = compiledFor<ClaimCall, Row>(leased, JSON.stringify(shape), () =>
    compileClaim(leased, shape),
  )
  const rows = await sql.run(statement, values({ worker, token, leaseMs, limit, id, tenant, set, events, eventIds }))
  await failpoint('claim.taken')
  return rows
}

/** Renews leases and returns those that are still held; the others were taken over, released or ended, and their work must stop. */
export async function renewLeases<Row>(
  sql: Sql,
  leased: AnyLeased<Row>,
  held: readonly Held[],
  leaseMs: number,
): Promise<{ readonly renewed: readonly string[]; readonly lost: readonly string[] }> {
  if (held.length === 0) return { renewed: [], lost: [] }
  const { statement, values } = compiledFor(leased, 'renew', () => compileRenew(leased))
  const renewed = (await sql.run(statement, values({ held, leaseMs }))).map(({ id }) => id)
  const living = new Set(renewed)
  return { renewed, lost: held.map(({ id }) => id).filter((id) => !living.has(id)) }
}

/** Releases rows that were not worked on; a lost lease stays lost. Returns the released ids. */
export async function releaseLeases<Row>(
  sql: Sql,
  leased: AnyLeased<Row>,
  held: readonly Held[],
): Promise<readonly string[]> {
  if (held.length === 0) return []
  const { statement, values } = compiledFor(leased, 'release', () => compileRelease(leased))
  return (await sql.run(statement, values(held))).map(({ id }) => id)
}
