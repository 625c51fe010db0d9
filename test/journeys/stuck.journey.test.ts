/** Work that took down its worker ten times waits for an operator, who sees it, and gives it another chance. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { openDrive } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { openDb } from '#store'
import { decider, nextFence, openRoomOn, pendingOf } from '#test/commands'
import { runConcord } from '#test/concord-process'
import { openTestDb } from '#test/database'
import { accepted, aTenant, aWorld, TRACE } from '#test/tenant'

type Listed = { readonly items: readonly { readonly id: string; readonly why: string; readonly detail: string }[] }

test('concord stuck lists what waits for a person, doctor says so, and resume takes it back', async (t) => {
  const database = await openTestDb()
  const home = await mkdtemp(join(tmpdir(), 'concord-stuck-'))
  t.after(async () => {
    await database.close()
    await rm(home, { recursive: true, force: true })
  })
  const env = { CONCORD_HOME: home, DATABASE_URL: database.url, CONCORD_UNSAFE_TEST: '1', CONCORD_LOG_LEVEL: 'error' }
  const concord = (...args: string[]) => runConcord(args, { env })
  const list = async () => JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(await list(), { items: [] })

  const commandId = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405166'
  for (const [kind, id] of [
    ['command', commandId],
    ['schedule', 'nightly'],
  ]) {
    await database.db.query('select runtime.abort($1, $2, $3)', [kind, id, 'a test'])
  }
  const { items } = await list()
  assert.deepEqual(Object.fromEntries(items.map(({ id, why }) => [id, why])), {
    [`cmd_${commandId.replaceAll('-', '')}`]: 'aborted',
    nightly: 'aborted',
  })
  const doctor = await concord('--json', 'doctor')
  assert.match(
    doctor.out,
    /"check":"work","state":"broken","found":"2 stuck","next":"`concord stuck` lists it with the reasons."/,
  )

  assert.equal((await concord('stuck', 'resume')).code, 64)
  assert.equal((await concord('stuck', 'resume', 'nobody')).code, 75)
  const nightly = await concord('stuck', 'resume', 'nightly')
  assert.match(nightly.out, /nightly +schedule +aborted/)
  assert.match(nightly.err, /^resumed; /)
  assert.deepEqual(
    (await list()).items.map(({ id }) => id),
    [`cmd_${commandId.replaceAll('-', '')}`],
  )
  // By the id of the row as well, and it says what it took back.
  assert.match(
    (await concord('stuck', 'resume', commandId)).out,
    /cmd_0197f3b2c4d57a8e9b0c1d2e3f405166 +command +aborted/,
  )
  await database.db.query('select runtime.abort($1, $2, $3)', ['command', commandId, 'a test'])
  assert.equal((await concord('stuck', 'resume', '--all')).code, 0)
  assert.match((await concord('stuck')).err, /Nothing is stuck\./)
})

/** Commands on a database of their own, and what an operator's program has to know to look at it. */
async function openOperated(t: TestContext) {
  const database = await openTestDb({ role: 'concord_engine' })
  const home = await mkdtemp(join(tmpdir(), 'concord-operated-'))
  const clock = aWorld(database.db)
  const room = openRoomOn(clock, await aTenant(clock))
  t.after(async () => {
    await room.close()
    await database.close()
    await rm(home, { recursive: true, force: true })
  })
  const env = { CONCORD_HOME: home, DATABASE_URL: database.url, CONCORD_UNSAFE_TEST: '1', CONCORD_LOG_LEVEL: 'error' }
  return { database, room, env }
}

