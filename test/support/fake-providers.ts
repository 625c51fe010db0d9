/** Outside systems in the process of a test. They count what they have really done, and fail where a test tells them to. */
import { type EffectCall, EffectFailure } from '../../src/domains/commands/index.ts'
import {
  type ConnectorCall,
  ConnectorFailure,
  type ConnectorResult,
  succeeded,
} from '../../src/domains/connectors/index.ts'

/** What the provider does with the next calls, in order. Afterwards every call succeeds. */
export type ProviderMode =
  | 'ok'
  | 'fail_before'
  | 'fail_after'
  | 'timeout_after'
  | 'refuse'
  | 'crash_before'
  | 'crash_after'
  | 'rate_limited'

export class ProcessDied extends Error {}

/** Counts by idempotency key. */
export class FakeProvider {
  readonly applied = new Map<string, number>()
  readonly calls: string[] = []
  readonly modes: ProviderMode[] = []
  /** The calls that fail until a test removes their name. */
  readonly failing = new Set<string>()
  /** The calls that are refused for good. */
  readonly refusing = new Set<string>()
  /** Set by the modes that kill the caller: it writes nothing from then on. */
  isCallerDead = false
  /** Deduplicates by key, as a `keyed` provider does. */
  apply(key: string, isKeyed: boolean): void {
    const before = this.applied.get(key) ?? 0
    if (before > 0 && isKeyed) return
    this.applied.set(key, before + 1)
  }

  async call(
    name: string,
    { idempotencyKey: key, signal }: Pick<EffectCall, 'idempotencyKey' | 'signal'>,
    isKeyed: boolean,
  ): Promise<unknown> {
    this.calls.push(`${name} ${key}`)
    const mode = this.modes.shift() ?? this.standing(name)
    switch (mode) {
      case 'ok':
        this.apply(key, isKeyed)
        return { done: name, key }
      case 'fail_before':
        throw new EffectFailure('transient_connector_error', 'connection refused', 'no')
      case 'fail_after':
        this.apply(key, isKeyed)
        throw new EffectFailure('transient_connector_error', 'connection reset', 'unknown')
      case 'timeout_after':
        this.apply(key, isKeyed)
        return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
      case 'refuse':
        throw new EffectFailure('validation_error', 'the provider says no')
      case 'rate_limited':
        throw new EffectFailure('rate_limited', 'slow down')
      case 'crash_before':
        this.isCallerDead = true
        throw new ProcessDied('died before the call')
      case 'crash_after':
        this.apply(key, isKeyed)
        this.isCallerDead = true
        throw new ProcessDied('died after the call')
    }
  }

  private standing(name: string): ProviderMode {
    if (this.refusing.has(name)) return 'refuse'
    return this.failing.has(name) ? 'fail_before' : 'ok'
  }

  has(key: string): boolean {
    return (this.applied.get(key) ?? 0) > 0
  }
}

/** A help desk: keeps each ticket under the idempotency key that opened it. */
export class Desk {
  readonly tickets = new Map<string, { id: string; open: boolean }>()
  readonly seen: ConnectorCall[] = []
  readonly troubles: ('lost_before' | 'lost_after')[] = []
  refusedTitle = ''
  /** Runs once, during the next call that opens a ticket. */
  meanwhile: (() => Promise<void>) | undefined

  async call(call: ConnectorCall): Promise<ConnectorResult> {
    this.seen.push(call)
    const { capability, input, context } = call
    if (capability === 'find_ticket') return succeeded({ ticket: this.tickets.get(input['key'] as string) ?? null })
    if (capability === 'close_ticket') {
      for (const ticket of this.tickets.values()) if (ticket.id === input['id']) ticket.open = false
      return succeeded({ closed: input['id'] ?? null })
    }
    const { meanwhile } = this
    this.meanwhile = undefined
    await meanwhile?.()
    const trouble = this.troubles.shift()
    if (input['title'] === this.refusedTitle) throw new ConnectorFailure('validation_error', 'no such queue', 'no')
    if (trouble === 'lost_before') throw new ConnectorFailure('transient_connector_error', 'connection lost', 'unknown')
    const key = context.idempotency_key ?? ''
    const ticket = { id: `T${this.tickets.size + 1}`, open: true }
    this.tickets.set(key, ticket)
    if (trouble === 'lost_after') throw new ConnectorFailure('transient_connector_error', 'connection lost', 'unknown')
    return succeeded({ id: ticket.id })
  }
}
