/** A room of commands for tests: a provider with a ledger of its own, tasks that do what their payload says, and a runtime one can single-step. */
import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import {
  anyHost,
  type Catalog,
  COMMAND_KIND,
  type CommandWorld,
  type Commands,
  defineCommandType,
  defineConnectorOperation,
  type Definition,
  defineEffect,
  defineFunction,
  definePolicy,
  defineTask,
  type EffectCall,
  EffectFailure,
  EffectPending,
  openApprovalOwner,
  openCatalog,
  openCommands,
  openDrive,
  registerRetry,
  shippedPolicies,
  submitCommand,
  type SubmitCommand,
  type UndoCall,
} from '../../src/domains/commands/index.ts'
import type { ApprovalWorld } from '../../src/domains/approvals/index.ts'
import { errorClasses, retryableErrorClasses } from '../../src/kernel/error-classes.ts'
import { defineRetryPolicy } from '../../src/kernel/retry-policy.ts'
import type { PolicyDecision } from '../../src/kernel/policy/rule.ts'
import { fenceToken, type Next } from '../../src/runtime/index.ts'
import { openTestDb, type TestDb } from './database.ts'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from './tenant.ts'

/** What the provider does with the next calls, in order; then it does what it is asked. */
export type ProviderMode = 'ok' | 'fail_before' | 'fail_after' | 'timeout_after' | 'refuse' | 'crash_before' | 'crash_after' | 'rate_limited'

export class ProcessDied extends Error {}

/** An outside system: it counts what it has really done, by key. */
export class FakeProvider {
  readonly applied = new Map<string, number>()
  readonly calls: string[] = []
  readonly modes: ProviderMode[] = []
  /** Dedupes by key, as a `keyed` provider does. */
  apply(key: string, isKeyed: boolean): void {
    const before = this.applied.get(key) ?? 0
    if (before > 0 && isKeyed) return
    this.applied.set(key, before + 1)
  }

  async call(name: string, { idempotencyKey: key, signal }: Pick<EffectCall, 'idempotencyKey' | 'signal'>, isKeyed: boolean): Promise<unknown> {
    this.calls.push(`${name} ${key}`)
    const mode = this.modes.shift() ?? 'ok'
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
        throw new ProcessDied('died before the call')
      case 'crash_after':
        this.apply(key, isKeyed)
        throw new ProcessDied('died after the call')
    }
  }

  has(key: string): boolean {
    return (this.applied.get(key) ?? 0) > 0
  }
}

const workPayload = z.strictObject({
  subject: z.string(),
  steps: z.array(z.string()).default([]),
  decide: z.string().default('allow'),
  destination: z.string().optional(),
  api_key: z.string().optional(),
  note: z.string().optional(),
})

function effectsOf(provider: FakeProvider, children: () => ChildStarter): Definition[] {
  const undo = (name: string, isKeyed: boolean) => ({
    name,
    do: async (call: UndoCall) => {
      const result = await provider.call(name, call, isKeyed)
      call.emit(name)
      return result
    },
  })
  const book = (letter: string) =>
    defineEffect({
      effect_type: `connector.hotel.book_${letter}`,
      class: 'keyed',
      requires_compensation: true,
      do: (call) => provider.call(`book_${letter}`, call, true),
      undo: undo(`hotel.cancel_${letter}`, true),
    })
  return [
    ...['a', 'b', 'c', 'd'].flatMap((letter) => [
      book(letter),
      defineConnectorOperation({ connector: 'hotel', operation: `book_${letter}`, side_effect: true, idempotency_required: true }),
      registerRetry(defineRetryPolicy({ operation: `hotel.book_${letter}`, retryable: retryableErrorClasses, requires_idempotency_key: true })),
    ]),
    defineEffect({
      effect_type: 'connector.ticket.open',
      class: 'queryable',
      do: (call) => provider.call('open', call, false),
      find: async ({ idempotencyKey }) => (provider.has(idempotencyKey) ? { found: true, result: { looked_up: true } } : { found: false }),
    }),
    defineConnectorOperation({ connector: 'ticket', operation: 'open', side_effect: true }),
    registerRetry(defineRetryPolicy({ operation: 'ticket.open', retryable: retryableErrorClasses })),
    defineEffect({ effect_type: 'connector.mail.send', class: 'opaque', timeout_ms: 50, do: (call) => provider.call('send', call, false) }),
    defineConnectorOperation({ connector: 'mail', operation: 'send', side_effect: true }),
    registerRetry(defineRetryPolicy({ operation: 'mail.send', retryable: retryableErrorClasses })),
    defineEffect({ effect_type: 'work.echo', class: 'read', bounded: true, do: ({ payload }) => Promise.resolve({ echo: payload['subject'] ?? null }) }),
    defineEffect({
      effect_type: 'work.drifting',
      class: 'keyed',
      do: (call) => provider.call('drifting', call, true),
      undo: { name: 'work.undrift', do: async (call) => (call.emit('work.something_else'), provider.call('undrift', call, true)) },
    }),
    defineEffect({
      effect_type: 'command.run',
      class: 'keyed',
      do: async (call) => {
        throw new EffectPending(await children()(call))
      },
    }),
  ]
}

