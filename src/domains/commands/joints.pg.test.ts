/** The joints for other rooms: a process that follows a command, and an effect that waits for a process. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import { errorClasses } from '#kernel/error-classes'
import type { Process, WakeOptions } from '#runtime'
import { decider, historyFaults, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { openApprovalOwner } from './answer-approval.ts'
import { cancelCommand } from './cancel-command.ts'
import { defineCommandType, defineFunction, defineTask, type Definition } from './catalog/definitions.ts'
import { defineEffect, EffectFailure, EffectPending } from './catalog/effect-definition.ts'
import { processOf } from './command-table.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { openDrive } from './drive.ts'
import { findBrokenInvariants } from './invariants/find-broken-invariants.ts'
import { openWriter } from './write-command.ts'
import { byPerson } from '#kernel/actor'

const RUN = 'agent.run_start'

/** Processes of another room: each runs until the test ends it. */
class Runs {
  readonly started: string[] = []
  readonly ends = new Map<string, 'done' | 'failed' | 'away'>()
  definitions(): readonly Definition[] {
    return [
      defineEffect({
        effect_type: RUN,
        class: 'keyed',
        do: ({ effectId }) => {
          if (!this.started.includes(effectId)) this.started.push(effectId)
          return Promise.reject(EffectPending.ofProcess('agent_run', effectId))
        },
        find: ({ effectId }) => {
          const end = this.ends.get(effectId)
          if (end === 'failed') return Promise.reject(new EffectFailure('validation_error', 'the run failed', 'no'))
          if (end === 'away') return Promise.reject(new EffectFailure('timeout', 'nobody answers'))
          return Promise.resolve(end === 'done' ? { found: true, result: { answer: 42 } } : { found: false })
        },
      }),
      defineFunction({ name: 'run_agent', plan: () => [{ effect_type: RUN, payload: {} }] }),
      defineCommandType({
        name: 'run_agent',
        description: 'Has an agent work.',
        payload: z.strictObject({}),
        side_effects: [RUN],
        error_classes: errorClasses,
        cancellable_by: ['requester', 'admin'],
        audit: ['command_created'],
      }),
      defineTask({
        name: 'Run Agent',
        description: 'Has an agent work.',
        command_type: 'run_agent',
        function_name: 'run_agent',
        ingress_types: ['user_request'],
        async_required: true,
        policy_checks: ['permission'],
      }),
    ]
  }
}

