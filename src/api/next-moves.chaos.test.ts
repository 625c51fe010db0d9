/** Every move that `next` offers does what its text says: all states, both cancellation modes, every situation of effects. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import { type CommandDeps, defineEffect, undoDefinitions } from '#domains/commands'
import { byPerson } from '#kernel/actor'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { decider, openRoomOn, pendingOf, type TestRoom } from '#test/commands'
import type { ProviderMode } from '#test/fake-providers'
import { defineWork } from '#test/projects/define-work'
import { accepted, TRACE } from '#test/tenant'
import type { Api } from './api.ts'
import { commandRoutes } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'

type Move = { readonly action: string; readonly what: string }
type View = { readonly command_id: string; readonly status: string; readonly next: readonly Move[] }
type Effect = {
  readonly domain_effect_id: string
  readonly effect_type: string
  readonly status: string
  readonly compensates_effect_id: string | null
}

const UNDOABLE = 'connector.hotel.book_a'
const FINAL = 'connector.ticket.open'
const LAST = 'connector.hotel.book_b'
const DOUBTFUL = 'trip.doubtful'

/** What the command has done when it arrives at its state. */
const situations: Readonly<Record<string, readonly string[]>> = {
  nothing: [],
  'done, with an undo': [UNDOABLE],
  'done, without an undo': [FINAL],
  'done, with and without an undo': [UNDOABLE, FINAL],
}
const modes = ['graceful', 'compensate_then_stop'] as const
type Mode = (typeof modes)[number]

