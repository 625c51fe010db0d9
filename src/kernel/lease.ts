/**
 * A lease lets one holder work on a row until a time. L1: the token on the row decides which holder may write, at every write.
 * L2: an expired lease lets others claim the row; it does not assign the row to anyone. L3: renewing never shortens a lease,
 * so a clock that moves back does not end a lease early. L4: the holder's own clock may only make it give up earlier.
 */
import { KernelFault } from './errors.ts'
import { accept, type Decision, refuse } from './refusal.ts'

export type Lease = {
  readonly holder: string
  /** New for every claim, never reused: the fence. */
  readonly token: string
  readonly leaseUntil: Date
  /** When it was claimed or last renewed, by the store's clock. */
  readonly heartbeatAt: Date
}

/** From `leaseUntil` on the row is open for others. */
export function isExpired(lease: Lease, now: Date): boolean {
  return now.getTime() >= lease.leaseUntil.getTime()
}

export type LeaseClaim = {
  readonly holder: string
  readonly token: string
  readonly leaseMs: number
  readonly now: Date
}

/** Leases a free or expired row; refuses a live lease to every caller, including its own holder. */
export function decideClaim(current: Lease | undefined, claim: LeaseClaim): Decision<Lease> {
  const { holder, token, leaseMs, now } = claim
  if (current && current.token === token) {
    throw new KernelFault('lease.token_reused', 'A claim needs a new token.', { holder })
  }
  if (current && !isExpired(current, now)) {
    return refuse('lease.held', `The row is held by ${current.holder} until ${current.leaseUntil.toISOString()}.`, {
      facts: { leaseUntil: current.leaseUntil.toISOString(), waitMs: current.leaseUntil.getTime() - now.getTime() },
    })
  }
  return accept({ holder, token, leaseUntil: untilOf(now, leaseMs), heartbeatAt: now })
}

/** Extends the lease for the token on the row, even after its expiry if the row was not taken (L2). */
export function decideRenew(current: Lease | undefined, token: string, now: Date, leaseMs: number): Decision<Lease> {
  const held = decideWrite(current, token)
  if (!held.ok) return held
  const until = untilOf(now, leaseMs)
  const leaseUntil = until > held.value.leaseUntil ? until : held.value.leaseUntil
  return accept({ ...held.value, leaseUntil, heartbeatAt: now })
}

/** The fence before every write of a claimed row: result, failure, outputs, state, heartbeat. */
export function decideWrite(current: Lease | undefined, token: string): Decision<Lease> {
  if (current && current.token === token) return accept(current)
  return refuse('lease.lost', 'The lease is no longer held with this token.', {
    hint: 'Stop the work. Another holder may have taken over.',
  })
}

/** Releases the row before its time; a stale token releases nothing. */
export function decideRelease(current: Lease | undefined, token: string): Decision<undefined> {
  const held = decideWrite(current, token)
  return held.ok ? accept(undefined) : held
}

/** Returns how far the store's clock is behind the last heartbeat: above zero it has moved back and a warning is due. */
export function clockMovedBackMs(lease: Lease, now: Date): number {
  return Math.max(0, lease.heartbeatAt.getTime() - now.getTime())
}

/** The span on the holder's own monotonic clock in which it may assume that it holds the lease. */
export type LeaseTrust = { readonly fromMs: number; readonly untilMs: number }

/**
 * Starts before the request is sent, so the time in transit only shortens the span. The margin is for clocks that
 * run at different speeds; a tenth of the lease covers one that is 10 % slow.
 */
export function trustLease(askedAtMs: number, leaseMs: number, marginMs: number = Math.ceil(leaseMs / 10)): LeaseTrust {
  return { fromMs: askedAtMs, untilMs: askedAtMs + leaseMs - marginMs }
}

/** Also false when the holder's clock is before the request: it was set back and proves nothing. */
export function isTrusted(trust: LeaseTrust, ownNowMs: number): boolean {
  return ownNowMs >= trust.fromMs && ownNowMs < trust.untilMs
}

/** Renewing after a third leaves room for two failed attempts. */
export function renewEveryMs(leaseMs: number): number {
  return Math.max(1, Math.floor(leaseMs / 3))
}

function untilOf(now: Date, leaseMs: number): Date {
  const until = new Date(now.getTime() + leaseMs)
  // An invalid time would compare as "not yet expired" forever.
  if (leaseMs > 0 && !Number.isNaN(until.getTime())) return until
  throw new KernelFault('lease.length', 'A lease needs a valid time and a length above zero.', { leaseMs })
}
