/** A deploy changes the plan of a command that waits for an approval: people are asked again with the difference, and nothing else runs. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { askChanged } from '#domains/approvals'
import { definePolicy } from '#domains/commands'
import { decodeId } from '#kernel/ids'
import { call, openTestApi, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import { defineWork } from '#test/projects/define-work'
import { accepted, anOrgRole, aPerson, type TestPerson, TRACE } from '#test/tenant'
import type { Api } from './api.ts'

type Json = Record<string, unknown>
type Answer = { readonly status: number; readonly body: Json }
type Deployed = { readonly room: TestRoom; readonly app: Api }

describe('a plan that changes while people are asked', () => {
  let api: TestApi
  let owner: TestPerson
  let second: TestPerson
  let checker: TestPerson
  let old: Deployed
  let now: Deployed

  before(async () => {
    api = await openTestApi()
    owner = await aPerson(api.world, api.ours, 'writer', 'owner')
    second = await aPerson(api.world, api.ours, 'writer', 'second')
    await anOrgRole(api.world, api.ours.orgId, 'owner', [owner, second])
    checker = await aPerson(api.world, api.ours, 'writer', 'checker')
    await anOrgRole(api.world, api.ours.orgId, 'checker', [checker])
    old = deploy(['connector.hotel.book_a'])
    now = deploy(['connector.hotel.book_b'])
  })
  after(async () => {
    await old.room.close()
    await now.room.close()
    await api.close()
  })

  /** A version of the project whose function plans these effects. */
  function deploy(steps: readonly string[]): Deployed {
    const trip = (name: string, quorum: number) =>
      defineWork({
        name,
        payload: z.strictObject({ subject: z.string(), decide: z.string().default('require_approval') }),
        plan: ({ subject }) => steps.map((effect_type) => ({ effect_type, payload: { subject: subject ?? null } })),
        effects: ['connector.hotel.book_a', 'connector.hotel.book_b'],
        type: { approval: { quorum }, risk_level: name === 'Risky Trip' ? 'high' : 'low' },
        task: { connector_requirements: ['hotel'], policy_checks: ['permission', 'scripted'] },
      })
    // Its second effect depends on the number of earlier commands.
    const counted = [
      definePolicy(
        { name: 'counted', category: 'environment', actions: '*', decide: () => ({ decision: 'allow' }) },
        { facts: ['commands_last_hour'] },
      ),
      ...defineWork({
        name: 'Counted Trip',
        reads_facts: true,
        payload: z.strictObject({ subject: z.string(), decide: z.string().default('require_approval') }),
        plan: (_payload, { facts }) => [
          ...steps.map((effect_type) => ({ effect_type, payload: {} })),
          { effect_type: 'connector.hotel.book_c', payload: { count: facts['commands_last_hour'] as number } },
        ],
        effects: ['connector.hotel.book_a', 'connector.hotel.book_b', 'connector.hotel.book_c'],
        task: { connector_requirements: ['hotel'], policy_checks: ['permission', 'scripted', 'counted'] },
      }),
    ]
    const pair = [
      definePolicy({
        name: 'pair',
        category: 'approval_requirement',
        actions: '*',
        decide: () => ({ decision: 'require_approval', required_approvals: ['owner', 'checker'] }),
      }),
      ...defineWork({
        name: 'Pair Trip',
        payload: z.strictObject({ subject: z.string() }),
        plan: ({ subject }) => steps.map((effect_type) => ({ effect_type, payload: { subject: subject ?? null } })),
        effects: ['connector.hotel.book_a', 'connector.hotel.book_b'],
        type: { risk_level: 'medium' },
        task: { connector_requirements: ['hotel'], policy_checks: ['permission', 'pair'] },
      }),
    ]
    const room = openRoomOn(api.world, api.ours, undefined, () => [
      ...trip('Trip', 1),
      ...trip('Big Trip', 2),
      ...trip('Risky Trip', 1),
      ...counted,
      ...pair,
    ])
    const app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
    return { room, app }
  }

  async function ask(app: Api, path: string, body?: unknown, key = api.ours.people.writer.key): Promise<Answer> {
    const method = body === undefined ? 'GET' : 'POST'
    const answer = await call(app, path, { method, key, body, headers: { 'x-workspace': 'main' } })
    return { status: answer.status, body: (await answer.json()) as Json }
  }
  async function asked(task_name = 'Trip'): Promise<string> {
    const { body } = await ask(old.app, '/commands', { task_name, payload: { subject: 's' } })
    const id = String(body['command_id'])
    assert.equal(await settle(old, id), 'waiting_for_approval')
    return id
  }
  const settle = ({ room }: Deployed, id: string) => room.settle(accepted(decodeId('command', id)))
  const cards = async (id: string) =>
    (await ask(now.app, `/approvals?command_id=${id}&status=all`, undefined, owner.key)).body['items'] as Json[]
  const openCard = async (id: string) => {
    const open = (await cards(id)).filter(({ status }) => status === 'pending')
    assert.equal(open.length, 1)
    return String(open[0]?.['approval_id'])
  }
  const decide = (app: Api, approvalId: string, body: Json, key = owner.key) =>
    ask(app, `/approvals/${approvalId}/resolve`, body, key)
  const done = (id: string) =>
    now.room.rows<{ effect_type: string }>(
      `select effect_type from concord.domain_effects where command_id = $1 and effect_type like 'connector.%' and status = 'succeeded'`,
      [accepted(decodeId('command', id))],
    )
  const start = async ({ room }: Deployed) => (await askChanged(room.approvals, { traceId: TRACE })).asked

  test('[D7] [APR-15] at the start: the old card is closed, a new one shows the difference, and one round is one change', async () => {
    const id = await asked()
    const first = await openCard(id)
    assert.equal(await start(old), 0)
    assert.equal(await start(now), 1)
    assert.deepEqual([await start(now), await start(now)], [0, 0])
    const card = await openCard(id)
    assert.notEqual(card, first)
    assert.equal((await cards(id)).length, 2)
    const { body } = await ask(now.app, `/approvals/${card}`, undefined, owner.key)
    const why = String((body['packet'] as Json)['why'])
    assert.match(
      why,
      /^The plan has changed since people were asked: it now does .*book_b.*; it no longer does .*book_a/,
    )
    const late = await decide(now.app, first, { decision: 'approved' })
    assert.deepEqual([late.status, late.body['code']], [409, 'payload_changed'])
    assert.equal((await decide(now.app, card, { decision: 'approved' })).status, 200)
    assert.equal(await settle(now, id), 'succeeded')
    assert.deepEqual(await done(id), [{ effect_type: 'connector.hotel.book_b' }])
  })

  test('[D7] [APR-15] at the click: 409 with the new card, nothing runs and nothing fails', async () => {
    const id = await asked()
    const first = await openCard(id)
    const clicked = await decide(now.app, first, { decision: 'approved' })
    assert.deepEqual([clicked.status, clicked.body['code']], [409, 'payload_changed'])
    const card = await openCard(id)
    assert.equal((clicked.body['facts'] as Json | undefined)?.['superseded_by'] ?? clicked.body['superseded_by'], card)
    assert.deepEqual([await settle(now, id), await done(id)], ['waiting_for_approval', []])
    assert.equal((await decide(now.app, card, { decision: 'approved' })).status, 200)
    assert.equal(await settle(now, id), 'succeeded')
    assert.deepEqual(await done(id), [{ effect_type: 'connector.hotel.book_b' }])
  })

  test('[D7] a stale card can be rejected, and edits of it ask again too', async () => {
    const rejected = await asked()
    assert.equal((await decide(now.app, await openCard(rejected), { decision: 'rejected', reason: 'no' })).status, 200)
    assert.equal(await settle(now, rejected), 'failed')
    const edited = await asked()
    const answer = await decide(now.app, await openCard(edited), { decision: 'approved', edits: { subject: 't' } })
    assert.equal(answer.status, 409)
    assert.deepEqual([await settle(now, edited), await done(edited)], ['waiting_for_approval', []])
  })

  test('[M3] [D7] after an edit the requester may still confirm when the plan changes, no matter who finds out', async () => {
    const id = await asked('Pair Trip')
    const open = async () =>
      Object.fromEntries(
        (await cards(id))
          .filter(({ status }) => status === 'pending')
          .map(({ approver, approval_id }) => [String(approver), String(approval_id)]),
      ) as Record<'role:owner' | 'role:checker', string>
    const edited = { decision: 'approved', edits: { subject: 't' } }
    assert.equal((await decide(old.app, (await open())['role:owner'], edited)).status, 200)
    assert.equal(
      (await decide(now.app, (await open())['role:checker'], { decision: 'approved' }, checker.key)).status,
      409,
    )
    const fresh = await open()
    const requester = api.ours.people.writer.key
    assert.equal((await decide(now.app, fresh['role:checker'], { decision: 'approved' }, requester)).status, 403)
    assert.equal((await decide(now.app, fresh['role:owner'], { decision: 'approved' })).status, 403)
    assert.equal((await decide(now.app, fresh['role:owner'], { decision: 'approved' }, requester)).status, 200)
    assert.equal((await decide(now.app, fresh['role:checker'], { decision: 'approved' }, checker.key)).status, 200)
    assert.equal(await settle(now, id), 'succeeded')
  })

  test('[D7] votes for the old plan do not count for the new one', async () => {
    const id = await asked('Big Trip')
    assert.equal((await decide(old.app, await openCard(id), { decision: 'approved' })).status, 200)
    assert.equal((await decide(now.app, await openCard(id), { decision: 'approved' }, second.key)).status, 409)
    const card = await openCard(id)
    assert.equal((await decide(now.app, card, { decision: 'approved' }, second.key)).status, 200)
    assert.equal(await settle(now, id), 'waiting_for_approval')
    assert.equal((await decide(now.app, card, { decision: 'approved' })).status, 200)
    assert.equal(await settle(now, id), 'succeeded')
  })

  test('[G2] [D7] [APR-15] a deploy and a rollback ask about the first plan again, whatever was approved before', async () => {
    const id = await asked('Pair Trip')
    const open = async (approver: string) => {
      const card = (await cards(id)).find((each) => each['status'] === 'pending' && each['approver'] === approver)
      return String(card?.['approval_id'])
    }
    for (const [deployed, next] of [
      [old, now],
      [now, old],
      [old, now],
      [now, old],
    ] as const) {
      assert.equal((await decide(deployed.app, await open('role:owner'), { decision: 'approved' })).status, 200)
      assert.ok((await start(next)) > 0)
    }
    assert.equal((await decide(old.app, await open('role:owner'), { decision: 'approved' })).status, 200)
    assert.equal((await decide(old.app, await open('role:checker'), { decision: 'approved' }, checker.key)).status, 200)
    // The same after everybody has approved, before the plan is made.
    for (const next of [now, old]) {
      assert.equal(await settle(next, id), 'waiting_for_approval')
      assert.equal((await decide(next.app, await open('role:owner'), { decision: 'approved' })).status, 200)
      const last = await decide(next.app, await open('role:checker'), { decision: 'approved' }, checker.key)
      assert.equal(last.status, 200)
    }
    assert.equal(await settle(old, id), 'succeeded')
    assert.deepEqual(await done(id), [{ effect_type: 'connector.hotel.book_a' }])
  })

  test('[D7] ten starts and five clicks at once: one new round', async () => {
    const id = await asked()
    const first = await openCard(id)
    await Promise.all([
      ...Array.from({ length: 10 }, () => start(now)),
      ...Array.from({ length: 5 }, () => decide(now.app, first, { decision: 'approved' })),
    ])
    assert.equal((await cards(id)).length, 2)
    assert.deepEqual([await settle(now, id), await done(id)], ['waiting_for_approval', []])
  })

  test('[5] [D7] [APR-15] between the approval and the plan: people are asked again with the difference, and edits keep their author', async () => {
    for (const edits of [undefined, { subject: 'edited' }]) {
      const id = await asked(edits ? 'Risky Trip' : 'Trip')
      await decide(old.app, await openCard(id), { decision: 'approved', ...(edits && { edits }) })
      if (edits) await decide(old.app, await openCard(id), { decision: 'approved' }, second.key)
      assert.equal((await ask(now.app, `/commands/${id}`)).body['status'], 'approved')
      assert.deepEqual([await settle(now, id), await done(id)], ['waiting_for_approval', []])
      const card = await openCard(id)
      const { body } = await ask(now.app, `/approvals/${card}`, undefined, owner.key)
      assert.match(
        String((body['packet'] as Json)['why']),
        /^The plan has changed since people were asked: it now does .*book_b.*; it no longer does .*book_a/,
      )
      if (edits) assert.equal((await decide(now.app, card, { decision: 'approved' })).status, 403)
      assert.equal((await decide(now.app, card, { decision: 'approved' }, second.key)).status, 200)
      assert.equal(await settle(now, id), 'succeeded')
      assert.deepEqual(await done(id), [{ effect_type: 'connector.hotel.book_b' }])
    }
  })

  test('[5] a plan that can no longer be made fails with the reason, and a policy that denies it now denies it', async () => {
    const id = await asked()
    await decide(old.app, await openCard(id), { decision: 'approved' })
    const strict = openRoomOn(api.world, api.ours, undefined, () =>
      defineWork({
        name: 'Trip',
        payload: z.strictObject({ subject: z.string(), decide: z.string() }),
        plan: () => [{ effect_type: 'connector.hotel.book_b', payload: {} }],
        effects: ['connector.hotel.book_b'],
        task: { connector_requirements: ['hotel'], policy_checks: ['permission', 'never'] },
      }).concat(
        definePolicy({ name: 'never', category: 'environment', actions: '*', decide: () => ({ decision: 'deny' }) }),
      ),
    )
    assert.equal(await strict.settle(accepted(decodeId('command', id))), 'failed')
    assert.equal((await ask(now.app, `/commands/${id}`)).body['error_class'], 'policy_denied')
    await strict.close()
  })

  test('[1a] [ERR-12] a retry runs the step that failed as it was approved: facts and deploys change nothing, what succeeded is not repeated', async () => {
    const id = await asked('Counted Trip')
    assert.equal((await decide(old.app, await openCard(id), { decision: 'approved' })).status, 200)
    old.room.provider.modes.push('ok', 'refuse')
    assert.equal(await settle(old, id), 'failed')
    await asked('Counted Trip')
    for (const deployed of [old, now]) {
      deployed.room.provider.calls.length = 0
      if (deployed === old) deployed.room.provider.modes.push('refuse')
      assert.equal((await ask(deployed.app, `/commands/${id}/retry`, {})).status, 200)
      await settle(deployed, id)
      assert.deepEqual(
        deployed.room.provider.calls.map((call) => call.split(' ')[0]),
        ['book_c'],
      )
    }
    assert.deepEqual(await done(id), [
      { effect_type: 'connector.hotel.book_a' },
      { effect_type: 'connector.hotel.book_c' },
    ])
    const counts = await now.room.rows<{ count: number }>(
      `select distinct (effect_payload->>'count')::int as count from concord.domain_effects
       where command_id = $1 and effect_type = 'connector.hotel.book_c'`,
      [accepted(decodeId('command', id))],
    )
    assert.deepEqual(counts, [{ count: 0 }])
  })

  test('[D7] a plan that policy no longer allows is refused at the click, with what to do', async () => {
    const id = await asked()
    const broken = openRoomOn(api.world, api.ours, undefined, () =>
      defineWork({
        name: 'Trip',
        payload: z.strictObject({ subject: z.number(), decide: z.string() }),
        plan: () => [{ effect_type: 'connector.hotel.book_b', payload: {} }],
        effects: ['connector.hotel.book_b'],
        task: { connector_requirements: ['hotel'], policy_checks: ['permission', 'scripted'] },
      }),
    )
    const app = api.with({ work: { commands: broken.world, approvals: broken.approvals, webhooks: [] } })
    const clicked = await decide(app, await openCard(id), { decision: 'approved' })
    assert.deepEqual([clicked.status, clicked.body['code']], [409, 'commands.plan.changed'])
    assert.match(String(clicked.body['hint']), /Reject the approval/)
    const { asked: again, failed } = await askChanged(broken.approvals, { traceId: TRACE })
    assert.equal(again, 0)
    assert.match(failed.map(({ error }) => String(error)).join(), /cannot be approved: The payload is not valid/)
    await openCard(id)
    await broken.close()
  })
})
