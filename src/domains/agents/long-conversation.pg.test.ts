/** A conversation that would fill the memory of its worker ends the run, and is not read whole. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { defineAgent } from './agent-definition.ts'
import { CONVERSATION_BYTES_MAX, isTooLong, readConversation } from './agent-message.ts'
import type { AgentRuntime } from './agent-runtime.ts'

describe('a long conversation', () => {
  let room: AgentRoom
  let asked = 0
  const words = 'x'.repeat(1_000_000)
  const say = async () => {
    asked += 1
    return { text: words, calls: [], final: null }
  }
  const runtime: AgentRuntime = {
    name: 'talker',
    startAgentRun: say,
    resumeAgentRun: say,
    cancelAgentRun: async () => {},
  }
  const agent = defineAgent('Talks', {
    input: z.object({}),
    goal: 'Talk.',
    role: 'worker',
    tools: [],
    runtime: { name: 'talker' },
    limits: { max_steps: 40 },
  })
  before(async () => {
    room = await openAgentRoom([agent], [], [runtime])
  })
  after(() => room.close())

  test('[AGT-06] a run whose conversation passes the limit fails and says why; what is beyond is not read', async () => {
    const run = await room.runOf(await room.start('Talks'))
    assert.deepEqual([run.status, run.end_reason, asked], ['failed', 'failed', 17])
    assert.match(run.metadata.error ?? '', /more than 16777216 bytes/)
    const more = `insert into concord.agent_messages (agent_message_id, workspace_id, agent_run_id, position, turn, message_role, message_type, content, digest, size_bytes)
      select gen_random_uuid(), workspace_id, agent_run_id, position + 100, turn, message_role, message_type, content, digest, size_bytes
        from concord.agent_messages where agent_run_id = $1`
    await room.db.query(more, [run.agent_run_id])
    const read = await readConversation(room.db, run.agent_run_id)
    const bytes = read.reduce((sum, { size_bytes }) => sum + size_bytes, 0)
    assert.ok(isTooLong(read))
    assert.ok(bytes < CONVERSATION_BYTES_MAX + 1_100_000, `${bytes} bytes`)
    await room.db.query(
      `update concord.agent_messages set content = '', erased_at = now() where agent_run_id = $1 and position >= 100`,
      [run.agent_run_id],
    )
    await room.db.query(
      `update concord.agent_messages set content = '', erased_at = now() where agent_run_id = $1 and position = 0`,
      [run.agent_run_id],
    )
    assert.equal(isTooLong(await readConversation(room.db, run.agent_run_id)), false, 'what was erased does not count')
  })
})