test('an approved command whose task left the catalog is listed by stuck and counted by doctor, and resume lets it look again', async (t) => {
  const { database, room, env } = await openOperated(t)
  const concord = (...args: string[]) => runConcord(args, { env })
  // The first look makes the tables of the runtime.
  assert.deepEqual(JSON.parse((await concord('--json', 'stuck')).out), { items: [] })

  const commandId = await room.submit({ subject: 's', decide: 'require_approval' })
  await room.settle(commandId)
  const approvalId = await pendingOf(room, commandId)
  const answer = { workspaceId: room.tenant.workspace.id, approvalId, decision: 'approved', traceId: TRACE }
  accepted(await decideApproval(room.approvals, decider(room), answer))
  const catalog = { ...room.catalog, tasks: new Map(), taskOfType: new Map() }
  await openDrive({ ...room.world, catalog })(commandId, nextFence())

  const id = encodeId('command', commandId)
  const { items } = JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(
    items.map((item) => [item.id, item.why]),
    [[id, 'task_gone']],
  )
  assert.match(items[0]?.detail ?? '', /its task .?Work.? is not in the catalog/)
  assert.match((await concord('--json', 'doctor', '--deep')).out, /"check":"work","state":"broken","found":"1 stuck"/)
  // Stopped by an operator as well it is one thing, which is resumed once.
  assert.equal((await concord('stuck', 'abort', id, '--reason', 'while its task is away')).code, 0)
  const twice = JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(
    twice.items.map((item) => [item.id, item.why]),
    [[id, 'aborted']],
  )
  assert.equal((await concord('stuck', 'resume', id)).code, 0)
  const told = `select 1 from concord.domain_events where command_id = $1 and event_type = 'command_resumed'`
  assert.equal((await room.rows(told, [commandId])).length, 1)
  const resumed = await concord('stuck', 'resume', id)
  assert.equal(resumed.code, 0, resumed.err)
  assert.match(resumed.out, new RegExp(`${id} +command +task_gone`))
  // The tables of the runtime are its own: the role of the engine may not look into them.
  const login = openDb({ url: database.url, poolMax: 1 })
  const line = 'select state from runtime.processes where kind = $1 and id = $2'
  const found = await login.query(line, ['command', commandId])
  await login.close()
  assert.deepEqual(found, [{ state: 'queued' }])
})

test('an abort takes a command from every turn and is on record with the login of its operator, as is the resume', async (t) => {
  const { database, room, env: base } = await openOperated(t)
  const concord = (...args: string[]) => runConcord(args, { env: { ...base, CONCORD_ENVIRONMENT: 'staging' } })
  const commandId = await room.submit({ subject: 's' })
  const id = encodeId('command', commandId)
  assert.equal((await concord('stuck', 'abort', id)).code, 64)
  assert.equal((await concord('stuck', 'abort', id, '--reason', ' ')).code, 64)
  const mistyped = await concord('stuck', 'abort', 'nobody', '--reason', 'x')
  assert.equal(mistyped.code, 65)
  assert.match(mistyped.err, /`concord commands list` shows the ids/)
  const aborted = await concord('stuck', 'abort', id, '--reason', 'the provider is down')
  assert.equal(aborted.code, 0, aborted.err)
  assert.match(aborted.err, /concord stuck resume <id>/)
  assert.match(aborted.out, new RegExp(`${id} +command +aborted`))
  assert.equal(await room.settle(commandId), 'created')
  const login = openDb({ url: database.url, poolMax: 1 })
  const lines = await login.query('select queue from runtime.processes where id = $1', [commandId])
  await login.close()
  // No worker of this environment takes a queue without its name.
  assert.deepEqual(lines, [{ queue: 'staging__concord_default' }])
  const { items } = JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(
    items.map(({ why, detail }) => [why, detail]),
    [['aborted', 'the provider is down']],
  )
  assert.equal((await concord('stuck', 'resume', '--all', '--reason', 'up again')).code, 0)
  assert.equal(await room.settle(commandId), 'succeeded')
  const told = await room.rows(
    `select event_type as type, actor, payload->>'reason' as reason from concord.domain_events
     where command_id = $1 and event_type in ('command_aborted', 'command_resumed') order by seq`,
    [commandId],
  )
  const actor = `operator:${userInfo().username}`
  assert.deepEqual(told, [
    { type: 'command_aborted', actor, reason: 'the provider is down' },
    { type: 'command_resumed', actor, reason: 'up again' },
  ])
  // The turns of an approval are its own, and so is the record of their resume.
  const gated = await room.submit({ subject: 's', decide: 'require_approval' })
  await room.settle(gated)
  const approvalId = await pendingOf(room, gated)
  await database.db.query('select runtime.abort($1, $2, $3)', ['approval', approvalId, 'a test'])
  assert.equal((await concord('stuck', 'resume', approvalId)).code, 0)
  const resumed = await room.rows(
    `select actor, payload->>'why' as why from concord.domain_events where event_type = 'approval_resumed' and command_id = $1`,
    [gated],
  )
  assert.deepEqual(resumed, [{ actor, why: 'aborted' }])
  const ended = await concord('stuck', 'abort', id, '--reason', 'too late')
  assert.equal(ended.code, 75)
  assert.match(ended.err, /commands\.command\.moved/)
})