type ChildStarter = (call: EffectCall) => Promise<string>
type Scripted = 'deny' | 'require_more_input' | 'require_approval' | 'escalate' | 'delay' | 'route' | 'allow'

/** Rules that say what the payload tells them to, so that a test can choose its way. */
const scripted = definePolicy({
  name: 'scripted',
  category: 'environment',
  actions: '*',
  decide({ command }) {
    const decision = (command['payload'] as { decide?: string }).decide as Scripted
    switch (decision) {
      case 'require_more_input':
        return (command['payload'] as { note?: string }).note === undefined
          ? { decision, reasons: ['A note is needed.'], metadata: { missing_fields: ['note'] } }
          : { decision: 'allow' }
      case 'require_approval':
        return { decision, reasons: ['Somebody must agree.'], required_approvals: ['owner'] }
      case 'escalate':
        return { decision, reasons: ['Somebody higher up must agree.'], required_approvals: ['chief'] }
      case 'delay':
        return { decision, reasons: ['Not now.'], metadata: { delay_ms: 60_000 } }
      case 'route':
        return { decision, metadata: { queue: 'notifications' } }
      case 'deny':
        return { decision, reasons: ['Not here.'] }
      default:
        return { decision: 'allow' satisfies PolicyDecision }
    }
  },
})

const contract = {
  payload: workPayload,
  error_classes: errorClasses,
  cancellable_by: ['requester', 'admin'] as const,
  audit: ['command_created', 'policy_evaluated'],
}
const connectorEffects = ['a', 'b', 'c', 'd'].map((letter) => `connector.hotel.book_${letter}`)
const anyEffect = [...connectorEffects, 'connector.ticket.open', 'connector.mail.send', 'work.echo', 'work.drifting', 'command.run']

export function testDefinitions(provider: FakeProvider, children: () => ChildStarter): readonly Definition[] {
  return [
    ...shippedPolicies,
    scripted,
    ...effectsOf(provider, children),
    defineFunction({ name: 'work', plan: ({ steps, subject }) => (steps as readonly string[]).map((effect_type) => ({ effect_type, payload: { subject: subject ?? null } })) }),
    defineFunction({ name: 'echo', plan: ({ subject }) => [{ effect_type: 'work.echo', payload: { subject: subject ?? null } }], result: ([first]) => first }),
    defineCommandType({ name: 'work', description: 'Does what its payload says.', side_effects: anyEffect, fields: { api_key: 'secret', note: 'pii' }, ...contract }),
    defineCommandType({ name: 'echo', description: 'Says it again.', side_effects: ['work.echo'], ...contract }),
    defineCommandType({ name: 'booking', description: 'Books and can be undone.', side_effects: anyEffect, cancellation_mode: 'compensate_then_stop', idempotency: { required: true, key_template: 'booking:{subject}' }, ...contract }),
    defineTask({
      name: 'Work',
      description: 'Any work.',
      command_type: 'work',
      function_name: 'work',
      ingress_types: ['user_request', 'webhook', 'system_event', 'scheduled_trigger'],
      required_inputs: ['subject'],
      async_required: true,
      connector_requirements: ['hotel', 'ticket', 'mail'],
      policy_checks: ['permission', 'scripted'],
    }),
    defineTask({
      name: 'Echo',
      description: 'Fast work.',
      command_type: 'echo',
      function_name: 'echo',
      ingress_types: ['user_request'],
      required_inputs: ['subject'],
      sync_allowed: true,
      policy_checks: ['permission', 'scripted'],
    }),
    defineTask({
      name: 'Booking',
      description: 'Work that is undone when it is cancelled.',
      command_type: 'booking',
      function_name: 'work',
      ingress_types: ['user_request'],
      async_required: true,
      connector_requirements: ['hotel', 'ticket', 'mail'],
      policy_checks: ['permission', 'scripted'],
    }),
  ]
}

export type TestRoom = {
  readonly opened: TestDb
  readonly world: CommandWorld
  readonly clock: TestWorld
  readonly tenant: Tenant
  readonly provider: FakeProvider
  readonly catalog: Catalog
  readonly approvals: ApprovalWorld
  readonly woken: string[]
  /** Submits as the writer of the tenant. */
  submit(payload: Record<string, unknown>, more?: Partial<SubmitCommand>): Promise<string>
  /** One turn, with a token of its own. */
  turn(commandId: string): Promise<Next>
  /** Turns until it rests; a due time ahead is not waited for. */
  settle(commandId: string): Promise<string>
  /** Settles everything that was woken meanwhile. */
  settleWoken(): Promise<void>
  statusOf(commandId: string): Promise<string>
  rows<Row extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  close(): Promise<void>
}

