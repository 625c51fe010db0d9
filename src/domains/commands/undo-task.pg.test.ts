/** Undoing as a governed command: proposed by an agent, decided by policy and an operator, walked and watched like any other undo. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import type { Principal } from '#domains/identity'
import { encodeId } from '#kernel/ids'
import { propose } from '#test/agents'
import { decider, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { accepted, aPerson, TRACE } from '#test/tenant'
import { type EffectCall, EffectPending } from './catalog/effect-definition.ts'
import { undoDefinitions } from './undo-task.ts'
import type { CommandDeps } from './deps.ts'
import { findBrokenInvariants } from './invariants/find-broken-invariants.ts'
import { byPerson } from '#kernel/actor'

const [BOOK_A, BOOK_B, DRIFT] = ['connector.hotel.book_a', 'connector.hotel.book_b', 'work.drifting']

describe('compensation that an agent proposes', () => {
  let room: TestRoom
  let writer: Principal
  let workspaceId: string
  let world: CommandDeps
  before(async () => {
    room = await openTestRoom(
      (given) => {
        world = given
        return given
      },
      () => undoDefinitions(() => world),
    )
    writer = room.tenant.people.writer.principal
    workspaceId = room.tenant.workspace.id
  })
  after(() => room.close())

  /** Two bookings succeed, then a step fails for good. */
  async function aFailed(...steps: string[]): Promise<string> {
    const id = await room.submit({ subject: `s${steps.length}`, steps: [...steps, 'connector.ticket.open'] })
    room.provider.modes.push(...steps.map(() => 'ok' as const), 'refuse')
    assert.equal(await room.settle(id), 'failed')
    room.woken.length = 0
    return id
  }
  const undo = async (target: string, by = writer, more: object = {}) =>
    accepted(
      await propose(room, by, {
        toolName: 'undo_command',
        payload: { command_id: encodeId('command', target), ...more },
      }),
    )
  const approve = async (commandId: string, decision = 'approved') => {
    const approvalId = await pendingOf(room, commandId)
    const answer = { workspaceId, approvalId, decision, reason: 'so', traceId: TRACE }
    accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), answer))
    await room.settle(commandId)
    await room.settleWoken()
  }
  const undone = () =>
    room.provider.calls.filter((call) => call.startsWith('hotel.cancel')).map((call) => call.split(' ')[0])
  const eventsOf = async (id: string) =>
    (
      await room.rows<{ event_type: string }>(
        'select event_type from concord.domain_events where command_id = $1 order by seq',
        [id],
      )
    ).map(({ event_type }) => event_type)

  test('[EFF-30] it is a command that policy puts to an operator; with the consent the deeds are undone in reverse, without it none is', async () => {
    const target = await aFailed(BOOK_A, BOOK_B)
    const asked = await undo(target)
    assert.deepEqual([asked.decision, asked.command.ingress, undone()], ['require_approval', 'agent_action', []])
    const [gate] = await room.rows(`select approver from concord.approvals where command_id = $1`, [
      asked.command.command_id,
    ])
    assert.deepEqual(gate, { approver: 'role:operator' })
    await approve(asked.command.command_id, 'rejected')
    assert.deepEqual([await room.statusOf(target), undone()], ['failed', []])

    const again = await undo(target)
    await approve(again.command.command_id)
    assert.deepEqual(undone(), ['hotel.cancel_b', 'hotel.cancel_a'])
    assert.equal(await room.statusOf(target), 'compensated')
    assert.equal(await room.settle(again.command.command_id), 'succeeded')
    const [row] = await room.rows<{ result: object }>('select result from concord.commands where command_id = $1', [
      again.command.command_id,
    ])
    assert.deepEqual(row?.result, { undone: 1 })
    for (const type of ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'])
      assert.ok((await eventsOf(again.command.command_id)).includes(type), type)
    assert.equal(
      (await undo(target)).command.command_id,
      again.command.command_id,
      'undoing twice gives the first answer',
    )
  })

  test('[EFF-30] an undo that does other things than it declares leaves its drift on the record of the command that is undone', async () => {
    const target = await aFailed(DRIFT)
    const { command } = await undo(target)
    await approve(command.command_id)
    assert.equal(await room.statusOf(target), 'compensated')
    assert.ok((await eventsOf(target)).includes('compensation_drift'))
  })

  test('[EFF-30] an undo that the catalog does not know any more ends the command before the first deed is undone', async () => {
    const target = await aFailed(BOOK_A, BOOK_B)
    const before = undone().length
    const { command } = await undo(target)
    const whole = room.catalog.undos
    const without = new Map([...whole].filter(([name]) => name !== 'hotel.cancel_a'))
    Object.assign(room.catalog, { undos: without })
    try {
      await approve(command.command_id)
    } finally {
      Object.assign(room.catalog, { undos: whole })
    }
    const [row] = await room.rows<{ status: string; error: string }>(
      'select status, error from concord.commands where command_id = $1',
      [command.command_id],
    )
    assert.equal(row?.status, 'failed')
    assert.match(row?.error ?? '', /no handler for "hotel.cancel_a"/)
    assert.deepEqual([await room.statusOf(target), undone().length], ['failed', before])
  })

  test('a walk that halts fails the command that asked for it, and says why', async () => {
    const target = await aFailed(BOOK_A)
    const { command } = await undo(target)
    room.provider.failing.add('hotel.cancel_a')
    try {
      await approve(command.command_id)
      for (let rounds = 0; rounds < 20 && (await room.statusOf(target)) === 'compensating'; rounds++) {
        room.clock.travel(3_600_000)
        await room.settle(target)
      }
    } finally {
      room.provider.failing.clear()
    }
    assert.equal(await room.statusOf(target), 'failed')
    assert.equal(await room.settle(command.command_id), 'failed')
    assert.ok((await eventsOf(target)).includes('compensation_drift'))
  })

  test('asked a second time, after a crash in the middle, it begins no second walk and waits for the first', async () => {
    const target = await aFailed(BOOK_A)
    const { definition } = room.catalog.effects.get('command.compensate') ?? assert.fail('no effect')
    const call = {
      workspaceId,
      commandId: room.clock.newId(),
      traceId: TRACE,
      payload: { command_id: encodeId('command', target) },
    }
    // The parts of a call that this effect reads.
    const run = () => definition.do(call as unknown as EffectCall)
    const isWait = (error: unknown) =>
      error instanceof EffectPending &&
      'commandId' in error.awaits &&
      error.awaits.commandId === target &&
      error.awaits.wanted === 'compensated'
    await assert.rejects(run, isWait)
    await assert.rejects(run, isWait)
    assert.equal(await room.settle(target), 'compensated')
    assert.deepEqual(await run(), { command_id: encodeId('command', target), status: 'compensated' })
    const begun = (await eventsOf(target)).filter((type) => type === 'compensation_started')
    assert.equal(begun.length, 1)
  })

  test('[EFF-30] the agent names a command and nothing else: no deed of its own, no command of others, none that has not ended', async () => {
    const target = await aFailed(BOOK_A)
    const before = undone().length
    const said = async (asked: ReturnType<typeof undo>) => {
      const { decision, reasons } = await asked
      return `${decision}: ${reasons.join(' ')}`
    }
    assert.match(await said(undo(target, writer, { compensation: 'work.drop_all' })), /^deny: .*compensation/)
    const stranger = await aPerson(room.clock, { orgId: room.tenant.orgId, slug: room.tenant.slug }, 'writer')
    assert.match(await said(undo(target, stranger.principal)), /^deny: Only the requester/)
    assert.match(await said(undo(room.clock.newId())), /^deny: There is no such command/)
    const running = await room.submit({ subject: 's' })
    await room.settle(running)
    assert.match(await said(undo(running)), /^deny: None of its effects can be undone/)
    const waiting = await room.submit({ subject: 's', decide: 'require_approval' })
    await room.settle(waiting)
    assert.match(
      await said(undo(waiting)),
      /^deny: Only a command that has succeeded, failed or was cancelled can be undone/,
    )
    assert.equal(undone().length, before)
    // An administrator's agent has to ask as well; the administrator in person does not.
    const { principal: admin } = room.tenant.people.admin
    assert.match(await said(undo(target, admin)), /^require_approval/)
    const id = await room.submit({ command_id: encodeId('command', target) }, { taskName: 'Undo Command' })
    assert.equal(await room.settle(id), 'waiting_for_approval', 'nor does a writer decide in person')
  })

  test('what was undone breaks no promise of the room', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
  })
})
