/** A process that dies before or after each of its writes, or around a call: driven again, the same rows, nothing done twice. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { type Db, openDb } from '#store'
import { decider, historyFaults, nextFence, openTestRoom, type TestRoom } from '#test/commands'
import { type FakeProvider, ProcessDied, type ProviderMode } from '#test/fake-providers'
import { accepted, TRACE } from '#test/tenant'
import { cancelCommand } from './cancel-command.ts'
import { openDrive } from './drive.ts'
import { actingFor, type CommandDeps } from './deps.ts'
import { byPerson } from '#kernel/actor'
import { undoCommand } from './undo-command.ts'
import { undoDefinitions } from './undo-task.ts'

/** Counts the passages of every write, before and after its commit, and dies at one of them. */
class DeathPlan {
  passage = 0
  dieAt = Number.POSITIVE_INFINITY
  isDead = false
  pass(): void {
    this.passage += 1
    if (this.passage === this.dieAt) this.isDead = true
    if (this.isDead) throw new ProcessDied(`died at passage ${this.passage}`)
  }
}

const plan = new DeathPlan()

function mortal(world: CommandDeps, provider: FakeProvider): CommandDeps {
  const alive = () => {
    if (provider.isCallerDead) throw new ProcessDied('dead')
  }
  const around = async <T>(work: () => Promise<T>): Promise<T> => {
    alive()
    plan.pass()
    const value = await work()
    plan.pass()
    return value
  }
  const db: Db = new Proxy(world.db, {
    get: (target, name) => {
      if (name === 'transaction')
        return (...asked: Parameters<Db['transaction']>) => around(() => target.transaction(...asked))
      if (name === 'transactionFrom')
        return (...asked: Parameters<Db['transactionFrom']>) => around(() => target.transactionFrom(...asked))
      return Reflect.get(target, name, target)
    },
  })
  return {
    ...world,
    db,
    writes: { ...world.writes, commit: (write) => around(() => world.writes.commit(write)) },
  }
}

