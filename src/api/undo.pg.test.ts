/** The undo of a command, over HTTP: what it undoes and what not, who may, once, last effect first, and what both commands tell about it. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import { type CommandDeps, defineEffect, findBrokenInvariants, undoDefinitions } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { decider, historyFaults, openRoomOn, pendingOf, type TestRoom } from '#test/commands'
import { defineWork } from '#test/projects/define-work'
import { accepted, aPerson, TRACE } from '#test/tenant'
import type { Api } from './api.ts'
import { commandRoutes } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'

const [A, B, C] = ['connector.hotel.book_a', 'connector.hotel.book_b', 'connector.hotel.book_c']
const TICKET = 'connector.ticket.open'
const [LIMITED, OPAQUE, READ] = ['tour.limited', 'tour.opaque', 'work.echo']

type View = {
  readonly command_id: string
  readonly status: string
  readonly error: string | null
  readonly undo: { readonly command_id: string; readonly status: string } | null
  readonly next: readonly { readonly action: string; readonly what: string }[]
}
type Line = { readonly effect_type: string; readonly why?: string; readonly undo?: string }
type Preview = {
  readonly refused: { readonly code: string } | null
  readonly undone: readonly Line[]
  readonly kept: readonly Line[]
  readonly request: {
    readonly policy: { readonly decision: string; readonly reasons: readonly string[] }
    readonly approvals: readonly { readonly approver: string }[]
    readonly effects: readonly { readonly effect_type: string; readonly effect_class: string }[]
  } | null
}

describe('the undo of a command', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  before(async () => {
    api = await openTestApi()
    const undo = (name: string, more: object) => ({
      name,
      do: async (made: Parameters<TestRoom['provider']['call']>[1] & { emit: (name: string) => void }) => {
        made.emit(name)
        return room.provider.call(name, made, true)
      },
      ...more,
    })
    const definitions = () => [
      defineEffect({
        effect_type: LIMITED,
        class: 'keyed',
        do: (made) => room.provider.call('limited', made, true),
        undo: undo('tour.unlimited', { within_ms: 60_000 }),
      }),
      defineEffect({
        effect_type: OPAQUE,
        class: 'opaque',
        do: (made) => room.provider.call('opaque', made, false),
        undo: undo('tour.unopaque', { class: 'opaque' }),
      }),
      ...defineWork({
        name: 'Tour',
        payload: z.strictObject({ steps: z.array(z.string()), decide: z.string().default('allow') }),
        plan: ({ steps }) => (steps as string[]).map((effect_type) => ({ effect_type, payload: { subject: 's' } })),
        effects: [A, B, C, TICKET, LIMITED, OPAQUE, READ],
        type: { risk_level: 'high' },
        task: { policy_checks: ['permission', 'scripted'], connector_requirements: ['hotel', 'ticket'] },
      }),
      ...undoDefinitions(() => world),
    ]
    let world: CommandDeps
    const keep = (given: CommandDeps) => {
      world = given
      return given
    }
    room = openRoomOn(api.world, api.ours, keep, definitions)
    app = api.with({
      extraRoutes: (router) => {
        const deps = { ...api.deps, commands: room.world }
        router.route('/', commandRoutes.mount(deps, openPageCursors(api.deps.cursorKey)))
      },
    })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const [writer, admin] = [() => api.ours.people.writer.key, () => api.ours.people.admin.key]
  const uuidOf = (id: string) => id.slice(4).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
  const get = <T = View>(path: string, key = writer()) =>
    call(app, path, { key, headers: { 'x-workspace': 'main' } }).then((answer) => answer.json() as Promise<T>)
  const post = (path: string, body: object, key = writer()) =>
    call(app, path, { method: 'POST', key, body, headers: { 'x-workspace': 'main' } })
  const settle = (id: string) => room.settle(uuidOf(id))
  const calls = () => room.provider.calls.map((made) => made.split(' ')[0] ?? '')

  /** A command that has carried out its steps. */
  async function done(steps: readonly string[], decide = 'allow', key = writer()): Promise<string> {
    const { command_id } = (await (
      await post('/commands', { task_name: 'Tour', payload: { steps, decide } }, key)
    ).json()) as View
    await settle(command_id)
    if (decide === 'require_approval') {
      await answer(command_id, 'approved')
      await settle(command_id)
    }
    assert.equal((await get(`/commands/${command_id}`)).status, 'succeeded')
    room.provider.calls.length = 0
    return command_id
  }
  async function answer(id: string, decision: string): Promise<void> {
    const approvalId = await pendingOf(room, uuidOf(id))
    const given = { workspaceId: api.ours.workspace.id, approvalId, decision, reason: 'so', traceId: TRACE }
    accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), given))
  }
  async function undo(id: string, key = admin()): Promise<string> {
    const asked = await post(`/commands/${id}/undo`, { reason: 'wrong month' }, key)
    const view = (await asked.json()) as View
    assert.equal(asked.status, 202, JSON.stringify(view))
    await settle(view.command_id)
    return view.command_id
  }
  const textsOf = async (id: string) =>
    (await get<{ summary: string; chain: { text: string }[] }>(`/commands/${id}/explanation`)).chain.map(
      ({ text }) => text,
    )

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
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [...Array<number>(7).fill(200), 202])
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

  test('[D1] [EFF-24] an undo that stops tells operators how far it got; retried, it undoes the rest and nothing twice', async () => {
    const id = await done([A, B, C])
    room.provider.modes.push('ok', 'refuse')
    const undoId = await undo(id)
    const view = await get(`/commands/${undoId}`)
    assert.deepEqual([view.status, view.error], ['failed', 'the provider says no'])
    const [drift] = await room.rows<{ payload: { completed: string[]; remaining: string[] } }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'compensation_drift'`,
      [uuidOf(undoId)],
    )
    assert.deepEqual([drift?.payload.completed.length, drift?.payload.remaining.length], [1, 1])
    assert.deepEqual((await get(`/commands/${id}`)).undo, { command_id: undoId, status: 'failed' })
    const left = await get<Preview>(`/commands/${id}/undo`)
    assert.deepEqual(
      left.undone.map(({ effect_type }) => effect_type),
      [B, A],
    )
    assert.equal((await post(`/commands/${undoId}/retry`, {}, admin())).status, 200)
    assert.equal(await settle(undoId), 'succeeded')
    assert.deepEqual(calls(), ['hotel.cancel_c', 'hotel.cancel_b', 'hotel.cancel_b', 'hotel.cancel_a'])
  })

  test('[D1] after an undo that stopped a new one goes on; the first, retried later, finds nothing left', async () => {
    const id = await done([A, B])
    room.provider.modes.push('ok', 'refuse')
    const first = await undo(id)
    const second = await undo(id)
    assert.notEqual(second, first)
    assert.deepEqual(calls(), ['hotel.cancel_b', 'hotel.cancel_a', 'hotel.cancel_a'])
    const late = await post(`/commands/${first}/retry`, {}, admin())
    assert.equal(await outcomeOf(late), '409 commands.contract_key.taken')
    assert.equal(await settle(first), 'failed')
    assert.equal(calls().length, 3)
  })

  test('[D1] a cancelled undo finishes the step under way and undoes no more; another undo does the rest', async () => {
    const id = await done([A, B])
    room.provider.modes.push('fail_before')
    const first = await undo(id)
    assert.equal((await get(`/commands/${first}`)).status, 'running')
    assert.equal((await post(`/commands/${first}/cancel`, {}, admin())).status, 200)
    assert.equal(await settle(first), 'cancelled')
    const second = await undo(id)
    assert.equal((await get(`/commands/${second}`)).status, 'succeeded')
    assert.deepEqual(calls(), ['hotel.cancel_b', 'hotel.cancel_b', 'hotel.cancel_a'])
  })

  test('[D1] [EFF-25] an undo in doubt asks a person before it goes on, and a cancel waits for the answer', async () => {
    const id = await done([A, OPAQUE])
    room.provider.modes.push('fail_after')
    const undoId = await undo(id, writer())
    await answer(undoId, 'approved')
    await settle(undoId)
    const asked = await get(`/commands/${undoId}`)
    assert.equal(asked.status, 'blocked')
    assert.ok(asked.next.some(({ action }) => action === 'reconcile_effect'))
    const doubt = await get<Preview>(`/commands/${id}/undo`)
    assert.deepEqual(
      doubt.kept.map(({ effect_type, why }) => [effect_type, why]),
      [
        [OPAQUE, 'in_doubt'],
        [A, 'in_doubt'],
      ],
    )
    await answer(undoId, 'approved')
    assert.equal(await settle(undoId), 'succeeded')
    assert.deepEqual(calls(), ['tour.unopaque', 'hotel.cancel_a'])

    const other = await done([A, OPAQUE])
    room.provider.modes.push('fail_after')
    const stopped = await undo(other, writer())
    await answer(stopped, 'approved')
    await settle(stopped)
    await post(`/commands/${stopped}/cancel`, {}, admin())
    assert.equal(await settle(stopped), 'cancelling')
    await answer(stopped, 'rejected')
    assert.equal(await settle(stopped), 'cancelled')
    assert.deepEqual(calls(), ['tour.unopaque'])
  })

  test('[D1] [D5] an undone command frees the key of its contract: the same request becomes a new command; one undone in part does not', async () => {
    const request = (subject: string, steps: readonly string[]) => ({
      task_name: 'Booking',
      payload: { subject, steps },
    })
    const book = async (subject: string, steps: readonly string[]) => {
      const asked = await post('/commands', request(subject, steps))
      const { command_id } = (await asked.json()) as View
      await settle(command_id)
      return { status: asked.status, command_id }
    }
    const whole = await book('undone', [A, B])
    await undo(whole.command_id)
    const again = await book('undone', [A, B])
    assert.equal(again.status, 202)
    assert.notEqual(again.command_id, whole.command_id)
    assert.deepEqual(calls().slice(-2), ['book_a', 'book_b'])
    const part = await book('partly', [A, TICKET])
    await undo(part.command_id)
    assert.deepEqual(await book('partly', [A, TICKET]), { status: 200, command_id: part.command_id })
  })

  test('[D1] an undo that waited runs what was approved or nothing', async () => {
    const id = await done([A, LIMITED])
    const undoId = await undo(id, writer())
    room.clock.travel(61_000)
    await answer(undoId, 'approved')
    await settle(undoId)
    assert.deepEqual(calls(), [])
    const { status, error } = await get(`/commands/${undoId}`)
    assert.deepEqual([status, error], ['failed', 'The approved content is not what would run now.'])
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
