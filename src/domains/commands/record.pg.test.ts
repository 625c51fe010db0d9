/** What is on record about a command: its context, its times, its plan, its runs; and that a process which starts anew reads all of it back. */
import type { Actor } from '#kernel/actor'
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { decider, openRoomOn, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { executionPrimitives } from './catalog/primitives.ts'
import { composeWrite, set } from './change.ts'
import { cancelCommand } from './cancel-command.ts'
import { findCommand } from './command-table.ts'
import { commandEventPurposes } from './events.ts'
import { reconcileCommands } from './drive.ts'
import { retryCommand } from './change-command.ts'
import { submitCommand } from './submit.ts'
import { actingFor } from './deps.ts'
import { byPerson } from '#kernel/actor'

const BOOK_A = 'connector.hotel.book_a'
const BOOK_B = 'connector.hotel.book_b'

describe('the record of a command', () => {
  let room: TestRoom
  let user: Actor
  let workspaceId: string
  before(async () => {
    room = await openTestRoom()
    user = actingFor(room.tenant.people.writer.principal, TRACE)
    workspaceId = room.tenant.workspace.id
  })
  after(() => room.close())

  const rowOf = async (id: string) => {
    const [row] = await room.rows(`select *, xmin::text as written_by from concord.commands where command_id = $1`, [
      id,
    ])
    return row ?? assert.fail('no row')
  }
  const path = async (id: string) => {
    const rows = await room.rows<{ to: string }>(
      `select payload->>'to' as to from concord.domain_events where command_id = $1 and event_type = 'status_changed'
         and payload->>'target_type' = 'command' order by seq`,
      [id],
    )
    return rows.map(({ to }) => to).join(' ')
  }
  /** Another process on the same database: nothing of the first one is left but its rows. */
  const anotherProcess = async <T>(work: (other: TestRoom) => Promise<T>): Promise<T> => {
    const other = openRoomOn(room.clock, room.tenant)
    try {
      return await work(other)
    } finally {
      await other.close()
    }
  }

  test('a write answers with the whole row and reads back only what another writer can have changed', async () => {
    const id = await room.submit({ subject: 's', steps: [BOOK_A] })
    const found = await findCommand(room.world.db, workspaceId, id)
    assert.ok(found)
    const read = new Set<string>()
    const written = await room.world.db.transaction((tx) => {
      const run: typeof tx.run = async (statement, values) => {
        const rows = await tx.run(statement, values)
        for (const row of rows) for (const name in row) read.add(name)
        return rows
      }
      // Another writer has changed the row since it was read.
      const stale = { ...found.command, attempt: 7 }
      const change = set({ error: 'as the test wants it' })
      const write = composeWrite({ ...found, command: stale }, 'any', [change], room.world.now())
      return room.world.writes.commitIn({ ...tx, run }, write)
    })
    const after_ = await findCommand(room.world.db, workspaceId, id)
    assert.ok(after_)
    assert.deepEqual(accepted(written).command, after_.command)
    assert.equal(after_.command.error, 'as the test wants it')
    for (const fixed of ['context', 'created_at', 'request_fingerprint']) assert.equal(read.has(fixed), false, fixed)
  })

  test('[CMD-10] [CMD-11] [SUP-11] submit by task name, get, cancel: payload, context and key are on the row, the audit beside it', async () => {
    const submitted = await submitCommand(room.world, user, {
      workspaceId,
      taskName: 'Work',
      payload: { subject: 'record', decide: 'require_approval' },
      idempotencyKey: 'record:1',
      ingress: 'user_request',
      requestId: 'req_record',
    })
    const { command, isNew } = accepted(submitted)
    assert.ok(isNew)
    const id = command.command_id
    const found = await findCommand(room.db, workspaceId, id)
    assert.ok(found)
    assert.deepEqual(
      [found.command.command_type, found.command.task_name, found.command.requested_by, found.command.ingress],
      ['work', 'Work', user.id, 'user_request'],
    )
    assert.deepEqual(found.command.payload, { subject: 'record', decide: 'require_approval' })
    const { context } = found.command
    assert.deepEqual(
      [context['user_id'], context['workspace_id'], context['run_as'], context.trace_id, context['request_id']],
      [user.principal?.userId, workspaceId, 'user', TRACE, 'req_record'],
    )
    const [audit] = await room.rows<{ actor: string; trace_id: string }>(
      `select actor, trace_id from concord.domain_events where command_id = $1 and event_type = 'command_created' and purpose = 'audit'`,
      [id],
    )
    assert.deepEqual(audit, { actor: user.id, trace_id: TRACE })
    assert.ok(accepted(await cancelCommand(room.world, user, { workspaceId, commandId: id, reason: 'enough' })).changed)
    assert.equal(await room.statusOf(id), 'cancelled')
  })

  test('[CMD-14] every change of status changes updated_at; the end sets completed_at, result or error, and another run clears them', async () => {
    const id = await room.submit({ subject: 'times', steps: [BOOK_A, BOOK_B] })
    room.provider.modes.push('ok', 'refuse')
    room.clock.travel(1_000)
    await room.settle(id)
    const failed = await rowOf(id)
    assert.deepEqual([failed['status'], failed['error_class'], failed['result']], ['failed', 'validation_error', null])
    assert.match(String(failed['error']), /says no/)
    assert.deepEqual([failed['updated_at'], failed['completed_at']], [room.clock.now(), room.clock.now()])
    room.clock.travel(1_000)
    accepted(await retryCommand(room.world, user, { workspaceId, commandId: id }))
    const queued = await rowOf(id)
    assert.deepEqual([queued['completed_at'], queued['error'], queued['updated_at']], [null, null, room.clock.now()])
    room.clock.travel(1_000)
    await room.settle(id)
    const done = await rowOf(id)
    assert.deepEqual([done['status'], done['error'], done['completed_at']], ['succeeded', null, room.clock.now()])
    assert.deepEqual((done['result'] as Record<string, unknown>)['done'], 'book_b')
  })

  test('[CMD-02] a process that hangs in a call leaves its command running; the next one goes on, and no status changes for it', async () => {
    const id = await room.submit({ subject: 'recover', steps: [BOOK_A] })
    const gate = Promise.withResolvers<unknown>()
    const real = room.provider.call
    room.provider.call = () => gate.promise
    const hanging = room.turn(id)
    try {
      await until(async () => {
        const [effect] = await room.rows<{ status: string }>(
          'select status from concord.domain_effects where command_id = $1',
          [id],
        )
        return effect?.status === 'executing'
      })
      assert.equal(await room.statusOf(id), 'running')
      assert.equal(await anotherProcess((other) => other.settle(id)), 'succeeded')
    } finally {
      gate.resolve({})
      room.provider.call = real
    }
    await hanging
    assert.equal(await path(id), 'validated queued running succeeded')
  })

  test('[PLN-16] [PER-03] status, policy, plan, effects and audit of the planning are one transaction', async () => {
    const id = await room.submit({ subject: 'plan', steps: [BOOK_A, BOOK_B] })
    const gate = Promise.withResolvers<void>()
    const real = room.provider.call.bind(room.provider)
    // The turn is held inside its first call: what it has written so far is its planning.
    room.provider.call = async (...args) => {
      await gate.promise
      return real(...args)
    }
    const turn = room.turn(id)
    try {
      await until(async () => (await room.statusOf(id)) === 'running')
      const plan = (await rowOf(id))['plan'] as { plan_id: string; steps: unknown[]; plan_schema_version: number }
      assert.deepEqual([plan.steps.length, plan.plan_schema_version], [2, 1])
      const events = await room.rows<{ event_type: string; to: string | null; xid: string; plan_id: string | null }>(
        `select event_type, payload->>'to' as to, payload->>'plan_id' as plan_id, xid::text as xid
           from concord.domain_events where command_id = $1 and event_type <> 'command_created' order by seq`,
        [id],
      )
      const planning = events.slice(0, events.findIndex(({ to }) => to === 'queued') + 1)
      assert.deepEqual(
        planning.map(({ event_type, to }) => to ?? event_type),
        ['validated', 'policy_evaluated', 'plan_created', 'effect_planned', 'effect_planned', 'queued'],
      )
      assert.equal(planning[2]?.plan_id, plan.plan_id)
      const effects = await room.rows<{ by: string; status: string }>(
        `select xmin::text as by, status from concord.domain_effects where command_id = $1 order by declaration_order`,
        [id],
      )
      assert.equal(effects[1]?.status, 'planned')
      const writers = new Set([...planning.map(({ xid }) => xid), effects[1].by])
      assert.equal(writers.size, 1, [...writers].join())
    } finally {
      gate.resolve()
      room.provider.call = real
    }
    await turn
    assert.equal(await room.settle(id), 'succeeded')
  })

  test('[PRM-21] [SUP-17] [EFF-07] six kinds of execution, a catalog that knows what changes the outside, and a run of a task with all its facts on record', async () => {
    assert.deepEqual(
      executionPrimitives,
      'sync_function async_task connector_call agent_run external_job notification'.split(' '),
    )
    const changes = (effect: string) => room.catalog.effects.get(effect)?.definition.produces
    assert.deepEqual([changes('work.echo'), changes(BOOK_A)], [[], ['hotel.book_a']])
    const id = await room.submit({ subject: 'run', steps: [BOOK_A] })
    room.provider.modes.push('fail_before')
    await room.settle(id)
    room.clock.travel(30_000)
    await room.settle(id)
    const [run] = await room.rows(
      `select e.domain_effect_id as id, e.command_id, e.effect_type as name, e.status, e.attempt, e.effect_payload as input, e.result, e.error,
              e.error_class, e.completed_at as finished_at, e.executed_by_runtime_workflow_id as workflow_id,
              (select min(v.created_at) from concord.domain_events v where v.payload->>'target_id' = e.domain_effect_id::text and v.payload->>'to' = 'executing') as started_at,
              (select v.payload->>'last_error' from concord.domain_events v where v.payload->>'target_id' = e.domain_effect_id::text and v.event_type = 'retry_scheduled') as last_error
         from concord.domain_effects e where e.command_id = $1`,
      [id],
    )
    assert.deepEqual(
      [run?.['command_id'], run?.['name'], run?.['status'], run?.['attempt'], run?.['input']],
      [id, BOOK_A, 'succeeded', 2, { subject: 'run' }],
    )
    assert.deepEqual(
      [run?.['workflow_id'], run?.['error'], run?.['error_class'], run?.['last_error']],
      [`command:${id}`, null, null, 'connection refused'],
    )
    assert.ok(run?.['id'] && run['result'])
    assert.ok((run['started_at'] as Date) < (run['finished_at'] as Date))
    room.provider.modes.push('refuse')
    const failing = await room.submit({ subject: 'run', steps: [BOOK_A] })
    await room.settle(failing)
    const [failed] = await room.rows(
      `select error, error_class, completed_at, result from concord.domain_effects where command_id = $1`,
      [failing],
    )
    assert.deepEqual(
      [failed?.['error'], failed?.['error_class'], failed?.['completed_at'], failed?.['result']],
      ['the provider says no', 'validation_error', room.clock.now(), null],
    )
  })

  test('[SUP-18] a duplicate submit starts one workflow, named after the command and not after the key', async () => {
    room.woken.length = 0
    const ids = await Promise.all(
      Array.from({ length: 5 }, () => room.submit({ subject: 'twice', steps: [BOOK_A] }, { idempotencyKey: 'twice' })),
    )
    const [id = ''] = ids
    assert.equal(new Set(ids).size, 1)
    assert.deepEqual(room.woken, [id])
    await room.settle(id)
    assert.equal((await rowOf(id))['runtime_workflow_id'], `command:${id}`)
  })

  test('[APR-07] [OQ-01] it waits for a person while every process is away; the answer alone lets it go on, with or without a wake', async () => {
    for (const isWoken of [true, false]) {
      const id = await anotherProcess(async (first) => {
        const waiting = await first.submit({ subject: 'away', steps: [BOOK_A], decide: 'require_approval' })
        assert.equal(await first.settle(waiting), 'waiting_for_approval')
        return waiting
      })
      await anotherProcess(async (second) => {
        assert.equal(await second.settle(id), 'waiting_for_approval')
        const approvalId = await pendingOf(second, id)
        const answer = { workspaceId, approvalId, decision: 'approved', reason: 'fine', traceId: TRACE }
        accepted(await decideApproval(second.approvals, byPerson(decider(second), TRACE), answer))
        assert.ok(second.woken.includes(id))
      })
      await anotherProcess(async (third) => {
        if (!isWoken) {
          // The wake was lost with the process that had it: the search for lost work finds the row.
          third.clock.travel(10_000)
          await reconcileCommands(third.world)
          assert.ok(third.woken.includes(id))
        }
        assert.equal(await third.settle(id), 'succeeded')
        assert.equal(third.provider.calls.length, 1)
      })
      assert.equal(await path(id), 'validated waiting_for_approval approved queued running succeeded')
    }
  })

  test('[DEP-05] no end of a parent is missed: not one before the child came, nor one while nobody was there', async () => {
    const early = await room.submit({ subject: 'parent' })
    await room.settle(early)
    const late = await room.submit({ subject: 'child' }, { dependsOn: [{ commandId: early }] })
    assert.equal(await room.settle(late), 'succeeded')

    const parent = await room.submit({ subject: 'parent' })
    const child = await room.submit({ subject: 'child' }, { dependsOn: [{ commandId: parent }] })
    assert.equal(await room.settle(child), 'queued')
    await anotherProcess(async (first) => {
      assert.equal(await first.settle(parent), 'succeeded')
      // Its wakes die with it.
    })
    await anotherProcess(async (second) => {
      second.clock.travel(10_000)
      await reconcileCommands(second.world)
      assert.ok(second.woken.includes(child))
      assert.equal(await second.settle(child), 'succeeded')
    })
  })

  test('[CAN-13] a cancel reaches what waits at once: an approval, a delay, a pause between attempts', async () => {
    const cancel = (commandId: string) => cancelCommand(room.world, user, { workspaceId, commandId })
    for (const [payload, path_] of [
      [{ subject: 's', decide: 'require_approval' }, 'validated waiting_for_approval cancelled'],
      [{ subject: 's', decide: 'delay' }, 'validated cancelled'],
    ] as const) {
      const id = await room.submit(payload)
      await room.settle(id)
      accepted(await cancel(id))
      assert.equal(await path(id), path_)
    }
    const id = await room.submit({ subject: 's', steps: [BOOK_A] })
    room.provider.modes.push('fail_before')
    const next = await room.turn(id)
    assert.ok(next.t === 'again' || (next.t === 'wait' && next.until !== null))
    await room.settle(id)
    room.woken.length = 0
    accepted(await cancel(id))
    assert.ok(room.woken.includes(id), 'the sleeper is woken, however long it would have slept')
    assert.equal(await room.settle(id), 'cancelled')
  })

  test('an effect that nobody carries out ends the command before anything is done', async () => {
    const before_ = room.provider.calls.length
    const id = await room.submit({ subject: 's', steps: [BOOK_A, 'nobody.knows'] })
    assert.equal(await room.settle(id), 'failed')
    const row = await rowOf(id)
    assert.equal(row['error_class'], 'validation_error')
    assert.match(String(row['error']), /nobody\.knows/)
    assert.equal(room.provider.calls.length, before_)
    const planned = await room.rows('select 1 from concord.domain_effects where command_id = $1', [id])
    assert.equal(planned.length, 0)
  })

  test('[EVT-06] [EVT-10] [EVT-15] every event names its target, has the purpose of its type, and tells nothing of the runtime', async () => {
    const rows = await room.rows<{ event_type: string; purposes: string[]; targeted: boolean; named: boolean }>(
      `select event_type, array_agg(distinct purpose::text) as purposes, bool_and(payload ? 'target_type' and payload ? 'target_id') as targeted,
              bool_and(actor <> '' and trace_id <> '') as named
         from concord.domain_events group by 1 order by 1`,
    )
    assert.ok(rows.length > 10)
    // By hand: what only says how far the work has come. Everything else is who did, decided or asked for what.
    const progress = [
      'status_changed',
      'plan_created',
      'input_requested',
      'retry_scheduled',
      'effect_planned',
      'dependency_added',
      'dependency_satisfied',
    ]
    for (const { event_type, purposes, targeted, named } of rows) {
      assert.ok(targeted && named, event_type)
      assert.equal(purposes.length, 1, event_type)
      assert.deepEqual(purposes, [progress.includes(event_type) ? 'event' : 'audit'], event_type)
    }
    for (const type of Object.keys(commandEventPurposes))
      assert.equal(/lease|replay|recover|workflow|turn|heartbeat|checkpoint/.test(type), false, type)
  })
})