describe('a process that dies', () => {
  let room: TestRoom
  let workspaceId: string
  before(async () => {
    room = await openTestRoom(mortal, () => undoDefinitions(() => room.world))
    workspaceId = room.tenant.workspace.id
  })
  after(() => room.close())
  beforeEach(() => void (plan.dieAt = Number.POSITIVE_INFINITY))

  /** A new process after each death, until it rests. An interrupted call is given the time in which it may still arrive. */
  async function live(id: string): Promise<string> {
    for (let turns = 0; turns < 60; turns++) {
      plan.isDead = false
      room.provider.isCallerDead = false
      try {
        const next = await openDrive(room.world)(id, nextFence())
        const waitMs = next.t === 'wait' && next.until ? next.until.getTime() - room.clock.now().getTime() : 0
        if (waitMs > 0 && (await isSettling(id))) room.clock.travel(waitMs)
        else if (next.t === 'done' || (next.t === 'wait' && (next.until === null || waitMs > 0)))
          return room.statusOf(id)
      } catch (error) {
        if (!(error instanceof ProcessDied)) throw error
        plan.dieAt = Number.POSITIVE_INFINITY
      }
    }
    throw new Error('does not come to rest')
  }

  const isSettling = async (id: string) => {
    const settling = `select from concord.domain_effects where command_id = $1 and status = 'executing' and read_back ? 'settles_at'`
    return (await room.rows(settling, [id])).length > 0
  }

  async function shapeOf(id: string) {
    const effects = await room.rows(
      `select effect_type, status, compensates_effect_id is not null as undoes from concord.domain_effects where command_id = $1 order by declaration_order`,
      [id],
    )
    const moves = await room.rows<{ to: string }>(
      `select payload->>'to' as to from concord.domain_events where command_id = $1 and event_type = 'status_changed' and payload->>'target_type' = 'command' order by seq`,
      [id],
    )
    const events = await room.rows(
      `select event_type, count(*)::int from concord.domain_events where command_id = $1 and event_type <> 'status_changed' group by 1 order by 1`,
      [id],
    )
    const approvals = await room.rows(`select status from concord.approvals where command_id = $1`, [id])
    return { effects, moves: moves.map(({ to }) => to), events, approvals }
  }

  const notUndone = (id: string) =>
    room.rows(
      `select o.effect_type from concord.domain_effects o where o.command_id = $1 and o.compensates_effect_id is null and o.status = 'succeeded'
         and not exists (select from concord.domain_effects k where k.compensates_effect_id = o.domain_effect_id and k.status = 'succeeded')`,
      [id],
    )

  const approve = async (id: string) => {
    const [row] = await room.rows<{ approval_id: string }>(
      `select approval_id from concord.approvals where command_id = $1 and status = 'pending'`,
      [id],
    )
    if (row)
      await decideApproval({ ...room.approvals, db: room.db }, byPerson(decider(room), TRACE), {
        workspaceId,
        approvalId: row.approval_id,
        decision: 'approved',
      })
  }

  const stories: readonly {
    name: string
    payload: Record<string, unknown>
    taskName?: string
    end: string
    middle?: (id: string) => Promise<unknown>
  }[] = [
    {
      name: 'two effects',
      payload: { subject: 's', steps: ['connector.hotel.book_a', 'connector.ticket.open'] },
      end: 'succeeded',
    },
    {
      name: 'behind an approval',
      payload: { subject: 's', decide: 'require_approval', steps: ['connector.hotel.book_a'] },
      end: 'succeeded',
      middle: approve,
    },
    {
      name: 'cancelled and undone',
      payload: { subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] },
      taskName: 'Booking',
      end: 'cancelled',
    },
    {
      name: 'undone after a failure, by its contract',
      payload: { subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b', 'connector.ticket.open'] },
      taskName: 'Fragile',
      end: 'compensated',
    },
  ]

  for (const { name, payload, taskName = 'Work', end, middle } of stories) {
    test(`[CMD-20] [EFF-05] [EVT-12] ${name}: death before and after every write gives the same rows, each effect applied once`, async (t) => {
      const isCancelled = end === 'cancelled'
      const run = async (dieAt: number) => {
        plan.passage = 0
        plan.dieAt = Number.POSITIVE_INFINITY
        const id = await room.submit(
          { ...payload, subject: `${name} ${dieAt}` },
          { taskName, idempotencyKey: `${name} ${dieAt}` },
        )
        if (isCancelled) room.provider.failing.add('book_b')
        if (end === 'compensated') room.provider.refusing.add('open')
        plan.passage = 0
        plan.dieAt = dieAt
        await live(id)
        if (middle) {
          const open = plan.dieAt
          plan.dieAt = Number.POSITIVE_INFINITY
          await middle(id)
          plan.dieAt = open
          await live(id)
        }
        if (isCancelled) {
          await cancelCommand({ ...room.world, db: room.db }, actingFor(room.tenant.people.admin.principal, TRACE), {
            workspaceId,
            commandId: id,
          })
          room.provider.failing.clear()
          await live(id)
        }
        return id
      }
      t.after(() => room.provider.refusing.clear())
      const calm = await run(Number.POSITIVE_INFINITY)
      assert.equal(await room.statusOf(calm), end)
      const expected = await shapeOf(calm)
      const passages = plan.passage
      assert.ok(passages >= 6)
      for (let dieAt = 1; dieAt <= passages; dieAt++) {
        const id = await run(dieAt)
        const shape = await shapeOf(id)
        assert.deepEqual([dieAt, await room.statusOf(id), shape.moves], [dieAt, end, expected.moves])
        assert.deepEqual(shape.approvals, expected.approvals)
        // A cut attempt is carried to its end before it is undone, so there may be more to undo; never less than was done.
        if (isCancelled) assert.deepEqual(await notUndone(id), [])
        else assert.deepEqual({ dieAt, ...shape }, { dieAt, ...expected })
      }
      assert.deepEqual(
        [...room.provider.applied].filter(([, count]) => count !== 1),
        [],
      )
      assert.deepEqual(await historyFaults(room), [])
    })
  }

  test('[D1] [CMD-20] [EFF-05] the undo of a command that succeeded: death before and after every write undoes each effect once', async () => {
    const run = async (dieAt: number) => {
      plan.dieAt = Number.POSITIVE_INFINITY
      const target = await room.submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
      await live(target)
      const by = actingFor(room.tenant.people.admin.principal, TRACE)
      const asked = { workspaceId, commandId: target, requestId: 'r' }
      const undo = accepted(await undoCommand({ ...room.world, db: room.db }, by, asked)).command.command_id
      plan.passage = 0
      plan.dieAt = dieAt
      assert.equal(await live(undo), 'succeeded')
      assert.deepEqual([dieAt, await room.statusOf(target), await notUndone(target)], [dieAt, 'succeeded', []])
      return { passages: plan.passage, shape: await shapeOf(undo) }
    }
    const calm = await run(Number.POSITIVE_INFINITY)
    assert.ok(calm.passages >= 6)
    for (let dieAt = 1; dieAt <= calm.passages; dieAt++)
      assert.deepEqual({ dieAt, ...(await run(dieAt)).shape }, { dieAt, ...calm.shape })
    assert.ok([...room.provider.applied.values()].every((count) => count === 1))
    assert.deepEqual(await historyFaults(room), [])
  })

  const windows: readonly [effect: string, mode: ProviderMode, end: string, calls: number][] = [
    ['connector.hotel.book_a', 'crash_before', 'succeeded', 2],
    ['connector.hotel.book_a', 'crash_after', 'succeeded', 2],
    ['connector.ticket.open', 'crash_before', 'succeeded', 2],
    ['connector.ticket.open', 'crash_after', 'succeeded', 1],
    ['connector.mail.send', 'crash_before', 'blocked', 1],
    ['connector.mail.send', 'crash_after', 'blocked', 1],
  ]
  for (const [effect, mode, end, calls] of windows) {
    test(`[EFF-06] [CMD-20] ${effect}, ${mode}: keyed is repeated, queryable is looked up, opaque is a question for a person`, async () => {
      const id = await room.submit({ subject: 's', steps: [effect] })
      const before = room.provider.calls.length
      room.provider.modes.push(mode)
      assert.equal(await live(id), end)
      assert.equal(room.provider.calls.length - before, calls)
      const [row] = await room.rows<{ idempotency_key: string }>(
        `select idempotency_key from concord.domain_effects where command_id = $1`,
        [id],
      )
      assert.ok((room.provider.applied.get(row?.idempotency_key ?? '') ?? 0) <= 1)
      assert.equal(await room.statusOf(id), end)
    })
  }

  test('[EFF-06] a repeat that says "not done" settles nothing while an earlier attempt was cut', async () => {
    const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] })
    const before = room.provider.calls.length
    room.provider.modes.push('crash_after', 'refuse')
    assert.equal(await live(id), 'blocked')
    assert.equal(room.provider.calls.length - before, 2, 'a definite no is not asked for again')
    assert.equal(await live(id), 'blocked')
    assert.equal(room.provider.calls.length - before, 2)
    const [row] = await room.rows<{ status: string; idempotency_key: string }>(
      `select status, idempotency_key from concord.domain_effects where command_id = $1`,
      [id],
    )
    assert.deepEqual([row?.status, room.provider.applied.get(row?.idempotency_key ?? '')], ['executing', 1])
  })

  test('[EFF-06] [ERR-02] a definite no after a cut call is final where the provider can be asked: looked up, not done, failed, never again', async () => {
    const id = await room.submit({ subject: 's', steps: ['connector.ticket.open'] })
    const before = room.provider.calls.length
    room.provider.modes.push('crash_before', 'refuse')
    assert.equal(await live(id), 'failed')
    assert.equal(room.provider.calls.length - before, 2)
    const approvals = await room.rows(`select 1 from concord.approvals where command_id = $1`, [id])
    assert.deepEqual(approvals, [])
  })

  test('a turn that nobody renewed is open to any token; one that lives is open to later ones only', async () => {
    const [earlier, later] = [nextFence(), nextFence()]
    const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] })
    await room.rows(
      `update concord.commands set turn_token = $2, turn_until = now() + interval '1 minute' where command_id = $1`,
      [id, later.token],
    )
    assert.deepEqual(await openDrive(room.world)(id, earlier), { t: 'done' })
    assert.equal(await room.statusOf(id), 'created')
    await room.rows(`update concord.commands set turn_until = now() - interval '1 second' where command_id = $1`, [id])
    assert.deepEqual(await openDrive(room.world)(id, earlier), { t: 'done' })
    assert.equal(await room.statusOf(id), 'succeeded')
  })

  test('a driver that comes back late finds a later turn on the row and writes nothing', async () => {
    const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
    const late = nextFence()
    const call = room.provider.call.bind(room.provider)
    let other: string | undefined
    room.provider.call = async (...args) => {
      room.provider.call = call
      // While the first driver is in its call, a later one takes over and finishes the command.
      other = await live(id)
      return call(...args)
    }
    const next = await openDrive(room.world)(id, late)
    assert.equal(other, 'succeeded')
    assert.deepEqual(next, { t: 'done' })
    const written = await room.rows(
      `select 1 from concord.domain_events where command_id = $1 and event_type = 'effect_executed'`,
      [id],
    )
    assert.equal(written.length, 2)
    assert.deepEqual(await historyFaults(room), [])
  })

  test('[EFF-06] a success that is recorded after a person was asked settles the effect, closes the question and continues', async () => {
    const id = await room.submit({ subject: 's', steps: ['connector.mail.send', 'connector.hotel.book_a'] })
    const call = room.provider.call.bind(room.provider)
    let other: string | undefined
    room.provider.call = async (...args) => {
      room.provider.call = call
      // While the first driver is in its call, a later one takes over, cannot look the effect up, and asks a person.
      other = await live(id)
      return call(...args)
    }
    assert.deepEqual(await openDrive(room.world)(id, nextFence()), { t: 'done' })
    assert.deepEqual([other, await room.statusOf(id)], ['blocked', 'succeeded'])
    const approvals = await room.rows(`select status from concord.approvals where command_id = $1`, [id])
    assert.deepEqual(approvals, [{ status: 'cancelled' }])
    assert.deepEqual(await historyFaults(room), [])
  })

  test('a call that outlasts the time of its turn: its outcome and the end are one write, and no other call begins', async () => {
    const call = room.provider.call.bind(room.provider)
    const slowly = async (steps: readonly string[]) => {
      const id = await room.submit({ subject: 's', steps })
      room.provider.call = async (...args) => {
        room.provider.call = call
        room.clock.travel(6_000)
        return call(...args)
      }
      const next = await openDrive(room.world)(id, nextFence())
      const effects = await room.rows<{ status: string }>(
        `select status from concord.domain_effects where command_id = $1 order by declaration_order`,
        [id],
      )
      return [next.t, await room.statusOf(id), ...effects.map(({ status }) => status)]
    }
    assert.deepEqual(await slowly(['connector.hotel.book_a']), ['done', 'succeeded', 'succeeded'])
    const two = ['connector.hotel.book_a', 'connector.hotel.book_b']
    assert.deepEqual(await slowly(two), ['again', 'running', 'succeeded', 'planned'])
  })

  for (const effect of ['connector.ticket.open', 'connector.hotel.book_a', 'connector.mail.send'])
    test(`[CMD-20] [EFF-06] ${effect}: a driver that froze between the record of a beginning and its call does not make the call any more`, async () => {
      const id = await room.submit({ subject: 's', steps: [effect] })
      const before = room.provider.calls.length
      let heir: string | undefined
      const frozen: CommandDeps = {
        ...room.world,
        writes: {
          ...room.world.writes,
          async commit(write) {
            const result = await room.world.writes.commit(write)
            const begins = [...write.newEffects, ...write.effectMoves].some(({ status }) => status === 'executing')
            if (heir !== undefined || !begins) return result
            // Stopped here; meanwhile another one takes over and goes on.
            heir = ''
            room.clock.travel(3_000)
            heir = await live(id)
            return result
          },
        },
      }
      assert.deepEqual(await openDrive(frozen)(id, nextFence()), { t: 'done' })
      // Nobody can look up what an opaque provider did: the heir has asked a person, and nobody has called at all.
      const isOpaque = effect === 'connector.mail.send'
      assert.equal(heir, isOpaque ? 'blocked' : 'succeeded')
      assert.equal(room.provider.calls.length - before, isOpaque ? 0 : 1)
      assert.deepEqual(await historyFaults(room), [])
    })

  test('[CMD-20] a driver that finds no effects where the plan has steps ends nothing, and says so', async (t) => {
    const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a', 'connector.hotel.book_b'] })
    room.provider.modes.push('fail_before')
    assert.equal(await live(id), 'running')
    const superuser = openDb({ url: room.db.config.url, poolMax: 1 })
    t.after(() => superuser.close())
    await superuser.query('delete from concord.domain_effects where command_id = $1', [id])
    await assert.rejects(openDrive(room.world)(id, nextFence()), { code: 'commands.plan.torn' })
    assert.equal(await room.statusOf(id), 'running')
  })
})
