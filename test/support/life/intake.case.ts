/** From a request to its plan: validation, policy, input, approval. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { decideApproval, expireApprovals } from '#domains/approvals'
import { decider, pendingOf } from '#test/commands'
import { TRACE, accepted } from '#test/tenant'
import { lockCommand } from '../../../src/domains/commands/command-table.ts'
import { explainCommand } from '../../../src/domains/commands/explain-command.ts'
import { listCommandEvents } from '../../../src/domains/commands/read-commands.ts'
import { reconcileCommands } from '../../../src/domains/commands/drive.ts'
import { retryCommand, supplyInput } from '../../../src/domains/commands/change-command.ts'
import {
  BOOK_A,
  BOOK_B,
  room,
  user,
  operator,
  workspaceId,
  pathOf,
  typesOf,
  rowOf,
  effectsOf,
  decide,
  cancel,
} from './bench.case.ts'
import { byPerson } from '#kernel/actor'

export function intakeStories(): void {
  /** The transaction that wrote each event, as rows carry it in `xmin`. */
  const xids = (id: string) =>
    room.rows<{ what: string; xmin: string }>(
      `select coalesce(payload->>'effect_type', payload->>'target_type') || ' ' || coalesce(payload->>'to', event_type) as what,
              (xid::text::numeric % 4294967296)::text as xmin
         from concord.domain_events where command_id = $1 order by seq`,
      [id],
    )
  const xidOf = async (id: string, what: string) => {
    const found = (await xids(id)).filter((each) => each.what === what)
    assert.equal(found.length, 1, what)
    return found[0]?.xmin
  }

  test('the built part of row PER-04: status queued with its effect rows, and the last outcome with the end, are one transaction each', async () => {
    const parent = await room.submit({ subject: 'p', decide: 'require_approval' })
    const id = await room.submit({ subject: 's', steps: [BOOK_A, BOOK_B] }, { dependsOn: [{ commandId: parent }] })
    assert.equal(await room.settle(id), 'queued')
    const rows = () =>
      room.rows<{ what: string; xmin: string }>(
        `select effect_type || ' ' || status as what, xmin::text from concord.domain_effects where command_id = $1
         union all select 'command ' || status, xmin::text from concord.commands where command_id = $1 order by 1`,
        [id],
      )
    const queued = await xidOf(id, 'command queued')
    assert.deepEqual(
      (await rows()).filter(({ what }) => !what.startsWith('command')),
      [
        { what: `${BOOK_A} planned`, xmin: queued },
        { what: `${BOOK_B} planned`, xmin: queued },
      ],
    )
    for (const told of [`${BOOK_A} effect_planned`, `${BOOK_B} effect_planned`])
      assert.equal(await xidOf(id, told), queued)
    await room.settle(parent)
    await decide(parent, 'approved')
    await room.settle(parent)
    assert.equal(await room.settle(id), 'succeeded')
    const ended = await xidOf(id, 'command succeeded')
    assert.equal(await xidOf(id, `${BOOK_B} succeeded`), ended)
    const [command, , second] = (await rows()).toSorted((a, b) => (a.what < b.what ? -1 : 1))
    assert.deepEqual(
      [second, command],
      [
        { what: `${BOOK_B} succeeded`, xmin: ended },
        { what: 'command succeeded', xmin: ended },
      ],
    )
    assert.notEqual(ended, queued)
  })

  test('[ST-18] [CMD-16] [PLN-14] [EVT-11] two effects, one after the other, each planned before the first one runs', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A, BOOK_B] })
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(await pathOf(id), 'created validated queued running succeeded')
    assert.deepEqual(
      (await effectsOf(id)).map(({ effect_type, status, attempt }) => [effect_type, status, attempt]),
      [
        [BOOK_A, 'succeeded', 1],
        [BOOK_B, 'succeeded', 1],
      ],
    )
    assert.deepEqual((await typesOf(id)).slice(0, 8), [
      'command_created',
      'status_changed',
      'policy_evaluated',
      'plan_created',
      'effect_planned',
      'effect_planned',
      'status_changed',
      'status_changed',
    ])
  })

  test('[PLN-05] effects run in the order of their dependencies, not in that of the list, and the plan says both', async () => {
    const calls = room.provider.calls.length
    const id = await room.submit({ subject: 's' }, { taskName: 'Woven' })
    assert.equal(await room.settle(id), 'succeeded')
    assert.deepEqual(
      room.provider.calls.slice(calls).map((call) => call.split(' ')[0]),
      ['book_b', 'book_c', 'book_a'],
    )
    const { plan } = (await rowOf(id)) as {
      plan: { primitives: string[]; steps: { step_id: string; depends_on: string[] }[] }
    }
    assert.deepEqual(
      plan.steps.map(({ step_id, depends_on }) => [step_id, depends_on]),
      [
        ['step_1', ['step_3']],
        ['step_2', []],
        ['step_3', ['step_2']],
      ],
    )
    assert.deepEqual(plan.primitives, [
      'ingress',
      'command',
      'context',
      'policy',
      'plan',
      'queue',
      'async_task',
      'connector_call',
      'state_transition',
      'audit',
    ])
  })

  test('[PLN-06] inline, the same records in the request itself: created validated running succeeded', async () => {
    const id = await room.submit({ subject: 'hello' }, { taskName: 'Echo' })
    assert.equal(await pathOf(id), 'created validated running succeeded')
    assert.deepEqual((await rowOf(id))['result'], { echo: 'hello' })
    assert.deepEqual(await typesOf(id), [
      'command_created',
      'status_changed',
      'policy_evaluated',
      'plan_created',
      'status_changed',
      'effect_planned',
      'status_changed',
      'effect_executed',
      'status_changed',
    ])
    assert.equal((await room.turn(id)).t, 'done')
  })

  test('[CMD-12] a payload of the wrong shape fails as malformed_payload; an absent field waits for input', async () => {
    const malformed = await room.submit({ subject: 7 })
    assert.equal(await room.settle(malformed), 'failed')
    assert.equal((await rowOf(malformed))['error_class'], 'malformed_payload')
    assert.equal(await pathOf(malformed), 'created failed')
    const absent = await room.submit({ steps: [] })
    assert.equal(await room.settle(absent), 'waiting_for_input')
  })

  test('[CMD-19] missing, supplied, succeeds; the request is an effect with its key', async () => {
    const id = await room.submit({ steps: [BOOK_A] })
    assert.equal(await room.settle(id), 'waiting_for_input')
    const [asked] = await effectsOf(id)
    assert.deepEqual([asked?.effect_type, asked?.idempotency_key], ['user.request_input', `input:${id}`])
    const wrong = await supplyInput(room.world, user, { workspaceId, commandId: id, input: { subject: 9 } })
    assert.equal(wrong.ok ? '' : wrong.code, 'commands.payload.malformed')
    const gone = { ...room.world, catalog: { ...room.catalog, tasks: new Map(), taskOfType: new Map() } }
    const unknown = await supplyInput(gone, user, { workspaceId, commandId: id, input: { subject: 'now' } })
    assert.ok(!unknown.ok && unknown.code === 'task_unknown' && unknown.reason.includes('not in the catalog'))
    accepted(await supplyInput(room.world, user, { workspaceId, commandId: id, input: { subject: 'now' } }))
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(await pathOf(id), 'created validated waiting_for_input validated queued running succeeded')
    const late = await supplyInput(room.world, user, { workspaceId, commandId: id, input: { subject: 'x' } })
    assert.equal(late.ok ? '' : late.code, 'commands.command.not_waiting')
  })

  test('[POL-03] waiting for input ends in expired, by the clock', async () => {
    const id = await room.submit({})
    assert.equal(await room.settle(id), 'waiting_for_input')
    assert.equal(await room.settle(id), 'waiting_for_input')
    room.clock.travel(8 * 24 * 3_600_000)
    assert.equal(await room.settle(id), 'expired')
  })

  test('[POL-03] [POL-09] [CMD-18] deny fails as policy_denied, with the rule, the version and the exact question on record', async () => {
    const id = await room.submit({ subject: 's', decide: 'deny' })
    assert.equal(await room.settle(id), 'failed')
    const [event] = await room.rows<{ payload: Record<string, unknown> }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'policy_evaluated'`,
      [id],
    )
    assert.equal(event?.payload['decision'], 'deny')
    assert.deepEqual(event?.payload['trace'], [
      { rule: 'permission', category: 'permission', answer: 'allow' },
      { rule: 'scripted', category: 'environment', answer: 'deny' },
    ])
    assert.equal(event?.payload['policy_version'], 'permission@1 scripted@1')
    const asked = event?.payload['input'] as { command: { payload: { decide: string } } } | undefined
    assert.equal(asked?.command.payload.decide, 'deny')
    assert.equal((await rowOf(id))['error_class'], 'policy_denied')
    const again = await retryCommand(room.world, operator, { workspaceId, commandId: id })
    assert.equal(again.ok ? '' : again.code, 'commands.retry.rejected')
  })

  test('[ST-09] a refusal that is cancelled afterwards is still told: the error stays, and so does the chain', async () => {
    const id = await room.submit({ subject: 's', decide: 'deny' })
    assert.equal(await room.settle(id), 'failed')
    const { error } = await rowOf(id)
    await cancel(id)
    assert.equal(await room.settle(id), 'cancelled')
    const row = await rowOf(id)
    assert.ok(typeof error === 'string' && error.length > 0)
    assert.deepEqual([row['error'], row['error_class']], [error, 'policy_denied'])
    const found = await room.world.db.transaction((tx) => lockCommand(tx, workspaceId, id))
    assert.ok(found)
    const events = await listCommandEvents(room.world.db, workspaceId, id, { afterSeq: null, limit: 100 })
    const { summary, chain } = explainCommand(found, events)
    assert.match(summary, /is cancelled, after it had failed: /)
    assert.ok(summary.includes(error))
    assert.ok(chain.some(({ text }) => text.startsWith('It has failed') && text.includes(error)))
    assert.ok(chain.some(({ kind }) => kind === 'cancellation'))
  })

  test('[POL-03] [CMD-18] a delay sleeps on the row, comes due, is evaluated again, and goes on when the rule lets it', async () => {
    // The commands of the earlier stories are more than an hour old.
    room.clock.travel(2 * 3_600_000)
    const first = await room.submit({ subject: 'first' }, { taskName: 'Metered' })
    assert.equal(await room.settle(first), 'succeeded')
    const second = await room.submit({ subject: 'second', steps: [BOOK_A] }, { taskName: 'Metered' })
    const decisions = async () =>
      (
        await room.rows<{ decision: string }>(
          `select payload->>'decision' as decision from concord.domain_events where command_id = $1 and event_type = 'policy_evaluated' order by seq`,
          [second],
        )
      ).map(({ decision }) => decision)
    const due = async () => (await rowOf(second))['run_after'] as Date | null
    const minute = 60_000
    const start = room.clock.now().getTime()
    assert.deepEqual(await room.turn(second), { t: 'wait', until: new Date(start + minute) })
    assert.deepEqual([await room.statusOf(second), await decisions()], ['validated', ['delay']])
    assert.deepEqual(await due(), new Date(start + minute))
    const wakes = async () => (
      (room.woken.length = 0), await reconcileCommands(room.world, 0), room.woken.includes(second)
    )
    // The runtime may have lost the wake. Nothing wakes the command before its time; at its time the row does.
    room.clock.travel(minute - 1)
    assert.equal(await wakes(), false)
    room.clock.travel(1)
    assert.equal(await wakes(), true)
    assert.deepEqual(await room.turn(second), { t: 'wait', until: new Date(start + 2 * minute) })
    assert.deepEqual([await room.statusOf(second), await decisions()], ['validated', ['delay', 'delay']])
    room.clock.travel(60 * minute)
    assert.equal(await wakes(), true)
    assert.equal(await room.settle(second), 'succeeded')
    assert.deepEqual(await decisions(), ['delay', 'delay', 'allow'])
    assert.equal(await pathOf(second), 'created validated queued running succeeded')
  })

  test('[POL-03] [CMD-18] require_more_input and route; a delayed command can be cancelled', async () => {
    const asks = await room.submit({ subject: 's', decide: 'require_more_input' })
    assert.equal(await room.settle(asks), 'waiting_for_input')
    accepted(await supplyInput(room.world, user, { workspaceId, commandId: asks, input: { note: 'n' } }))
    assert.equal(await room.settle(asks), 'succeeded')
    const routed = await room.submit({ subject: 's', decide: 'route' })
    assert.equal(await room.settle(routed), 'succeeded')
    assert.equal(((await rowOf(routed))['plan'] as { queue: string }).queue, 'notifications')
    const delayed = await room.submit({ subject: 's', decide: 'delay' })
    assert.equal(await room.settle(delayed), 'validated')
    assert.equal((await room.turn(delayed)).t, 'wait')
    assert.ok((await cancel(delayed)).changed)
    assert.equal(await pathOf(delayed), 'created validated cancelled')
  })

  test('[ST-19] [APR-05] [APR-08] approval: asked once, approved, carried out', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval', steps: [BOOK_A] })
    assert.equal(await room.settle(id), 'waiting_for_approval')
    assert.equal(await room.settle(id), 'waiting_for_approval')
    const asked = await room.rows(`select approval_id from concord.approvals where command_id = $1`, [id])
    assert.equal(asked.length, 1)
    const [effect] = await effectsOf(id)
    assert.deepEqual([effect?.effect_type, effect?.idempotency_key], ['approval.request', `approval:${id}`])
    room.woken.length = 0
    await decide(id, 'approved')
    assert.deepEqual(room.woken, [id])
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal(await pathOf(id), 'created validated waiting_for_approval approved queued running succeeded')
  })

  test('[ST-05] what was approved is not what would run: people are asked again', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval', steps: [BOOK_A] })
    await room.settle(id)
    await decide(id, 'approved')
    for (const table of ['commands', 'approvals'])
      await room.rows(`update concord.${table} set payload_hash = 'of another plan' where command_id = $1`, [id])
    assert.equal(await room.settle(id), 'waiting_for_approval')
    await decide(id, 'approved')
    assert.equal(await room.settle(id), 'succeeded')
    assert.match(await pathOf(id), /approved waiting_for_approval approved queued running succeeded$/)
  })

  test('[APR-09] [POL-03] [CMD-18] rejected ends in failed, never retried; escalate asks somebody higher', async () => {
    const id = await room.submit({ subject: 's', decide: 'escalate' })
    assert.equal(await room.settle(id), 'waiting_for_approval')
    const [asked] = await room.rows<{ approver: string; approval_type: string }>(
      `select approver, approval_type from concord.approvals where command_id = $1`,
      [id],
    )
    assert.deepEqual(asked, { approver: 'role:chief', approval_type: 'escalation' })
    await decide(id, 'rejected')
    assert.equal((await rowOf(id))['error_class'], 'approval_rejected')
    assert.equal(await room.statusOf(id), 'failed')
  })

  test('[APR-10] [CMD-18] request_changes leads to input and to a fresh question', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval' })
    await room.settle(id)
    await decide(id, 'request_changes')
    assert.equal(await room.statusOf(id), 'waiting_for_input')
    accepted(await supplyInput(room.world, user, { workspaceId, commandId: id, input: { note: 'better' } }))
    assert.equal(await room.settle(id), 'waiting_for_approval')
    await decide(id, 'approved')
    assert.equal(await room.settle(id), 'succeeded')
    assert.match(await pathOf(id), /waiting_for_approval waiting_for_input validated waiting_for_approval approved/)
  })

  test('[APR-15] approving with edits: the edited payload is validated, judged and bound anew, and is what runs', async () => {
    const id = await room.submit({ subject: 'before', decide: 'require_approval', steps: [BOOK_A] })
    await room.settle(id)
    const approvalId = await pendingOf(room, id)
    const wrong = await decideApproval(room.approvals, byPerson(decider(room), TRACE), {
      workspaceId,
      approvalId,
      decision: 'approved',
      edits: { subject: 5 },
    })
    assert.equal(wrong.ok ? '' : wrong.code, 'commands.payload.malformed')
    accepted(
      await decideApproval(room.approvals, byPerson(decider(room), TRACE), {
        workspaceId,
        approvalId,
        decision: 'approved',
        edits: { subject: 'after' },
      }),
    )
    assert.equal(await room.settle(id), 'succeeded')
    const effects = await room.rows<{ effect_payload: unknown }>(
      `select effect_payload from concord.domain_effects where command_id = $1 and effect_type = $2`,
      [id, BOOK_A],
    )
    assert.deepEqual(
      effects.map(({ effect_payload }) => effect_payload),
      [{ subject: 'after' }],
    )
  })

  test('[APR-11] [CMD-18] nobody answers: approval and command expire together', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval' })
    await room.settle(id)
    await room.rows(
      `update concord.approvals set expires_at = now() - interval '1 second', created_at = now() - interval '1 day' where command_id = $1`,
      [id],
    )
    await expireApprovals(room.approvals, { traceId: TRACE })
    assert.equal(await room.statusOf(id), 'expired')
  })
}
