/** The undo of a command over HTTP: what it undoes and what not, who may, once, last effect first, and what both commands tell about it. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { findBrokenInvariants } from '#domains/commands'
import { driveUntil } from '#test/agents'
import { outcomeOf } from '#test/api'
import { historyFaults } from '#test/commands'
import { aPerson } from '#test/tenant'
import { A, B, C, LIMITED, READ, TICKET, openUndoStory, type Preview, type View } from '#test/undo-story'

const { api, room, writer, admin, uuidOf, get, post, settle, calls, done, answer, undo, textsOf, close } =
  await openUndoStory()

describe('the undo of a command', () => {
  after(close)

  test('[D1] [EFF-10] [EFF-23] [EFF-26] a command that succeeded is undone, last effect first; it keeps its state and shows the undo', async () => {
    const id = await done([A, READ, B, C])
    const undoId = await undo(id)
    assert.deepEqual(calls(), ['hotel.cancel_c', 'hotel.cancel_b', 'hotel.cancel_a'])
    const [of, by] = [await get(`/commands/${id}`), await get(`/commands/${undoId}`)]
    assert.deepEqual([of.status, of.undo], ['succeeded', { command_id: undoId, status: 'succeeded' }])
    assert.deepEqual([by.status, by.undo], ['succeeded', null])
    for (const view of [of, by]) assert.deepEqual(view.next, [])
    const listed = await get<{ items: View[] }>('/commands')
    assert.deepEqual(listed.items.find(({ command_id }) => command_id === id)?.undo, of.undo)
    const rows = await room.rows<{ type: string; of: string }>(
      `select u.effect_type as type, o.effect_type as of from concord.domain_effects as u
       join concord.domain_effects as o on o.domain_effect_id = u.compensates_effect_id
       where u.command_id = $1 and o.command_id = $2 and u.status = 'succeeded' order by u.declaration_order`,
      [uuidOf(undoId), uuidOf(id)],
    )
    assert.deepEqual(
      rows.map(({ type, of: undone }) => `${type} of ${undone}`),
      [C, B, A].map((effect) => `compensation.hotel.cancel_${effect.at(-1) ?? ''} of ${effect}`),
    )
  })

  test('[4] two spellings of an id name one command, so they get one undo', async () => {
    const id = await done([A])
    const ask = (command_id: string) =>
      post('/commands', { task_name: 'Undo Command', payload: { command_id } }, admin())
    const [first, second] = [await ask(uuidOf(id)), await ask(id)]
    assert.deepEqual([first.status, second.status], [202, 200])
    const { command_id } = (await first.json()) as View
    assert.equal(((await second.json()) as View).command_id, command_id)
    assert.equal(await settle(command_id), 'succeeded')
    assert.deepEqual((await get(`/commands/${id}`)).undo?.command_id, command_id)
  })

  test('[4] the key of an agent undoes only what it proposed, and learns nothing about other commands', async () => {
    const keyOf = async (agent: string) => {
      const body = { name: agent, role: 'writer', agent, tools: ['tour', 'undo_command'] }
      const made = await post('/keys', body)
      const { key } = (await made.json()) as { key: string }
      assert.equal(made.status, 201)
      return key
    }
    const propose = async (tool_name: string, payload: object, key: string) => {
      const asked = await driveUntil(room, post('/agent-actions', { tool_name, payload, reason: 'so' }, key))
      return (await asked.json()) as { command_id: string; decision: string; reasons: string[] }
    }
    const [planner, other] = [await keyOf('planner'), await keyOf('other')]
    const own = await propose('tour', { steps: [A] }, planner)
    await settle(own.command_id)
    const undone = await propose('undo_command', { command_id: own.command_id }, planner)
    assert.equal(undone.decision, 'require_approval')
    // Of its own person, of another person, of another agent of its person, and of nobody.
    const absent = `cmd_${uuidOf(own.command_id).replaceAll('-', '').replace(/.{4}$/, '0000')}`
    const ids = [await done([A]), await done([B], 'allow', admin()), own.command_id, absent]
    for (const [at, id] of ids.entries()) {
      const key = at === 2 ? other : planner
      await post(`/commands/${undone.command_id}/cancel`, {})
      const asked = await propose('undo_command', { command_id: id }, key)
      assert.deepEqual([at, asked.decision, asked.reasons], [at, 'deny', ['There is no such command.']])
      const { items } = await get<{
        items: { event_type: string; payload: { input: { context: { facts: Record<string, unknown> } } } }[]
      }>(`/commands/${asked.command_id}/events`, key)
      const judged = items.find(({ event_type }) => event_type === 'policy_evaluated')
      const { undo_target, risk_level, ...others } = judged?.payload.input.context.facts ?? assert.fail('no facts')
      assert.deepEqual({ undo_target, risk_level }, { undo_target: null, risk_level: null })
      assert.ok(!JSON.stringify(others).includes(uuidOf(id)))
    }
  })

  test('[D1] `why` of both tells both', async () => {
    const id = await done([A])
    const undoId = await undo(id)
    const [of, by] = [await textsOf(id), await textsOf(undoId)]
    assert.ok(of.some((text) => text.endsWith(`asked to undo it with ${undoId}, because: wrong month.`)))
    assert.ok(of.includes(`Its undo ${undoId} has succeeded.`))
    assert.ok(by.includes(`It undoes Tour (${id}), which has succeeded.`))
    assert.ok(by.some((text) => text.endsWith('asked for Undo Command by user request, because: wrong month.')))
    const { summary } = await get<{ summary: string }>(`/commands/${id}/explanation`)
    assert.equal(summary, `Tour has succeeded, and was undone by ${undoId}.`)
  })

  test('[D1] the undo gets the payload, the result and the key of the effect that it undoes, and its own key', async () => {
    const id = await done([A])
    const [effect] = await room.rows<{ key: string; effect_id: string }>(
      `select idempotency_key as key, domain_effect_id as effect_id from concord.domain_effects where command_id = $1 and effect_type = $2`,
      [uuidOf(id), A],
    )
    const made: unknown[] = []
    const provide = room.provider.call.bind(room.provider)
    room.provider.call = (name, given, isKeyed) => {
      made.push((given as unknown as { undone: unknown }).undone)
      return provide(name, given, isKeyed)
    }
    await undo(id)
    room.provider.call = provide
    assert.deepEqual(room.provider.calls, [`hotel.cancel_a undo:${effect?.effect_id ?? ''}`])
    assert.deepEqual(made[0], {
      effectId: effect?.effect_id,
      idempotencyKey: effect?.key,
      payload: { subject: 's' },
      result: { done: 'book_a', key: effect?.key },
    })
  })

  test('[D1] the preview says what would be undone, what not and why, and what policy would decide; nothing is recorded', async () => {
    const id = await done([A, TICKET, LIMITED, READ, B])
    room.clock.travel(61_000)
    const rows = () =>
      room.rows('select (select count(*) from concord.commands), (select count(*) from concord.journal)')
    const before = await rows()
    const preview = await get<Preview>(`/commands/${id}/undo`)
    assert.deepEqual(await rows(), before)
    assert.deepEqual(
      preview.undone.map(({ effect_type, undo: by }) => [effect_type, by]),
      [
        [B, 'hotel.cancel_b'],
        [A, 'hotel.cancel_a'],
      ],
    )
    assert.deepEqual(
      preview.kept.map(({ effect_type, why }) => [effect_type, why]),
      [
        [LIMITED, 'too_late'],
        [TICKET, 'no_undo_declared'],
      ],
    )
    assert.deepEqual(
      [preview.refused, preview.request?.policy.decision, preview.request?.approvals.map(({ approver }) => approver)],
      [null, 'require_approval', ['role:operator']],
    )
    assert.deepEqual(
      preview.request?.effects.map(({ effect_type, effect_class }) => [effect_type, effect_class]),
      [
        ['compensation.hotel.cancel_b', 'keyed'],
        ['compensation.hotel.cancel_a', 'keyed'],
      ],
    )
    await undo(id)
    assert.deepEqual(calls(), ['hotel.cancel_b', 'hotel.cancel_a'])
    const after = await get<Preview>(`/commands/${id}/undo`)
    assert.deepEqual([after.undone, after.refused?.code], [[], 'commands.undo.nothing_left'])
    assert.deepEqual(
      after.kept.map(({ why }) => why),
      ['already_undone', 'too_late', 'no_undo_declared', 'already_undone'],
    )
  })

  test('[D1] undoing twice gives the first answer: at once, while it waits, and when it is done', async () => {
    const id = await done([A, B])
    const answers = await Promise.all(Array.from({ length: 8 }, () => post(`/commands/${id}/undo`, {})))
    const ids = await Promise.all(answers.map(async (each) => ((await each.json()) as View).command_id))
    assert.deepEqual(
      answers.map(({ status }) => status).toSorted((a, b) => a - b),
      [...Array<number>(7).fill(200), 202],
    )
    assert.equal(new Set(ids).size, 1)
    const [undoId = ''] = ids
    await settle(undoId)
    const again = async () => {
      const asked = await post(`/commands/${id}/undo`, {})
      return [asked.status, ((await asked.json()) as View).command_id]
    }
    assert.deepEqual(await again(), [200, undoId])
    // Another way to ask for the same thing: the key of the contract is that of the thing.
    const direct = await post('/commands', {
      task_name: 'Undo Command',
      payload: { command_id: id },
      idempotency_key: `mine ${id}`,
    })
    assert.equal(await outcomeOf(direct), '409 commands.contract_key.taken')
    await answer(undoId, 'approved')
    assert.equal(await settle(undoId), 'succeeded')
    assert.deepEqual(await again(), [200, undoId])
    assert.deepEqual(calls(), ['hotel.cancel_b', 'hotel.cancel_a'])
  })

  test('[D1] those who approved the command approve its undo, with at least its risk; without an approval an operator does', async () => {
    const asked = async (decide: string, key: string) => {
      const id = await done([A], decide)
      const { command_id } = (await (await post(`/commands/${id}/undo`, {}, key)).json()) as View
      await settle(command_id)
      const gates = await room.rows<{ approver: string; risk_level: string }>(
        `select approver, review_packet->>'risk_level' as risk_level from concord.approvals where command_id = $1`,
        [uuidOf(command_id)],
      )
      return [await room.statusOf(uuidOf(command_id)), ...gates.map((gate) => `${gate.approver} ${gate.risk_level}`)]
    }
    assert.deepEqual(await asked('allow', writer()), ['waiting_for_approval', 'role:operator high'])
    assert.deepEqual(await asked('allow', admin()), ['succeeded'])
    for (const key of [writer(), admin()])
      assert.deepEqual(await asked('require_approval', key), ['waiting_for_approval', 'role:owner high'])
  })

  test('[D1] a rejected undo does nothing, and the undo can be asked for again', async () => {
    const id = await done([A])
    const first = await undo(id, writer())
    await answer(first, 'rejected')
    assert.deepEqual([(await get(`/commands/${first}`)).status, calls()], ['failed', []])
    assert.ok((await get(`/commands/${id}`)).next.some(({ action }) => action === 'undo'))
    const second = await undo(id, writer())
    assert.notEqual(second, first)
    await answer(second, 'approved')
    assert.equal(await settle(second), 'succeeded')
    assert.deepEqual(calls(), ['hotel.cancel_a'])
  })

  test('[D1] strangers may not undo, readers and other workspaces neither', async () => {
    const id = await done([A])
    const stranger = await aPerson(room.clock, { orgId: room.tenant.orgId, slug: room.tenant.slug }, 'writer')
    assert.equal(
      await outcomeOf(await post(`/commands/${id}/undo`, {}, stranger.key)),
      '403 commands.action.not_allowed',
    )
    const reader = await post(`/commands/${id}/undo`, {}, api.ours.people.reader.key)
    assert.equal(await outcomeOf(reader), '403 identity.role.insufficient')
    const foreign = await post(`/commands/${id}/undo`, {}, api.theirs.people.admin.key)
    assert.equal(await outcomeOf(foreign), '404 commands.command.not_found')
    assert.deepEqual(calls(), [])
  })

  test('[D1] an undo cannot be undone, nor what has not ended, nor what has nothing to undo; each refusal has its hint and is on record', async () => {
    const id = await done([A])
    const undoId = await undo(id)
    const waiting = (await (
      await post('/commands', { task_name: 'Tour', payload: { steps: [A], decide: 'require_approval' } })
    ).json()) as View
    await settle(waiting.command_id)
    const final = await done([TICKET, READ])
    for (const [target, code, hint] of [
      [undoId, 'commands.undo.of_undo', /Submit the request of the original command again/],
      [waiting.command_id, 'commands.undo.not_ended', /`next` says what can happen now/],
      [final, 'commands.undo.nothing_left', /GET \/commands\/\{id\}\/undo says of each effect why it stays/],
    ] as const) {
      const refused = await post(`/commands/${target}/undo`, {}, admin())
      const problem = (await refused.json()) as { code: string; hint: string }
      assert.deepEqual([refused.status, problem.code], [409, code])
      assert.match(problem.hint, hint)
      const direct = await post('/commands', { task_name: 'Undo Command', payload: { command_id: target } }, admin())
      const { command_id } = (await direct.json()) as View
      await settle(command_id)
      assert.equal((await get(`/commands/${command_id}`)).status, 'failed')
    }
    const rejected = await room.rows(
      `select 1 from concord.domain_events where event_type = 'command_rejected' and payload->>'code' like 'commands.undo.%'`,
    )
    assert.equal(rejected.length, 3)
  })

  test('[L13] a cancel of what has succeeded is refused with the way to undo it, and recorded', async () => {
    const id = await done([A])
    const refused = await post(`/commands/${id}/cancel`, {})
    const problem = (await refused.json()) as { code: string; hint: string }
    assert.deepEqual([refused.status, problem.code], [409, 'commands.cancel.succeeded'])
    assert.match(problem.hint, /POST \/commands\/\{id\}\/undo/)
    const ignored = await room.rows(
      `select 1 from concord.domain_events where command_id = $1 and event_type = 'cancellation_ignored'`,
      [uuidOf(id)],
    )
    assert.equal(ignored.length, 1)
  })

  test('[D1] what was undone breaks no promise of the room', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
    assert.deepEqual(await historyFaults(room), [])
  })
})