describe('joints for other rooms', () => {
  const runs = new Runs()
  const wakes: { readonly process: Process; readonly isJoined: boolean }[] = []
  let wakeFails = false
  let room: TestRoom
  let world: CommandDeps
  before(async () => {
    room = await openTestRoom(
      (deps) => {
        const wake = async (process: Process, { tx }: WakeOptions = {}) => {
          if (wakeFails && process.kind === 'mission') throw new Error('no wake')
          wakes.push({ process, isJoined: tx !== undefined })
        }
        return { ...deps, wake, writes: openWriter({ ...deps, wake }) }
      },
      () => runs.definitions(),
    )
    world = room.world
  })
  after(async () => {
    await world.writes.close()
    await room.close()
  })
  afterEach(() => {
    wakes.length = 0
    wakeFails = false
  })

  const follower = { kind: 'mission', id: 'm1' }
  const told = () => wakes.filter(({ process }) => process.kind === 'mission')
  const by = () => actingFor(room.tenant.people.writer.principal, TRACE)
  const once = [{ process: follower, isJoined: true }]

  test('a follower is woken in the transaction that ends its command, and by no other write', async () => {
    const id = await room.submit(
      { subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] },
      { follower },
    )
    assert.deepEqual(told(), [])
    assert.equal(await room.settle(id), 'succeeded')
    assert.deepEqual(told(), once)
    wakes.length = 0
    await room.settle(await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] }))
    assert.deepEqual(told(), [])
  })

  test('what would end a command and cannot wake its follower is not written', async () => {
    const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] }, { follower })
    wakeFails = true
    await assert.rejects(room.turn(id), /no wake/)
    assert.equal(await room.statusOf(id), 'running')
    wakeFails = false
    assert.equal(await room.settle(id), 'succeeded')
    assert.deepEqual(told(), once)
    assert.equal(
      [...room.provider.applied.values()].every((count) => count === 1),
      true,
    )
  })

  test('it is woken when its command waits for people, when they answer no, and when it is cancelled', async () => {
    const workspaceId = room.tenant.workspace.id
    const gated = await room.submit({ subject: 's', decide: 'require_approval' }, { follower })
    assert.equal(await room.settle(gated), 'waiting_for_approval')
    assert.deepEqual(told(), once)
    wakes.length = 0
    const answer = { workspaceId, approvalId: await pendingOf(room, gated), decision: 'rejected', reason: 'no' }
    const approvals = { ...room.approvals, owner: openApprovalOwner(world) }
    accepted(await decideApproval(approvals, byPerson(decider(room), TRACE), { ...answer }))
    assert.deepEqual([await room.statusOf(gated), told()], ['failed', once])
    wakes.length = 0
    const asks = await room.submit({ steps: [] }, { follower })
    assert.equal(await room.settle(asks), 'waiting_for_input')
    assert.deepEqual(told(), once)
    wakes.length = 0
    accepted(await cancelCommand(world, by(), { workspaceId, commandId: asks }))
    assert.deepEqual(told(), once)
  })

  test('what is done in the request itself, or is malformed, wakes the follower before the answer', async () => {
    const id = await room.submit({ subject: 5 }, { follower })
    assert.equal(await room.statusOf(id), 'failed')
    assert.deepEqual(told(), once)
  })

  test('policy is not asked about the follower', async () => {
    const id = await room.submit({ subject: 's' }, { follower })
    await room.settle(id)
    const [event] = await room.rows<{ context: object }>(
      `select payload->'input'->'context' as context from concord.domain_events where command_id = $1 and event_type = 'policy_evaluated'`,
      [id],
    )
    assert.ok(event && !('follower' in event.context))
  })

  const start = async () => {
    const id = await room.submit({}, { taskName: 'Run Agent' })
    assert.equal(await room.settle(id), 'running')
    return { id, run: runs.started.at(-1) ?? '' }
  }
  const effectOf = async (id: string) =>
    (
      await room.rows<{ status: string; attempt: number; read_back: unknown }>(
        'select status, attempt, read_back from concord.domain_effects where command_id = $1',
        [id],
      )
    )[0]

  test('an effect that waits for a process keeps its command running, and takes the result when the process has ended', async () => {
    const { id, run } = await start()
    assert.deepEqual(await effectOf(id), {
      status: 'executing',
      attempt: 1,
      read_back: { outcome: 'waiting', process: { kind: 'agent_run', id: run } },
    })
    const next = await openDrive(world)(id, { ...nextTurn(), turn: `turn:${processOf(id).kind}:${id}:9` })
    assert.ok(next.t === 'wait' && next.until !== null)
    assert.equal(runs.started.filter((each) => each === run).length, 1)
    runs.ends.set(run, 'done')
    assert.equal(await room.settle(id), 'succeeded')
    const [row] = await room.rows<{ result: unknown }>('select result from concord.commands where command_id = $1', [
      id,
    ])
    assert.deepEqual([row?.result, (await effectOf(id))?.attempt], [{ answer: 42 }, 1])
  })

  test('a process that failed fails the effect; one that cannot be asked is asked again, and no person is', async () => {
    const { id, run } = await start()
    runs.ends.set(run, 'away')
    assert.equal(await room.settle(id), 'running')
    assert.equal((await effectOf(id))?.status, 'executing')
    runs.ends.set(run, 'failed')
    assert.equal(await room.settle(id), 'failed')
    assert.deepEqual(await room.rows('select 1 from concord.approvals where command_id = $1', [id]), [])
  })

  test('a cancel waits for the end of the process, and then takes effect', async () => {
    const { id, run } = await start()
    accepted(await cancelCommand(world, by(), { workspaceId: room.tenant.workspace.id, commandId: id }))
    assert.equal(await room.settle(id), 'cancelling')
    runs.ends.set(run, 'done')
    assert.equal(await room.settle(id), 'cancelled')
    assert.equal((await effectOf(id))?.status, 'succeeded')
    assert.deepEqual([await historyFaults(room), await findBrokenInvariants(room.db)], [[], []])
  })

  function nextTurn() {
    return { token: 'fffffff0-0000-8000-8000-000000000000', attempt: 1, signal: new AbortController().signal }
  }
})
