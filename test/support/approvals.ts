/** An approvals room with its own database, two tenants, types of every kind, and an owner that records its calls. */
import {
  type ApprovalOwner,
  type ApprovalRequest,
  type ApprovalDeps,
  decideApproval,
  defineApprovalType,
  openApprovalTypes,
  requestApproval,
  type Resolution,
  type StoredApproval,
} from '../../src/domains/approvals/index.ts'
import type { Actor } from '../../src/kernel/actor.ts'
import type { Tx } from '../../src/store/transaction.ts'
import { aCommand, newId } from './concord-rows.ts'
import { openTestDb, type TestDb, type TestDbOptions } from './database.ts'
import { accepted, anOrgRole, aPerson, aTenant, aWorld, type Tenant, type TestPerson, TRACE } from './tenant.ts'
import { byPerson, type Principal } from '#kernel/actor'

export const approvalTypes = openApprovalTypes([
  defineApprovalType({
    name: 'hotel_booking_approval',
    version: '1',
    riskLevel: 'high',
    expirationMinutes: 30,
    approver: 'requester',
    selfDecision: true,
    requiredFields: ['booking_draft_id', 'hotel_name'],
  }),
  defineApprovalType({
    name: 'two_of_them',
    version: '1',
    riskLevel: 'high',
    expirationMinutes: 60,
    quorum: 2,
    editsAllowed: true,
  }),
  defineApprovalType({
    name: 'editable',
    version: '1',
    riskLevel: 'low',
    expirationMinutes: 60,
    editsAllowed: true,
  }),
  defineApprovalType({
    name: 'patient',
    version: '1',
    riskLevel: 'low',
    expirationMinutes: 1_000,
    remindersAfterMinutes: [10, 20],
    escalation: { afterMinutes: 30, role: 'board' },
  }),
])

export const by: Actor = { id: 'system', kind: 'system', traceId: TRACE }

export type ApprovalRoom = {
  readonly opened: TestDb
  readonly world: ApprovalDeps
  readonly ours: Tenant
  readonly theirs: Tenant
  /** The requester, and a person with the org role `finance`. */
  readonly requester: Principal
  readonly approver: Principal
  /** The calls of the owner that were committed, in order. */
  readonly told: Resolution[]
  /** Returns the same room with another owner. */
  with(owner: Partial<ApprovalOwner>): ApprovalDeps
  /** Creates another member of `finance`. */
  member(): Principal
  ask(more?: Partial<ApprovalRequest>): Promise<StoredApproval>
  request(more?: Partial<ApprovalRequest>): Promise<ApprovalRequest>
  decide(
    approval: StoredApproval,
    decider: Principal,
    decision: string,
    more?: object,
  ): ReturnType<typeof decideApproval>
  /** Moves the request this far into the past. */
  age(approval: StoredApproval, minutes: number): Promise<void>
  read(approval: Pick<StoredApproval, 'approval_id'>): Promise<StoredApproval>
  eventsOf(
    approval: Pick<StoredApproval, 'approval_id'>,
  ): Promise<{ type: string; actor: string; purpose: string; payload: Record<string, unknown> }[]>
  close(): Promise<void>
}

export async function openApprovalRoom(options: TestDbOptions = {}): Promise<ApprovalRoom> {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 8, ...options })
  const { db } = opened
  const identity = aWorld(db)
  const [ours, theirs] = [await aTenant(identity), await aTenant(identity)]
  const people: TestPerson[] = []
  for (let index = 0; index < 10; index++) people.push(await aPerson(identity, ours, 'writer', `member-${index}`))
  await anOrgRole(identity, ours.orgId, 'finance', people)
  const told: Resolution[] = []
  const owner: ApprovalOwner = {
    async onResolved(tx: Tx, resolution) {
      // A write of the owner; a test checks whether it shares the commit.
      await tx.query('update concord.commands set error = $2 where command_id = $1', [
        resolution.approval.command_id,
        resolution.next,
      ])
      tx.afterCommit(() => void told.push(resolution))
    },
  }
  const world: ApprovalDeps = { db, newId, types: approvalTypes, owner }
  const requester: Principal = ours.people.writer.principal
  let members = 0
  const member = (): Principal => {
    const person = people[members++ % people.length] as TestPerson
    return { ...person.principal, orgRoles: ['finance'] }
  }

  async function request(more: Partial<ApprovalRequest> = {}): Promise<ApprovalRequest> {
    const commandId = more.commandId ?? (await aCommand(db, ours.workspace.id, 'waiting_for_approval')).command_id
    return {
      workspaceId: ours.workspace.id,
      approvalType: 'command_approval',
      requestedBy: `user:${requester.userId}`,
      approver: 'role:finance',
      content: aContent(),
      packet: {
        requestedAction: 'Refund an order.',
        why: 'The customer returned it.',
        affected: ['order 17'],
        policy: 'cost: more than 50 EUR needs finance',
        afterApproval: 'The money is sent.',
      },
      ...more,
      commandId,
    }
  }

  async function read({ approval_id }: Pick<StoredApproval, 'approval_id'>): Promise<StoredApproval> {
    const [row] = await db.query<StoredApproval>('select * from concord.approvals where approval_id = $1', [
      approval_id,
    ])
    return row as StoredApproval
  }

  return {
    opened,
    world,
    ours,
    theirs,
    requester,
    approver: member(),
    told,
    member,
    with: (other) => ({ ...world, owner: { ...owner, ...other } }),
    request,
    async ask(more) {
      const wanted = await request(more)
      return accepted(await db.transaction((tx) => requestApproval(tx, world, by, wanted))).approval
    },
    decide: (approval, decider, decision, more = {}) =>
      decideApproval(world, byPerson(decider, TRACE), {
        workspaceId: approval.workspace_id,
        approvalId: approval.approval_id,
        decision,
        reason: 'because',
        ...more,
      }),
    async age({ approval_id }, minutes) {
      await db.query(
        `update concord.approvals set created_at = created_at - make_interval(mins => $2), expires_at = expires_at - make_interval(mins => $2)
          where approval_id = $1`,
        [approval_id, minutes],
      )
    },
    read,
    eventsOf: ({ approval_id }) =>
      db.query(
        `select event_type as type, actor, purpose, payload from concord.domain_events
          where payload->>'approval_id' = $1 order by seq`,
        [approval_id],
      ),
    close: () => opened.close(),
  }
}

export function aContent(amount = '80.00') {
  return {
    arguments: { order_id: 17, amount },
    effects: [{ effect_type: 'connector.pay.refund', effect_payload: { amount } }],
    policy_version: 'cost@3',
    command_version: 'refund_order@2',
  }
}
