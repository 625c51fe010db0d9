/** Many moves in one statement: the same answers as one by one, in order, alone in failure, and safe to try again. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test, type TestContext } from 'node:test'
import {
  aCommand,
  aWorkspace,
  by,
  someApprovals,
  someCommands,
  storedApproval,
  storedCommand,
} from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { flakyDb } from '#test/flaky-db'
import { type Db, openDb } from './db.ts'
import { laneSettings } from './lane-connection.ts'
import { openTransitionLane } from './lane-transitions.ts'
import { batchOf, compileMoves } from './sql/move-rows.ts'
import { planMove } from './transition/plan-move.ts'
import { isLostRace, transition, type TransitionResult } from './transition/transition.ts'

describe('a lane of transitions', () => {
  let opened: TestDb
  let workspaceId: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
    workspaceId = await aWorkspace(opened.db)
  })
  after(() => opened.close())

  function aLane(t: TestContext, db: Db = opened.db) {
    const lane = openTransitionLane(db, storedCommand)
    t.after(() => lane.close())
    return lane
  }

  const historyOf = async (commandId: string) =>
    (
      await opened.db.query<{ step: string }>(
        `select payload->>'from' || '>' || (payload->>'to') || ' ' || event_type as step from concord.domain_events where command_id = $1 order by seq`,
        [commandId],
      )
    ).map(({ step }) => step)

  const inWords = (answer: TransitionResult<{ status: string }>) =>
    answer.ok ? `moved to ${answer.row.status}` : `${answer.code}${isLostRace(answer) ? ` (${answer.row.status})` : ''}`

  test('[ST-16] [ST-17] a batch of every kind of answer gives what single moves give', async (t) => {
    const foreign = await aWorkspace(opened.db)
    /** Each call makes the same situation with rows of its own. */
    const situation = async () => {
      const [plain, set, added, stale, fenced, hidden] = await Promise.all([
        aCommand(opened.db, workspaceId),
        aCommand(opened.db, workspaceId, 'running'),
        aCommand(opened.db, workspaceId, 'failed'),
        aCommand(opened.db, workspaceId, 'cancelled'),
        aCommand(opened.db, workspaceId, 'running'),
        aCommand(opened.db, foreign),
      ])
      return [
        [plain, 'validated', by('system')],
        [set, 'succeeded', { ...by('worker'), set: { result: { list: [1] }, error: null } }],
        [added, 'queued', { ...by('operator'), add: { attempt: 2 } }],
        [{ ...stale, status: 'running' }, 'succeeded', by('worker')],
        [fenced, 'succeeded', { ...by('worker'), fence: { turn_token: randomUUID() } }],
        [{ ...hidden, workspace_id: workspaceId }, 'validated', by('system')],
        [plain, 'succeeded', by('worker')],
      ] as const
    }
    const lane = aLane(t)
    const many = await situation()
    const inBatch = await Promise.all(many.map(([row, to, context]) => lane.move(row, to, context)))
    const single = await situation()
    const oneByOne: typeof inBatch = []
    for (const [row, to, context] of single) oneByOne.push(await transition(opened.db, storedCommand, row, to, context))
    assert.deepEqual(inBatch.map(inWords), oneByOne.map(inWords))
    assert.deepEqual(inBatch.map(inWords), [
      'moved to validated',
      'moved to succeeded',
      'moved to queued',
      'row.conflict (cancelled)',
      'lease.lost (running)',
      'row.not_found',
      'machine.move.illegal',
    ])
    const columns = 'status, result, error, attempt, completed_at is not null as is_complete'
    for (const [index, [row]] of many.entries()) {
      const read = async (id: unknown) =>
        (await opened.db.query(`select ${columns} from concord.commands where command_id = $1`, [id]))[0]
      assert.deepEqual(await read(row.command_id), await read(single[index]?.[0].command_id))
      assert.deepEqual(await historyOf(row.command_id), await historyOf(String(single[index]?.[0].command_id)))
    }
  })

  test('guards hold in a batch as they do alone', async () => {
    const command = await aCommand(opened.db, workspaceId)
    const late = await someApprovals(opened.db, command, 2, new Date('2020-01-01'))
    const open = await someApprovals(opened.db, command, 2, null)
    const lane = openTransitionLane(opened.db, storedApproval)
    const decide = { ...by('approver'), set: { decided_by: 'user:9' }, guards: ['unexpired'] }
    const answers = await Promise.all([...late, ...open].map((approval) => lane.move(approval, 'approved', decide)))
    await lane.close()
    assert.deepEqual(
      answers.map(({ ok }) => ok),
      [false, false, true, true],
    )
  })

  test('two moves of one row in one turn keep their order', async (t) => {
    const lane = aLane(t)
    const commands = await someCommands(opened.db, workspaceId, 50)
    const answers = await Promise.all(
      commands.flatMap((row) => [
        lane.move(row, 'validated', by('system')),
        lane.move({ ...row, status: 'validated' }, 'queued', by('system')),
        lane.move({ ...row, status: 'queued' }, 'running', by('worker')),
      ]),
    )
    assert.ok(answers.every(({ ok }) => ok))
    for (const { command_id } of commands) {
      assert.deepEqual(await historyOf(command_id), [
        'created>validated status_changed',
        'validated>queued status_changed',
        'queued>running status_changed',
      ])
    }
  })

  test('[EVT-11] a row that the database refuses fails alone, with its event', async (t) => {
    const lane = aLane(t)
    const commands = await someCommands(opened.db, workspaceId, 40, 'failed')
    const answers = await Promise.allSettled(
      commands.map((row, index) =>
        lane.move(row, 'queued', { ...by('operator'), add: { attempt: index === 17 ? -5 : 1 } }),
      ),
    )
    const refused = answers.flatMap((answer, index) =>
      answer.status === 'rejected' ? [[index, answer.reason.constraint]] : [],
    )
    assert.deepEqual(refused, [[17, 'count_from_one_ck']])
    assert.deepEqual(await historyOf(commands[17]?.command_id ?? ''), [])
    assert.equal((await historyOf(commands[18]?.command_id ?? '')).length, 1)
  })

  for (const size of [1, 30]) {
    test(`a batch of ${size} that was committed before its connection broke is answered as done, once`, async (t) => {
      const flaky = flakyDb(opened.db)
      const lane = aLane(t, flaky.db)
      const commands = await someCommands(opened.db, workspaceId, size)
      flaky.breakAfter('move')
      const answers = await Promise.all(commands.map((row) => lane.move(row, 'validated', by('system'))))
      assert.equal(flaky.broken, 1)
      assert.deepEqual(new Set(answers.map(inWords)), new Set(['moved to validated']))
      for (const { command_id } of commands)
        assert.deepEqual(await historyOf(command_id), ['created>validated status_changed'])
    })
  }

  test('after a break, a move that another writer made first is still told as lost', async (t) => {
    const flaky = flakyDb(opened.db)
    const lane = aLane(t, flaky.db)
    const [ours, theirs] = await someCommands(opened.db, workspaceId, 2)
    assert.ok(ours && theirs)
    assert.ok((await transition(opened.db, storedCommand, theirs, 'cancelled', by('user'))).ok)
    flaky.breakAfter('moves_')
    const answers = await Promise.all([ours, theirs].map((row) => lane.move(row, 'validated', by('system'))))
    assert.deepEqual(answers.map(inWords), ['moved to validated', 'row.conflict (cancelled)'])
  })

  test('a look at the losers that the server refuses takes nothing from the winners', async (t) => {
    const flaky = flakyDb(opened.db)
    const lane = aLane(t, flaky.db)
    const commands = await someCommands(opened.db, workspaceId, 6)
    const lost = commands[2]
    assert.ok(lost)
    assert.ok((await transition(opened.db, storedCommand, lost, 'cancelled', by('user'))).ok)
    flaky.refuse('find_all_', '57014')
    const answers = await Promise.allSettled(commands.map((row) => lane.move(row, 'validated', by('system'))))
    assert.equal(flaky.refused, 1)
    assert.deepEqual(
      answers.map((answer) => (answer.status === 'fulfilled' ? inWords(answer.value) : answer.reason.code)),
      commands.map((row) => (row === lost ? '57014' : 'moved to validated')),
    )
    for (const row of commands.filter((each) => each !== lost))
      assert.deepEqual(await historyOf(row.command_id), ['created>validated status_changed'])
    assert.ok((await historyOf(lost.command_id)).every((step) => step.startsWith('created>cancelled ')))
  })

  test('a move that may have been committed and whose second try is refused is of unknown outcome, not undone', async (t) => {
    const flaky = flakyDb(opened.db)
    const lane = aLane(t, flaky.db)
    const [row] = await someCommands(opened.db, workspaceId, 1)
    assert.ok(row)
    flaky.breakAfter('move')
    flaky.refuse('find', '57014', 20)
    await assert.rejects(lane.move(row, 'validated', by('system')), { code: 'unknown_outcome' })
    assert.deepEqual(await historyOf(row.command_id), ['created>validated status_changed'])
  })

  test('two lanes that move the same rows in opposite order: one of them wins each row, nothing is lost to a deadlock', async (t) => {
    const other = openDb({ url: opened.url, role: 'concord_engine', poolMax: 1 })
    const lanes = [aLane(t), aLane(t, other)]
    const commands = await someCommands(opened.db, workspaceId, 400)
    const answers = await Promise.all(
      lanes.map((lane, index) =>
        Promise.all(
          (index === 0 ? commands : commands.toReversed()).map((row) =>
            lane.move(row, index === 0 ? 'validated' : 'cancelled', by('system')),
          ),
        ),
      ),
    )
    await lanes[1]?.close()
    await other.close()
    assert.equal(answers.flat().filter(({ ok }) => ok).length, 400)
    assert.ok(answers.flat().every((answer) => answer.ok || isLostRace(answer)))
  })

  test('its plan stays a search by key when the table was empty at first and has grown since', async () => {
    const fresh = await openTestDb({ role: 'concord_engine' })
    const lane = openTransitionLane(fresh.db, storedCommand, { connections: 1 })
    const workspace = await aWorkspace(fresh.db)
    const explain = async () => {
      // The same settings and statement on a connection of our own: a plan cannot be read from inside the lane.
      const client = await fresh.db.connect('explain')
      await client.query(laneSettings)
      const { statement, values } = compileMoves(storedCommand)
      const [row] = await someCommands(fresh.db, workspace, 1)
      const move = planMove(
        storedCommand,
        row ?? {},
        { from: 'created', to: 'validated', by: ['system'], emits: ['status_changed'] },
        by('system'),
      )
      const { rows } = await client.query({ text: `explain ${statement.text}`, values: values(batchOf([move, move])) })
      await client.end()
      return rows.map((line: Record<string, string>) => line['QUERY PLAN']).join('\n')
    }
    for (const count of [2, 2_000]) {
      const rows = await someCommands(fresh.db, workspace, count)
      const answers = await Promise.all(rows.map((row) => lane.move(row, 'validated', by('system'))))
      assert.ok(answers.every(({ ok }) => ok))
      const plan = await explain()
      assert.match(plan, /(Index Scan|Bitmap Index Scan|Index Only Scan)[^\n]*commands_(pk|workspace_uq)/)
      assert.doesNotMatch(plan, /Seq Scan on commands/)
    }
    await lane.close()
    await fresh.close()
  })
})
