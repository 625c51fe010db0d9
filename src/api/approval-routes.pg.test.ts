import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { aContent, approvalTypes } from '#test/approvals'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { aCommand } from '#test/concord-rows'
import { accepted, anOrgRole, aPerson, type TestPerson, TRACE } from '#test/tenant'
import {
  type ApprovalDetailView,
  type ApprovalRequest,
  type ApprovalView,
  type ApprovalDeps,
  requestApproval,
  type ResolvedApprovalView,
} from '#domains/approvals'
import { accept } from '#kernel/refusal'
import { encodeId } from '#kernel/ids'
import type { Api } from './api.ts'
import { approvalRoutes } from './approval-routes.ts'
import { openPageCursors } from './page-cursor.ts'

type Page<T> = { readonly items: readonly T[]; readonly next_cursor: string | null }

describe('the routes of the approvals room', () => {
  let api: TestApi
  let app: Api
  let world: ApprovalDeps
  let finance: TestPerson
  let agent: TestPerson

  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    const { db, newId } = api.world
    const owner: ApprovalDeps['owner'] = {
      onResolved: () => Promise.resolve(),
      revise: async (_, approval, edited) =>
        accept([
          await requestFor({
            commandId: approval.command_id,
            approvalType: approval.approval_type,
            content: { ...aContent(), arguments: edited },
          }),
        ]),
    }
    world = { db, newId, types: approvalTypes, owner }
    const mount = approvalRoutes.mount({ approvals: world }, openPageCursors(api.deps.cursorKey))
    app = api.with({ extraRoutes: (other) => void other.route('/', mount) })
    finance = await aPerson(api.world, api.ours, 'writer', 'finance-writer')
    agent = await aPerson(api.world, api.ours, 'writer', 'bot')
    await anOrgRole(api.world, api.ours.orgId, 'finance', [
      finance,
      agent,
      api.ours.people.writer,
      api.ours.people.reader,
    ])
    await db.query(`update identity.users set external_id = 'agent:bot' where id = $1`, [agent.principal.userId])
    // The first use of a key is noted on it; later ones within the minute are not, so that "writes nothing" can be said.
    for (const { key } of [finance, agent]) await call(app, '/me', { key })
  })
  after(() => api.close())

  async function requestFor(more: Partial<ApprovalRequest> = {}): Promise<ApprovalRequest> {
    const commandId =
      more.commandId ?? (await aCommand(api.world.db, api.ours.workspace.id, 'waiting_for_approval')).command_id
    return {
      workspaceId: api.ours.workspace.id,
      approvalType: 'command_approval',
      requestedBy: `user:${api.ours.people.writer.principal.userId}`,
      approver: 'role:finance',
      content: aContent(),
      packet: {
        requestedAction: 'Refund.',
        why: 'Returned.',
        affected: ['order 17'],
        policy: 'cost',
        afterApproval: 'Money is sent.',
      },
      ...more,
      commandId,
    }
  }
  async function ask(more: Partial<ApprovalRequest> = {}) {
    const request = await requestFor(more)
    const by = { id: 'system', kind: 'system', traceId: TRACE } as const
    const { approval } = accepted(await world.db.transaction((tx) => requestApproval(tx, world, by, request)))
    return { ...approval, id: encodeId('approval', approval.approval_id) }
  }
  const resolve = (id: string, person: TestPerson, body: unknown, headers = {}) =>
    call(app, `/approvals/${id}/resolve`, { method: 'POST', key: person.key, body, headers })
  const read = async <T>(path: string, person: TestPerson): Promise<T> => {
    const response = await call(app, path, { key: person.key })
    assert.equal(response.status, 200, await response.clone().text())
    return (await response.json()) as T
  }

  test('[APR-20] an approval without an eligible approver reports it, and is in the inbox of administrators until one is eligible', async () => {
    const approval = await ask({ approver: 'role:auditors' })
    const { admin, reader } = api.ours.people
    const shown = async () => (await read<ApprovalDetailView>(`/approvals/${approval.id}`, reader)).blocked_by
    const blocked = await shown()
    assert.deepEqual([blocked?.code, blocked?.possible, blocked?.required], ['role_without_members', 0, 1])
    assert.match(blocked?.hint ?? '', /concord people grant <name> auditors/)
    const inboxOf = async (person: TestPerson, limit = 100) => {
      const { items } = await read<Page<ApprovalView>>(`/approvals?mine=true&limit=${limit}`, person)
      return items.filter(({ approval_id }) => approval_id === approval.id).map(({ may_decide }) => may_decide)
    }
    assert.deepEqual([await inboxOf(admin), await inboxOf(finance)], [[false], []])
    // Page by page, with others in between that are not the administrator's.
    await ask({ expiresInMinutes: 1 })
    const seen: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const more: string = cursor === '' ? '' : `&cursor=${cursor}`
      const page: Page<ApprovalView> = await read(`/approvals?mine=true&limit=1${more}`, admin)
      assert.ok(page.items.length <= 1)
      seen.push(...page.items.map(({ approval_id }) => approval_id))
      cursor = page.next_cursor
    }
    assert.deepEqual(seen, [approval.id])
    await anOrgRole(api.world, api.ours.orgId, 'auditors', [finance])
    assert.equal(await shown(), null)
    assert.deepEqual([await inboxOf(admin), await inboxOf(finance)], [[], [true]])
  })

  test('[SUP-12] the packet shows its requester with a prefixed id', async () => {
    const { id } = await ask()
    const view = await read<ApprovalDetailView>(`/approvals/${id}`, finance)
    assert.equal(view.packet['requester'], encodeId('user', api.ours.people.writer.principal.userId))
    assert.equal(view.packet['requester'], view.requested_by)
  })

  test('[APR-20] [API-03] the inbox lists the approvals of the caller, an approval shows its packet and deadline, and a decision with a reason closes it', async () => {
    const approval = await ask()
    const inbox = await read<Page<ApprovalView>>('/approvals?mine=true', finance)
    assert.ok(inbox.items.some(({ approval_id }) => approval_id === approval.id))
    const shown = await read<ApprovalDetailView>(`/approvals/${approval.id}`, finance)
    assert.match(shown.approval_id, /^appr_[0-9a-f]{32}$/)
    assert.match(shown.command_id, /^cmd_[0-9a-f]{32}$/)
    assert.equal(shown.expires_at, approval.expires_at?.toISOString())
    assert.deepEqual([shown.may_decide, shown.decision_values], [true, ['approved', 'rejected', 'request_changes']])
    assert.deepEqual(Object.keys(shown.packet).sort(), [
      'affected',
      'after_approval',
      'expiration',
      'hidden_characters',
      'policy',
      'requested_action',
      'requester',
      'risk_level',
      'why',
    ])
    const response = await resolve(approval.id, finance, {
      decision: 'approved',
      reason: 'Fine.',
      payload_hash: shown.payload_hash,
    })
    assert.equal(response.status, 200, await response.clone().text())
    const decided = (await response.json()) as ResolvedApprovalView
    assert.deepEqual(
      [decided.status, decided.decision_reason, decided.decided_by, decided.next],
      ['approved', 'Fine.', encodeId('user', finance.principal.userId), 'run_command'],
    )
    const left = await read<Page<ApprovalView>>('/approvals?mine=true', finance)
    assert.equal(
      left.items.some(({ approval_id }) => approval_id === approval.id),
      false,
    )
    const history = await read<Page<ApprovalView>>('/approvals?status=approved', api.ours.people.reader)
    assert.deepEqual(
      history.items.map(({ approval_id }) => approval_id),
      [approval.id],
    )
  })

  /** The list of bad inputs, 28 to 33, and what else can be sent: the answer, and that nothing is written. */
  const cases: readonly {
    readonly title: string
    readonly answer: string
    readonly body?: unknown
    readonly by?: () => TestPerson
    readonly first?: (id: string) => Promise<unknown>
    readonly facts?: (facts: Record<string, unknown>) => void
  }[] = [
    {
      title: '28 decide an expired approval',
      answer: '409 approval_expired',
      first: () => world.db.query(`update concord.approvals set expires_at = now() where status = 'pending'`),
      facts: ({ expired_at }) => assert.match(String(expired_at), /^\d{4}-\d\d-\d\dT.*Z$/),
    },
    {
      title: '29 decide twice',
      answer: '409 approval_decided',
      first: (id) => resolve(id, finance, { decision: 'rejected', reason: 'No.' }),
      facts: ({ decided_by, decided_at }) => {
        assert.equal(decided_by, encodeId('user', finance.principal.userId))
        assert.match(String(decided_at), /^\d{4}-\d\d-\d\dT.*Z$/)
      },
    },
    { title: '30 requester decides own', answer: '403 self_approval', by: () => api.ours.people.writer },
    { title: '31 agent credential decides', answer: '403 agents_cannot_decide', by: () => agent },
    {
      title: '32 decision "maybe"',
      answer: '422 decision_value',
      body: { decision: 'maybe' },
      facts: ({ allowed }) => assert.deepEqual(allowed, ['approved', 'rejected', 'request_changes']),
    },
    {
      title: '33 decide with an old payload hash',
      answer: '409 payload_changed',
      body: { decision: 'approved', payload_hash: 'f'.repeat(64) },
    },
    {
      title: 'an administrator who was not asked',
      answer: '403 approvals.approver.not_asked',
      by: () => api.ours.people.admin,
    },
    { title: 'a reader', answer: '403 identity.role.insufficient', by: () => api.ours.people.reader },
    { title: 'a person of another organisation', answer: '404 row.not_found', by: () => api.theirs.people.admin },
    {
      title: 'decided_by in the body',
      answer: '422 field_not_allowed',
      body: { decision: 'approved', decided_by: 'user:1' },
    },
    { title: 'an unknown field', answer: '422 unknown_field', body: { decision: 'approved', reson: 'x' } },
    { title: 'no decision', answer: '422 api.field.missing', body: { reason: 'x' } },
    { title: 'a refusal without a reason', answer: '422 approvals.reason.missing', body: { decision: 'rejected' } },
    { title: 'edits that are a list', answer: '422 api.field.type', body: { decision: 'approved', edits: [1] } },
  ]
  for (const { title, answer, body = { decision: 'approved' }, by = () => finance, first, facts } of cases) {
    test(`${title} → ${answer}, and nothing is written`, async () => {
      const approval = await ask()
      await first?.(approval.id)
      const before_ = await api.fingerprint()
      const response = await resolve(approval.id, by(), body)
      const problem = (await response.clone().json()) as { facts?: Record<string, unknown> }
      assert.equal(await outcomeOf(response), answer)
      facts?.(problem.facts ?? {})
      assert.equal(await api.fingerprint(), before_)
    })
  }

  test('[SEC-08] a foreign approval, an absent one, and one in a foreign workspace are the same 404', async () => {
    const approval = await ask()
    const absent = encodeId('approval', '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161')
    const answer = async (id: string, suffix: string, body?: unknown) => {
      const response = await call(app, `/approvals/${id}${suffix}`, {
        key: api.theirs.people.admin.key,
        ...(body ? { method: 'POST', body } : {}),
      })
      const { trace_id: _, request_id: __, ...rest } = (await response.json()) as Record<string, unknown>
      return { status: response.status, ...rest }
    }
    for (const [suffix, body] of [
      ['', undefined],
      ['/resolve', { decision: 'approved' }],
    ] as const) {
      const foreign = await answer(approval.id, suffix, body)
      assert.equal(foreign.status, 404)
      assert.deepEqual(foreign, await answer(absent, suffix, body))
    }
    const list = await (await call(app, '/approvals?status=all&limit=500', { key: api.theirs.people.admin.key })).text()
    assert.equal(list, '{"items":[],"next_cursor":null}')
    const forged = await resolve(
      approval.id,
      finance,
      { decision: 'approved' },
      { 'x-workspace-id': api.theirs.workspace.id },
    )
    assert.equal(await outcomeOf(forged), '404 workspace_unknown')
  })

  test('GET never decides, and ids of another form are refused', async () => {
    const approval = await ask()
    assert.equal(
      await outcomeOf(await call(app, `/approvals/${approval.id}/resolve?decision=approved`, { key: finance.key })),
      '405 api.method.not_allowed',
    )
    for (const id of ['nonsense', approval.approval_id.toUpperCase(), encodeId('command', approval.approval_id)]) {
      assert.equal(await outcomeOf(await call(app, `/approvals/${id}`, { key: finance.key })), '400 id_format')
    }
  })

  test('an approval with edits answers with the fresh approval of the edited content', async () => {
    const approval = await ask({ approvalType: 'editable' })
    const response = await resolve(approval.id, finance, { decision: 'approved', edits: { amount: '10.00' } })
    const decided = (await response.json()) as ResolvedApprovalView
    assert.deepEqual([response.status, decided.status, decided.next], [200, 'approved', 'run_command'])
    assert.notEqual(decided.approval_id, approval.id)
    const old = await read<ApprovalDetailView>(`/approvals/${approval.id}`, finance)
    assert.deepEqual([old.status, old.superseded_by], ['cancelled', decided.approval_id])
    const fresh = await read<ApprovalDetailView>(`/approvals/${decided.approval_id}`, finance)
    assert.deepEqual(fresh.arguments, { order_id: 17, amount: '10.00' })
  })

  test('pages are contiguous, and a cursor opens only its own list', async () => {
    for (let index = 0; index < 5; index++) await ask({ approvalType: 'override' })
    const all = await read<Page<ApprovalView>>('/approvals?approval_type=override&limit=500', finance)
    assert.equal(all.items.length, 5)
    const seen: string[] = []
    let cursor: string | null = null
    do {
      const path: string = `/approvals?approval_type=override&limit=2${cursor === null ? '' : `&cursor=${cursor}`}`
      const page: Page<ApprovalView> = await read(path, finance)
      seen.push(...page.items.map(({ approval_id }) => approval_id))
      cursor = page.next_cursor
    } while (cursor !== null)
    assert.deepEqual(
      seen,
      all.items.map(({ approval_id }) => approval_id),
    )
    const first = await read<Page<ApprovalView>>('/approvals?approval_type=override&limit=1', finance)
    for (const other of [
      '/approvals?limit=1',
      '/approvals?approval_type=override&mine=true',
      '/approvals?approval_type=override&status=all',
    ]) {
      assert.equal(
        await outcomeOf(await call(app, `${other}&cursor=${first.next_cursor}`, { key: finance.key })),
        '400 cursor_invalid',
      )
    }
    assert.equal(
      await outcomeOf(await call(app, '/approvals?status=open', { key: finance.key })),
      '422 api.field.value',
    )
    assert.equal(await outcomeOf(await call(app, '/approvals?limit=501', { key: finance.key })), '422 limit_range')
  })
})
