/** What a command says about the run that it waits for: who is asked about a call, the stop that it waits for, and how it ended. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { final, scripted, toolsForRuns } from '#test/agent-project'
import { call, openTestApi, type TestApi } from '#test/api'
import type { Api } from './api.ts'

type Shown = {
  status: string
  waiting_reason: string | null
  next: { action: string; by: string[]; what: string }[]
}

describe('a command that waits for a run', () => {
  let api: TestApi
  let room: AgentRoom
  let app: Api
  before(async () => {
    api = await openTestApi()
    const agents = [
      scripted('Asks', [{ calls: [{ tool: 'ask_owner', payload: { note: 'a' } }] }, final]),
      scripted('Ends', [final]),
    ]
    room = await openAgentRoom(agents, toolsForRuns({ paid: [], looked: 0 }), [], [], {
      clock: api.world,
      tenant: api.ours,
    })
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [], agents: room.agents } })
  })
  after(async () => {
    await room.close()
    await api.close()
  })
  const get = async <Body>(path: string) => {
    const answer = await call(app, path, { key: api.ours.people.writer.key, headers: { 'x-workspace': 'main' } })
    assert.equal(answer.status, 200)
    return (await answer.json()) as Body
  }
  const read = (id: string) => get<Shown>(`/commands/${encodeId('command', id)}`)
  const why = async (id: string) =>
    JSON.stringify(await get<object>(`/commands/${encodeId('command', id)}/explanation`))

  test('names the call, its command, its approval and who is asked', async () => {
    const id = await room.start('Asks')
    const [asked] = await room.rows<{ approval_id: string; command_id: string }>(
      `select a.approval_id, a.command_id from concord.approvals as a join concord.commands as c using (command_id) where c.task_name = 'ask_owner'`,
    )
    const [approval, child] = [
      encodeId('approval', asked?.approval_id ?? ''),
      encodeId('command', asked?.command_id ?? ''),
    ]
    const shown = await read(id)
    assert.equal(shown.status, 'blocked')
    assert.equal(shown.waiting_reason, `an answer to its agent's call of ask_owner (${child}) by role:owner`)
    assert.deepEqual(shown.next[0], {
      action: 'decide_approval',
      by: ['role:owner'],
      what: `Answer ${approval} about ask_owner (${child}), which its agent called.`,
    })
    assert.doesNotMatch(JSON.stringify(shown), /requester may no longer|without its requester/)
    const run = encodeId('agent_run', (await room.runOf(id)).agent_run_id)
    assert.ok(
      (await why(asked?.command_id ?? '')).includes(`The agent Asks (${run}) of `),
      'the agent asked, not the person',
    )
    const [packet] = await room.rows<{ text: string }>(
      'select to_jsonb(a)::text as text from concord.approvals as a where a.approval_id = $1',
      [asked?.approval_id],
    )
    assert.ok(packet?.text.includes(`Proposed by the agent Asks (${run})`), packet?.text)
    const told = await why(id)
    for (const part of [approval, child, 'role:owner is asked', 'a call of its agent waits for a person'])
      assert.ok(told.includes(part), `${part}: ${told}`)
  })

  test('after the end, the explanation says how the run ended and where its steps are', async () => {
    const id = await room.start('Ends')
    const run = encodeId('agent_run', (await room.runOf(id)).agent_run_id)
    assert.ok(
      (await why(id)).includes(
        `The run ${run} of Ends made 1 step and ended: final answer created (\`concord agents steps ${run}\``,
      ),
    )
  })

  test('under a stop of its agent, the command and its explanation name the stop', async () => {
    const { command_id, workspace_id } = await room.runOf(await room.start('Ends'))
    const [stop, { principal }] = [room.world.newId(), api.ours.people.admin]
    await room.rows(
      `insert into concord.stops (stop_id, workspace_id, command_id, scope, target, ends_runs, reason, stopped_by, created_at)
values ($1, $2, $3, 'agent', 'Ends', false, 'It loops.', $4, now())`,
      [stop, workspace_id, command_id, `user:${principal.userId}`],
    )
    const id = await room.start('Ends')
    const shown = await read(id)
    const named = `the stop ${encodeId('stop', stop)} of its agent (It loops)`
    assert.deepEqual([shown.status, shown.waiting_reason], ['running', `the lift of ${named}`])
    const { action, what } = shown.next[0] ?? {}
    assert.deepEqual([action, what], ['lift_stop', `It waits until an administrator lifts ${named}.`])
    assert.ok((await why(id)).includes(`It waits for the lift of ${named}`))
  })
})
