/** Payments over HTTP whose approvals the payload names, with people of any roles. */
import assert from 'node:assert/strict'
import { z } from 'zod'
import { approvalRoutes } from '../../src/api/approval-routes.ts'
import { commandRoutes } from '../../src/api/command-routes.ts'
import type { Api } from '../../src/api/api.ts'
import { openPageCursors } from '../../src/api/page-cursor.ts'
import type {
  ApprovalDetailView,
  ApprovalView,
  CountedInvited,
  ResolvedApprovalView,
} from '../../src/domains/approvals/index.ts'
import { grantOrgRole } from '../../src/domains/identity/index.ts'
import { type Definition, defineEffect, definePolicy } from '../../src/index.ts'
import { decodeId } from '../../src/kernel/ids.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import type { RequiredApproval } from '../../src/kernel/policy/policy.ts'
import { bySystem } from '#kernel/actor'
import { call, openTestApi, type TestApi } from './api.ts'
import { countingInvited, openRoomOn, type TestRoom } from './commands.ts'
import { defineWork } from './projects/define-work.ts'
import { accepted, anOrgRole, aPerson, type TestPerson, TRACE } from './tenant.ts'

type Problem = {
  readonly code: string
  readonly detail: string
  readonly hint: string
  readonly facts: Record<string, unknown>
}
type Answer<Body> = { readonly status: number; readonly body: Body & Problem }
type Story = { readonly summary: string; readonly chain: readonly { kind: string; text: string }[] }

export type Duties = {
  readonly api: TestApi
  readonly room: TestRoom
  /** What was paid. */
  readonly paid: JsonObject[]
  /** A writer with these org roles. */
  hire(name: string, ...roles: readonly string[]): Promise<TestPerson>
  send<Body>(who: TestPerson, method: 'GET' | 'POST', path: string, body?: unknown): Promise<Answer<Body>>
  /** Submits as the person, and returns the id of the command. */
  submit(who: TestPerson, task: string, needs: readonly RequiredApproval[], amount?: string): Promise<string>
  /** The open approvals of the command, by the name of the approver. */
  open(commandId: string): Promise<Record<string, ApprovalView>>
  show(who: TestPerson, approval: ApprovalView): Promise<ApprovalDetailView>
  approve(
    who: TestPerson,
    approval: Pick<ApprovalView, 'approval_id'>,
    more?: object,
  ): Promise<Answer<ResolvedApprovalView>>
  /** Lets the command run, and returns its status. */
  settle(commandId: string): Promise<string>
  why(commandId: string): Promise<Story>
  close(): Promise<void>
}

/** The open approval of an approver; it fails the test if there is none. */
export function approvalOf(approvals: Readonly<Record<string, ApprovalView>>, name: string): ApprovalView {
  const approval = approvals[name]
  assert.ok(approval, `${name} was not asked: ${Object.keys(approvals).join(', ')}`)
  return approval
}

const payload = z.strictObject({
  subject: z.string(),
  amount: z.string().default('1.00'),
  needs: z.array(z.unknown()).default([]),
})

function definitions(paid: Duties['paid']): readonly Definition[] {
  const work = {
    payload,
    plan: ({ subject = '', amount = '' }: Record<string, unknown>) => [
      { effect_type: 'pay.send', payload: { subject: String(subject), amount: String(amount) } },
    ],
    effects: ['pay.send'],
    task: { policy_checks: ['permission', 'as_needed'], ingress_types: ['user_request', 'agent_action'] as const },
  }
  return [
    definePolicy({
      name: 'as_needed',
      category: 'approval_requirement',
      actions: '*',
      decide: ({ command }) => ({
        decision: 'require_approval',
        reasons: ['Money leaves the organisation.'],
        required_approvals: (command['payload'] as { needs: RequiredApproval[] }).needs,
      }),
    }),
    defineEffect({
      effect_type: 'pay.send',
      class: 'keyed',
      risk_level: 'medium',
      do({ payload: { subject, amount } }) {
        paid.push({ subject: subject ?? null, amount: amount ?? null })
        return Promise.resolve({ paid: amount ?? null })
      },
    }),
    ...defineWork({ ...work, name: 'Pay' }),
    ...defineWork({ ...work, name: 'Pay Edited', type: { approval: { editor_may_approve: true } } }),
    ...defineWork({ ...work, name: 'Pay Two', type: { approval: { approver: 'role:finance', quorum: 2 } } }),
  ]
}

export async function openDuties(invited: CountedInvited = 'by_others'): Promise<Duties> {
  const api = await openTestApi({ defaultWorkspace: 'main' })
  const paid: Duties['paid'] = []
  const room = openRoomOn(api.world, api.ours, countingInvited(invited), () => definitions(paid))
  const app: Api = api.with({
    extraRoutes: (router) => {
      const cursors = openPageCursors(api.deps.cursorKey)
      router.route('/', commandRoutes.mount({ ...api.deps, commands: room.world }, cursors))
      router.route('/', approvalRoutes.mount({ approvals: room.approvals }, cursors))
    },
  })
  const roles = new Set<string>()
  let subjects = 0

  const duties: Duties = {
    api,
    room,
    paid,
    async hire(name, ...orgRoles) {
      const person = await aPerson(api.world, api.ours, 'writer', name)
      for (const role of orgRoles) {
        if (!roles.has(role)) await anOrgRole(api.world, api.ours.orgId, role)
        roles.add(role)
        const { userId } = person.principal
        accepted(await grantOrgRole(api.world, bySystem(TRACE), { orgId: api.ours.orgId, userId, role }))
      }
      return person
    },
    async send(who, method, path, body) {
      const response = await call(app, path, { method, key: who.key, body })
      return { status: response.status, body: (await response.json()) as never }
    },
    async submit(who, task, needs, amount = '1.00') {
      const request = { task_name: task, payload: { subject: `s${++subjects}`, amount, needs } }
      const { body } = await duties.send<{ command_id: string }>(who, 'POST', '/commands', request)
      await duties.settle(body.command_id)
      return body.command_id
    },
    async open(commandId) {
      const { body } = await duties.send<{ items: ApprovalView[] }>(
        api.ours.people.reader,
        'GET',
        `/approvals?command_id=${commandId}`,
      )
      return Object.fromEntries(body.items.map((approval) => [approval.approver.replace('role:', ''), approval]))
    },
    show: async (who, { approval_id }) =>
      (await duties.send<ApprovalDetailView>(who, 'GET', `/approvals/${approval_id}`)).body,
    approve: (who, { approval_id }, more = {}) =>
      duties.send(who, 'POST', `/approvals/${approval_id}/resolve`, { decision: 'approved', reason: 'fine', ...more }),
    settle: (commandId) => room.settle(accepted(decodeId('command', commandId))),
    why: async (commandId) =>
      (await duties.send<Story>(api.ours.people.reader, 'GET', `/commands/${commandId}/explanation`)).body,
    async close() {
      await room.close()
      await api.close()
    },
  }
  return duties
}
