/** A room of commands with a runtime that a test steps, and a person who decides. */
import { randomBytes } from 'node:crypto'
import {
  type ApprovalDeps,
  type CountedInvited,
  decideApproval,
  openApprovalTypes,
} from '../../src/domains/approvals/index.ts'
import {
  anyHost,
  approvalTypesOf,
  type Catalog,
  COMMAND_KIND,
  type Commands,
  type CommandDeps,
  type Definition,
  openApprovalOwner,
  openCatalog,
  openCommands,
  openDrive,
  submitCommand,
  type SubmitCommand,
} from '../../src/domains/commands/index.ts'
import { byPerson } from '../../src/kernel/actor.ts'
import { fenceToken, type Next, type Process } from '../../src/runtime/index.ts'
import type { Db } from '../../src/store/db.ts'
import { FakeProvider } from './fake-providers.ts'
import { type ChildStarter, testDefinitions } from './projects/commands.ts'
import { openTestDb } from './database.ts'
import { accepted, aTenant, aWorld, type Tenant, type TestWorld, TRACE } from './tenant.ts'

export type TestRoom = {
  readonly db: Db
  readonly world: CommandDeps
  readonly clock: TestWorld
  readonly tenant: Tenant
  readonly provider: FakeProvider
  readonly catalog: Catalog
  readonly approvals: ApprovalDeps
  readonly woken: string[]
  /** Processes of other kinds that were woken. */
  readonly others: Process[]
  /** Submits as the writer of the tenant. */
  submit(payload: Record<string, unknown>, more?: Partial<SubmitCommand>): Promise<string>
  /** Runs one turn with a new fence token. */
  turn(commandId: string): Promise<Next>
  /** Runs turns until the command ends or waits; does not wait for a later due time. */
  settle(commandId: string): Promise<string>
  /** Settles every command that was woken. */
  settleWoken(): Promise<void>
  statusOf(commandId: string): Promise<string>
  rows<Row extends object = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>
  close(): Promise<void>
}

let fences = 0

export function nextFence() {
  fences += 1
  return {
    token: fenceToken(fences),
    turn: `turn:command:test:${fences}`,
    attempt: 1,
    signal: new AbortController().signal,
  }
}

/** A sleep of 5 s or more, such as a heartbeat, never ends by itself; a shorter one is the timeout of a call. */
const sleep = (ms: number, signal: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = ms >= 5_000 ? undefined : setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()))
  })

export type WrapDeps = (world: CommandDeps, provider: FakeProvider) => CommandDeps

/** Replaces the setting about people whom others have invited. */
export const countingInvited =
  (invited: CountedInvited): WrapDeps =>
  (world) => ({ ...world, approvalTypes: openApprovalTypes(approvalTypesOf(world.catalog), { invited }) })

/** Definitions in addition to `testDefinitions`. */
export type MoreDefinitions = (clock: TestWorld) => readonly Definition[]

export async function openTestRoom(wrap?: WrapDeps, more?: MoreDefinitions): Promise<TestRoom> {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
  const clock = aWorld(opened.db)
  const room = openRoomOn(clock, await aTenant(clock), wrap, more)
  return {
    ...room,
    async close() {
      await room.close()
      await opened.close()
    },
  }
}

/** Sets the date of the alerts migration: a sweep ignores older incidents, and the clock of a room is not that of the server. */
export async function dateAlerts({ db }: Pick<TestRoom, 'db'>, at: Date): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.query('set local role none')
    await tx.query('update public.concord_migrations set applied_at = $1 where number = 17', [at])
  })
}

/** A room on a database that the caller opens and closes. */
export function openRoomOn(
  clock: TestWorld,
  tenant: Tenant,
  wrap: WrapDeps = (world) => world,
  more: MoreDefinitions = () => [],
): TestRoom {
  const provider = new FakeProvider()
  const woken: string[] = []
  const others: Process[] = []
  const children = (): ChildStarter => async (call) =>
    room.submit(
      { subject: 'child', ...(call.payload['child'] as object | undefined) },
      { idempotencyKey: `child:${call.effectId}` },
    )
  const catalog = accepted(openCatalog([...testDefinitions(provider, children), ...more(clock)], anyHost))
  const commands: Commands = openCommands({
    db: clock.db,
    now: clock.now,
    newId: clock.newId,
    random: () => 0.5,
    catalog,
    wake: async ({ kind, id }) => {
      if (kind === COMMAND_KIND) woken.push(id)
      else others.push({ kind, id })
    },
    sleep,
  })
  const world = wrap(commands.deps, provider)
  const drive = openDrive(world)
  const approvals: ApprovalDeps = {
    db: clock.db,
    newId: clock.newId,
    types: world.approvalTypes,
    owner: openApprovalOwner(world),
  }
  const writer = tenant.people.writer.principal
  const room: TestRoom = {
    db: clock.db,
    world,
    clock,
    tenant,
    provider,
    catalog,
    approvals,
    woken,
    others,
    async submit(payload, more = {}) {
      const by = { id: `user:${writer.userId}`, kind: 'user' as const, traceId: TRACE, principal: writer }
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
        if (next.t === 'done' || (next.t === 'wait' && (next.until === null || next.until > clock.now())))
          return room.statusOf(commandId)
      }
      throw new Error('The command neither ends nor waits after 50 turns.')
    },
    async settleWoken() {
      for (let id = woken.shift(); id !== undefined; id = woken.shift()) await room.settle(id)
    },
    async statusOf(commandId) {
      const [row] = await clock.db.query<{ status: string }>(
        'select status from concord.commands where command_id = $1',
        [commandId],
      )
      return row?.status ?? 'absent'
    },
    rows: (text, values) => clock.db.query(text, values),
    async close() {
      await commands.close()
    },
  }
  return room
}

export const randomKey = () => randomBytes(8).toString('hex')

/** The approver, with every role that the test policies name. */
export function decider(room: TestRoom) {
  return { ...room.tenant.people.admin.principal, orgRoles: ['owner', 'chief', 'operator', 'approver'] }
}

/** The states of a command, in their order. */
export async function pathOf(room: TestRoom, commandId: string): Promise<readonly string[]> {
  const moves = await room.rows<{ from: string; to: string }>(
    `select payload->>'from' as from, payload->>'to' as to from concord.domain_events
      where command_id = $1 and event_type = 'status_changed' and payload->>'target_type' = 'command' order by seq`,
    [commandId],
  )
  return [...moves.slice(0, 1).map(({ from }) => from), ...moves.map(({ to }) => to)]
}

export async function pendingOf(room: TestRoom, commandId: string): Promise<string> {
  const [row] = await room.rows<{ approval_id: string }>(
    `select approval_id from concord.approvals where command_id = $1 and status = 'pending'`,
    [commandId],
  )
  if (!row) throw new Error('The command has no pending approval.')
  return row.approval_id
}

/** Answers the open approval of the command. */
export async function answer(room: TestRoom, commandId: string, decision: 'approved' | 'rejected'): Promise<void> {
  const approvalId = await pendingOf(room, commandId)
  const said = { workspaceId: room.tenant.workspace.id, approvalId, decision, reason: 'so' }
  accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), said))
}

/** Finds commands whose status differs from their last event, whose history has a gap, or whose effects are inconsistent. */
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