describe('what `next` says is what happens', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  before(async () => {
    api = await openTestApi()
    const doubtful = () =>
      defineEffect({
        effect_type: DOUBTFUL,
        class: 'opaque',
        do: (made) => room.provider.call('doubtful', made, false),
        undo: {
          name: 'trip.settle',
          class: 'keyed',
          do: async (made) => (made.emit('trip.settle'), room.provider.call('settle', made, true)),
        },
      })
    const trip = defineWork({
      name: 'Trip',
      payload: z.strictObject({
        steps: z.array(z.string()),
        decide: z.string().default('allow'),
        note: z.string().optional(),
      }),
      plan: ({ steps }) => (steps as string[]).map((effect_type) => ({ effect_type, payload: { subject: 's' } })),
      effects: [UNDOABLE, FINAL, LAST, DOUBTFUL],
      task: {
        policy_checks: ['permission', 'scripted'],
        connector_requirements: ['hotel', 'ticket'],
        max_attempts: 9,
      },
    })
    let world: CommandDeps
    room = openRoomOn(
      api.world,
      api.ours,
      (given) => {
        world = given
        return given
      },
      () => [doubtful(), ...trip, ...undoDefinitions(() => world)],
    )
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

  const uuidOf = (id: string) => id.slice(4).replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5')
  async function ask(path: string, body?: object): Promise<View> {
    const asked = { key: api.ours.people.writer.key, headers: { 'x-workspace': 'main' } }
    const answer = await call(app, path, body === undefined ? asked : { ...asked, method: 'POST', body })
    const view = (await answer.json()) as View
    assert.ok(answer.ok, JSON.stringify(view))
    return view
  }
  const requests = new Map<string, object>()
  async function submit(payload: object, cancellation_mode: Mode): Promise<string> {
    const request = { task_name: 'Trip', payload, cancellation_mode }
    const { command_id } = await ask('/commands', request)
    requests.set(command_id, request)
    return command_id
  }
  /** Runs the steps that succeed, then one more as the mode of the provider says. */
  async function arrive(done: readonly string[], mode: Mode, last: string, ...how: ProviderMode[]): Promise<string> {
    const id = await submit({ steps: [...done, last, LAST] }, mode)
    room.provider.modes.push(...done.map(() => 'ok' as const), ...how)
    await room.settle(uuidOf(id))
    assert.deepEqual(room.provider.modes, [])
    return id
  }
  const effectsOf = (id: string) =>
    room.rows<Effect>(
      `select domain_effect_id, effect_type, status, compensates_effect_id from concord.domain_effects
       where (command_id = $1 or compensates_effect_id in (select e.domain_effect_id from concord.domain_effects as e where e.command_id = $1))
         and effect_type not in ('user.request_input', 'approval.request')`,
      [uuidOf(id)],
    )
  async function answer(id: string, decision: string): Promise<void> {
    const approvalId = await pendingOf(room, uuidOf(id))
    const given = { workspaceId: api.ours.workspace.id, approvalId, decision, reason: 'seen', traceId: TRACE }
    accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), given))
  }

  async function decided(decide: string, done: readonly string[], mode: Mode): Promise<string | undefined> {
    if (done.length > 0) return undefined
    const id = await submit({ steps: [LAST], decide }, mode)
    await room.settle(uuidOf(id))
    return id
  }

  /** How a command arrives at each state from which a person can move it, having done `done`. */
  const arrivals: Readonly<
    Record<string, (done: readonly string[], mode: Mode) => Promise<string | undefined> | undefined>
  > = {
    created: (done, mode) => (done.length > 0 ? undefined : submit({ steps: [LAST] }, mode)),
    validated: (done, mode) => decided('delay', done, mode),
    waiting_for_input: (done, mode) => decided('require_more_input', done, mode),
    waiting_for_approval: (done, mode) => decided('require_approval', done, mode),
    async queued(done, mode) {
      const id = await arrive(done, mode, LAST, 'refuse')
      await ask(`/commands/${id}/retry`, {})
      return id
    },
    running: (done, mode) => arrive(done, mode, LAST, 'fail_before'),
    blocked: (done, mode) => arrive(done, mode, DOUBTFUL, 'fail_after'),
    async cancelling(done, mode) {
      const id = await arrive(done, mode, DOUBTFUL, 'fail_after')
      await ask(`/commands/${id}/cancel`, {})
      return id
    },
    async succeeded(done, mode) {
      const id = await submit({ steps: done }, mode)
      await room.settle(uuidOf(id))
      return id
    },
    failed: (done, mode) => arrive(done, mode, LAST, 'refuse'),
    async cancelled(done, mode) {
      const id = await arrive(done, mode, LAST, 'refuse')
      await ask(`/commands/${id}/cancel`, {})
      await room.settle(uuidOf(id))
      return id
    },
    /** Its compensation stopped: the first undo was refused. */
    async failed_undo(done, mode) {
      if (!done.includes(UNDOABLE) || mode === 'graceful') return undefined
      const id = await arrive(done, mode, LAST, 'refuse')
      await ask(`/commands/${id}/cancel`, {})
      room.provider.modes.push('refuse')
      await room.settle(uuidOf(id))
      return id
    },
  }

  /** Performs a move, lets the command go on until it rests, and answers the question about its outcome as `happened`. */
  async function perform(id: string, { action }: Move, happened: boolean): Promise<void> {
    const answered = happened ? 'approved' : 'rejected'
    if (action === 'cancel' || action === 'retry') await ask(`/commands/${id}/${action}`, {})
    else if (action === 'supply_input') await ask(`/commands/${id}/input`, { input: { note: 'n' } })
    else if (action === 'decide_approval') await answer(id, 'approved')
    else if (action === 'submit_again') {
      const again = (await ask('/commands', requests.get(id) ?? {})).command_id
      assert.notEqual(again, id)
      assert.equal(await room.settle(uuidOf(again)), 'succeeded')
    } else if (action === 'undo') {
      const undo = (await ask(`/commands/${id}/undo`, {})).command_id
      await room.settle(uuidOf(undo))
      await answer(undo, 'approved')
      await room.settle(uuidOf(undo))
      await room.settleWoken()
      assert.equal(await room.settle(uuidOf(undo)), 'succeeded')
    } else assert.ok(action === 'reconcile_effect' || action === 'wait', action)
    const status = await room.settle(uuidOf(id))
    const isAsked = action === 'reconcile_effect' || (status === 'cancelling' && action === 'cancel')
    if (!isAsked) return
    await answer(id, answered)
    await room.settle(uuidOf(id))
  }

  /** What the text of a move promises, read from the rows afterwards. */
  async function judge(id: string, { action, what }: Move, before: readonly Effect[], state: string): Promise<void> {
    const { status } = await ask(`/commands/${id}`)
    const effects = await effectsOf(id)
    const own = effects.filter(({ compensates_effect_id }) => compensates_effect_id === null)
    const done = own.filter((effect) => effect.status === 'succeeded')
    const undone = done.filter(({ domain_effect_id }) =>
      effects.some((undo) => undo.compensates_effect_id === domain_effect_id && undo.status === 'succeeded'),
    )
    const types = (some: readonly Effect[]) => some.map(({ effect_type }) => effect_type).toSorted()
    switch (action) {
      case 'cancel': {
        assert.match(what, /^(Stop it|Close it permanently)/)
        assert.equal(status, 'cancelled')
        const said = /(it has changed nothing|are kept|undo its effects)/.exec(what)?.[1]
        if (said === 'it has changed nothing') return assert.deepEqual(types(done), [])
        if (said === 'are kept') return assert.deepEqual(types(undone), [])
        assert.equal(said, 'undo its effects')
        const except = done.filter(({ effect_type }) => what.includes(`${effect_type}, which`))
        return assert.deepEqual(types([...undone, ...except]), types(done))
      }
      case 'retry':
        assert.equal(what, 'Run it again; effects that succeeded are kept.')
        assert.equal(status, 'succeeded')
        for (const kept of before.filter((effect) => effect.status === 'succeeded'))
          assert.deepEqual(
            effects.filter(({ effect_type }) => effect_type === kept.effect_type).map((effect) => effect.status),
            ['succeeded'],
          )
        return assert.deepEqual(types(undone), [])
      case 'supply_input':
      case 'decide_approval':
        return assert.equal(status, 'succeeded')
      case 'undo': {
        assert.match(what, /^Request the undo of its effects/)
        assert.equal(status, state === 'failed' ? 'compensated' : state)
        const except = done.filter(({ effect_type }) => what.includes(`${effect_type}, which`))
        return assert.deepEqual(types([...undone, ...except]), types(done))
      }
      case 'submit_again':
        return assert.equal(what, 'Submit the same request again; it becomes a new command.')
      case 'reconcile_effect':
        return assert.equal(own.filter((effect) => effect.status === 'executing').length, 0)
      default:
        return assert.equal(action, 'wait')
    }
  }

  for (const [state, arriveAt] of Object.entries(arrivals))
    test(`[D1] [CAN-06] [CAN-08] ${state}: every move in every mode and situation does what it says`, async () => {
      let moves = 0
      for (const mode of modes)
        for (const [situation, done] of Object.entries(situations))
          for (const happened of [true, false]) {
            const first = await arriveAt(done, mode)
            if (first === undefined) continue
            const { next, status } = await ask(`/commands/${first}`)
            assert.equal(status, state === 'failed_undo' ? 'failed' : state, situation)
            const listed = (await ask('/commands')) as unknown as { items: View[] }
            assert.deepEqual(listed.items.find(({ command_id }) => command_id === first)?.next, next)
            for (const offered of next) {
              const id = (await arriveAt(done, mode)) ?? first
              const before = await effectsOf(id)
              await perform(id, offered, happened)
              await judge(id, offered, before, state).catch((error: unknown) => {
                throw new Error(`${mode}, ${situation}, ${happened}: ${offered.action}: ${offered.what}`, {
                  cause: error,
                })
              })
              moves += 1
            }
          }
      assert.ok(moves >= 4, String(moves))
    })

  test('[D1] a command that was undone in part cannot be run again: the undone effect would count as done', async () => {
    const id = await arrive([UNDOABLE, LAST], 'compensate_then_stop', FINAL, 'refuse')
    await ask(`/commands/${id}/cancel`, {})
    room.provider.modes.push('ok', 'refuse')
    assert.equal(await room.settle(uuidOf(id)), 'failed')
    const { next } = await ask(`/commands/${id}`)
    assert.deepEqual(
      next.map(({ action }) => action),
      ['cancel'],
    )
    const refused = await call(app, `/commands/${id}/retry`, {
      method: 'POST',
      key: api.ours.people.writer.key,
      headers: { 'x-workspace': 'main' },
      body: {},
    })
    assert.equal(await outcomeOf(refused), '409 commands.retry.undone')
    await ask(`/commands/${id}/cancel`, {})
    assert.equal(await room.settle(uuidOf(id)), 'cancelled')
  })
})
