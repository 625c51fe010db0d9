/** Stuck work waits for an operator, who lists, aborts and resumes it. */
import assert from 'node:assert/strict'
import { userInfo } from 'node:os'
import { test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { openDrive } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { decider, nextFence, pendingOf } from '#test/commands'
import { openOperatedRoom } from '#test/operated-room'
import { accepted, TRACE } from '#test/tenant'
import { byPerson } from '#kernel/actor'

type Listed = { readonly items: readonly { readonly id: string; readonly why: string; readonly detail: string }[] }

test('concord stuck lists the work that waits for a person, doctor counts it, and resume continues it', async (t) => {
  const { owner, concord } = await openOperatedRoom(t)
  const list = async () => JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(await list(), { items: [] })

  const commandId = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405166'
  for (const [kind, id] of [
    ['command', commandId],
    ['schedule', 'nightly'],
  ]) {
    await owner.query('select runtime.abort($1, $2, $3)', [kind, id, 'a test'])
  }
  const { items } = await list()
  assert.deepEqual(Object.fromEntries(items.map(({ id, why }) => [id, why])), {
    [`cmd_${commandId.replaceAll('-', '')}`]: 'aborted',
    nightly: 'aborted',
  })
  const doctor = await concord('--json', 'doctor')
  assert.match(
    doctor.out,
    /"check":"work","status":"broken","found":"2 stuck","next":"`concord stuck` lists it with the reasons."/,
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
  // The id of the row works as well, and the output names the resumed command.
  assert.match(
    (await concord('stuck', 'resume', commandId)).out,
    /cmd_0197f3b2c4d57a8e9b0c1d2e3f405166 +command +aborted/,
  )
  await owner.query('select runtime.abort($1, $2, $3)', ['command', commandId, 'a test'])
  assert.equal((await concord('stuck', 'resume', '--all')).code, 0)
  assert.match((await concord('stuck')).err, /Nothing is stuck\./)
})

test('concord stuck shows missions and runs by their public ids, and a resume of a mission is in its log', async (t) => {
  const { owner, concord, room } = await openOperatedRoom(t)
  assert.deepEqual(JSON.parse((await concord('--json', 'stuck')).out), { items: [] })
  const missionId = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405177'
  const commandId = await room.submit({ subject: 's', decide: 'require_approval' })
  await room.rows(
    `insert into missions.orchestration_runs (id, workspace_id, title, goal, created_by, command_id) values ($1, $2, 'x', 'x', 'user:ada', $3)`,
    [missionId, room.tenant.workspace.id, commandId],
  )
  const others = { agent_run: 'agent', swarm_run: 'swarm' }
  for (const kind of ['mission', ...Object.keys(others)])
    await owner.query('select runtime.abort($1, $2, $3)', [kind, missionId, 'a test'])
  const shown = missionId.replaceAll('-', '')
  const { items } = JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(
    items.map(({ id }) => id).toSorted(),
    ['agent', 'mission', 'swarm'].map((prefix) => `${prefix}_${shown}`),
  )
  assert.match((await concord('stuck', 'resume', `mission_${shown}`)).out, /mission_\w+ +mission +aborted/)
  const told = await room.rows<{ payload: { action_taken: string; entity_id: string }; actor_id: string }>(
    `select payload, actor_id from missions.orchestration_events where run_id = $1 and event_type = 'stall_detected'`,
    [missionId],
  )
  assert.deepEqual(
    told.map(({ payload, actor_id }) => [
      payload.entity_id,
      payload.action_taken.startsWith('resumed (aborted)'),
      actor_id,
    ]),
    [[`mission_${shown}`, true, `operator:${userInfo().username}`]],
  )
})

test('[D3] doctor names an approval that too few people can decide, and what to do', async (t) => {
  const { room, concord } = await openOperatedRoom(t)
  // The first call creates the tables of the runtime.
  assert.deepEqual(JSON.parse((await concord('--json', 'stuck')).out), { items: [] })
  const found = async () => {
    const { findings } = JSON.parse((await concord('--json', 'doctor')).out) as {
      findings: { check: string; status: string; found: string; next?: string }[]
    }
    return findings.find(({ check }) => check === 'approvals')
  }
  assert.equal((await found())?.status, 'well')
  await room.settle(await room.submit({ subject: 's', decide: 'require_approval' }))
  const { status, found: text, next } = (await found()) ?? {}
  assert.equal(status, 'note')
  assert.match(
    text ?? '',
    /^1 cannot be decided, such as appr_[0-9a-f]{32}: Nobody who may decide here has the role owner\.$/,
  )
  assert.match(next ?? '', /concord people grant <name> owner/)
})

test('an approved command whose task left the catalog is listed by stuck and counted by doctor, and resume retries it', async (t) => {
  const { room, owner, concord } = await openOperatedRoom(t)
  // The first call creates the tables of the runtime.
  assert.deepEqual(JSON.parse((await concord('--json', 'stuck')).out), { items: [] })

  const commandId = await room.submit({ subject: 's', decide: 'require_approval' })
  await room.settle(commandId)
  const approvalId = await pendingOf(room, commandId)
  const answer = { workspaceId: room.tenant.workspace.id, approvalId, decision: 'approved', traceId: TRACE }
  accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), answer))
  const catalog = { ...room.catalog, tasks: new Map(), taskOfType: new Map() }
  await openDrive({ ...room.world, catalog })(commandId, nextFence())

  const id = encodeId('command', commandId)
  const { items } = JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(
    items.map((item) => [item.id, item.why]),
    [[id, 'task_gone']],
  )
  assert.match(items[0]?.detail ?? '', /its task .?Work.? is not in the catalog/)
  assert.match((await concord('--json', 'doctor', '--deep')).out, /"check":"work","status":"broken","found":"1 stuck"/)
  // A command that an operator aborts as well is listed once and resumed once.
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
  // The role of the engine may not read the tables of the runtime.
  const line = 'select state from runtime.processes where kind = $1 and id = $2'
  const found = await owner.query(line, ['command', commandId])
  assert.deepEqual(found, [{ state: 'queued' }])
})

test('an abort stops the turns of a command; it is recorded with the login of its operator, as is the resume', async (t) => {
  const { room, owner, concordWith } = await openOperatedRoom(t)
  const concord = (...args: string[]) => concordWith({ CONCORD_ENVIRONMENT: 'staging' }, ...args)
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
  const lines = await owner.query('select queue from runtime.processes where id = $1', [commandId])
  // A worker takes only queues that carry the name of its environment.
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
  // An approval has its own turns, and its own record of their resume.
  const gated = await room.submit({ subject: 's', decide: 'require_approval' })
  await room.settle(gated)
  const approvalId = await pendingOf(room, gated)
  await owner.query('select runtime.abort($1, $2, $3)', ['approval', approvalId, 'a test'])
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