let fences = 0

export function nextFence() {
  fences += 1
  return { token: fenceToken(fences), turn: `turn:command:test:${fences}`, attempt: 1, signal: new AbortController().signal }
}

/** Sleeps of a heartbeat never end by themselves; the limit of a call ends after it. */
const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = ms >= 5_000 ? undefined : setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()))
  })

export async function openTestRoom(overrides: Partial<CommandWorld> = {}): Promise<TestRoom> {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
  const clock = aWorld(opened.db)
  const tenant = await aTenant(clock)
  const provider = new FakeProvider()
  const woken: string[] = []
  let room: TestRoom
  const children = (): ChildStarter => async (call) => room.submit({ subject: 'child', ...((call.payload['child'] as object | undefined) ?? {}) }, { idempotencyKey: `child:${call.effectId}` })
  const catalog = accepted(openCatalog(testDefinitions(provider, children), anyHost))
  const commands: Commands = openCommands({
    db: opened.db,
    now: clock.now,
    newId: clock.newId,
    random: () => 0.5,
    catalog,
    wake: async ({ kind, id }) => {
      if (kind === COMMAND_KIND) woken.push(id)
    },
    sleep,
  })
  const world = { ...commands.world, ...overrides }
  const drive = openDrive(world)
  const approvals: ApprovalWorld = { db: opened.db, newId: clock.newId, types: world.approvalTypes, owner: openApprovalOwner(world) }
  const writer = tenant.people.writer.principal
  room = {
    opened,
    world,
    clock,
    tenant,
    provider,
    catalog,
    approvals,
    woken,
    async submit(payload, more = {}) {
      const by = { actor: `user:${writer.userId}`, kind: 'user' as const, traceId: TRACE, principal: writer }
      const submitted = await submitCommand(world, by, {
        workspaceId: tenant.workspace.id,
        taskName: 'Work',
        payload: payload as never,
        ingress: 'user_request',
        requestId: 'req_test',
        ...more,
      })
      return accepted(submitted).command.command_id
    },
    turn: (commandId) => drive(commandId, nextFence()),
    async settle(commandId) {
      for (let turns = 0; turns < 50; turns++) {
        const next = await drive(commandId, nextFence())
        if (next.t === 'done' || (next.t === 'wait' && (next.until === null || next.until > clock.now()))) return room.statusOf(commandId)
      }
      throw new Error('the command does not come to rest')
    },
    async settleWoken() {
      for (let id = woken.shift(); id !== undefined; id = woken.shift()) await room.settle(id)
    },
    async statusOf(commandId) {
      const [row] = await opened.db.query<{ status: string }>('select status from concord.commands where command_id = $1', [commandId])
      return row?.status ?? 'absent'
    },
    rows: (text, values) => opened.db.query(text, values),
    async close() {
      await commands.close()
      await opened.close()
    },
  }
  return room
}

export const randomKey = () => randomBytes(8).toString('hex')

/** The person who is asked: holds every role that test rules name. */
export function decider(room: TestRoom) {
  const { userId, externalId } = room.tenant.people.admin.principal
  return { userId, externalId, orgRoles: ['owner', 'chief', 'operator', 'approver'] }
}

export async function pendingOf(room: TestRoom, commandId: string): Promise<string> {
  const [row] = await room.rows<{ approval_id: string }>(`select approval_id from concord.approvals where command_id = $1 and status = 'pending'`, [commandId])
  if (!row) throw new Error('nothing is pending')
  return row.approval_id
}

/** Every command of the room: its status is the last event's, its history has no hole, every edge is in the table. */
export async function historyFaults(room: TestRoom): Promise<readonly object[]> {
  return room.rows(
    `with changes as (
       select command_id, seq, payload->>'from' as f, payload->>'to' as t, lag(payload->>'to') over (partition by command_id order by seq) as before
       from concord.domain_events where event_type = 'status_changed' and payload->>'target_type' = 'command'
     )
     select 'C06' as fault, c.command_id::text as id from concord.commands c
       left join lateral (select x.t from changes x where x.command_id = c.command_id order by seq desc limit 1) l on true
       where coalesce(l.t, 'created') <> c.status
     union all select 'C07', command_id::text from changes where (before is null and f <> 'created') or before <> f
     union all select 'E05', e.domain_effect_id::text from concord.domain_effects e join concord.commands c using (command_id)
       where e.status = 'executing' and c.status in ('succeeded', 'failed', 'cancelled', 'expired', 'compensated')
     union all select 'E06', o.domain_effect_id::text from concord.domain_effects o join concord.domain_effects k on k.compensates_effect_id = o.domain_effect_id
       group by o.domain_effect_id, o.status having count(*) filter (where k.status = 'succeeded') > 1 or o.status <> 'succeeded'`,
  )
}
