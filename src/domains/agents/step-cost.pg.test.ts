/** What a step of a run costs the database. The counts depend neither on the machine nor on its load. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { allow, defineCommand, defineEffect } from '#domains/commands'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { final, look, scripted, toolsForRuns } from '#test/agent-project'
import { nextFence } from '#test/commands'
import { countRoundTrips, countStatements } from '#test/round-trips'
import type { AgentRuntime } from './agent-runtime.ts'
import { openRunDrive } from './drive-run.ts'

const looks = (count: number) => [...Array.from({ length: count }, (_, n) => ({ calls: [look(n)] })), final]
const agents = [
  scripted('Looks Twice', looks(2)),
  scripted('Looks Often', looks(7)),
  scripted('Slow', [final], { runtime: 'slow' }),
  scripted('Loses Its Turn', [{ calls: [{ tool: 'interrupt', payload: {} }] }, final], { tools: ['interrupt'] }),
]

describe('the cost of a step', () => {
  let room: AgentRoom
  let answers = 0
  const answer: AgentRuntime['startAgentRun'] = async () => {
    answers += 1
    room.clock.travel(6_000)
    return { text: 'Let me think.', calls: [], final: answers < 5 ? null : {} }
  }
  const slow: AgentRuntime = {
    name: 'slow',
    startAgentRun: answer,
    resumeAgentRun: answer,
    cancelAgentRun: async () => {},
  }
  let onInterrupt = async (): Promise<unknown> => undefined
  const interrupting = defineEffect('work.interrupt', {
    input: z.object({}),
    class: 'read',
    bounded: true,
    async do(): Promise<Record<string, never>> {
      await onInterrupt()
      return {}
    },
  })
  const { definitions } = defineCommand('interrupt', {
    input: z.object({}),
    policy: allow,
    steps: () => [interrupting({})],
  })
  before(async () => {
    room = await openAgentRoom(agents, [...toolsForRuns({ paid: [], looked: 0 }), ...definitions], [slow])
    await room.start('Looks Often')
  })
  after(() => room.close())

  const perStep = async (count: (work: () => Promise<unknown>) => Promise<number>) =>
    ((await count(() => room.start('Looks Often'))) - (await count(() => room.start('Looks Twice')))) / 5

  test('a step with a call that only reads takes three statements, in three round trips', async () => {
    assert.equal(await perStep((work) => countStatements(room.db, work)), 3)
    assert.equal(await perStep((work) => countRoundTrips(room.db, work)), 3)
  })

  test('[AGT-17] the answer is one commit; the command of a call that only reads, its step and its observation are the next', async () => {
    const run = await room.runOf(await room.start('Looks Twice'))
    const [answered, called, observed, stepped] = await Promise.all(
      [
        `select xmin::text from concord.agent_messages where agent_run_id = $1 and message_role = 'assistant' and turn < 2 order by position`,
        `select xmin::text from concord.commands where agent_run_id = $1 order by idempotency_key`,
        `select xmin::text from concord.agent_messages where agent_run_id = $1 and message_role = 'tool' order by position`,
        `select xmin::text from concord.journal where agent_run_id = $1 and step_index < 2 order by step_index`,
      ].map(async (sql) => (await room.rows<{ xmin: string }>(sql, [run.agent_run_id])).map(({ xmin }) => xmin)),
    )
    assert.equal(called?.length, 2)
    assert.deepEqual([observed, stepped], [called, called])
    assert.equal(new Set([...(answered ?? []), ...(called ?? [])]).size, 4)
  })

  test('[AGT-17] a turn that has lost the run during a call writes no step and no observation; the next turn records the same command', async () => {
    const id = await room.submit({}, { taskName: 'Loses Its Turn' })
    await room.settle(id)
    const { agent_run_id } = await room.runOf(id)
    const drive = openRunDrive(room.agents)
    const giveTurn = (token: string | null) =>
      room.db.query(`update concord.agent_runs set turn_token = $2 where agent_run_id = $1`, [agent_run_id, token])
    const counts = async () => {
      const [row] = await room.rows<{ steps: number; events: number; observed: number; commands: number }>(
        `select r.step_count::integer as steps,
  (select count(*)::integer from concord.journal as j where j.agent_run_id = $1 and j.step_index is not null) as events,
  (select count(*)::integer from concord.agent_messages as m where m.agent_run_id = $1 and m.message_role = 'tool') as observed,
  (select count(*)::integer from concord.commands as c where c.agent_run_id = $1) as commands
from concord.agent_runs as r where r.agent_run_id = $1`,
        [agent_run_id],
      )
      return row
    }
    onInterrupt = () => giveTurn(nextFence().token)
    await drive(agent_run_id, nextFence())
    assert.deepEqual(await counts(), { steps: 0, events: 0, observed: 0, commands: 1 })
    onInterrupt = async () => assert.fail('The call was made again.')
    await drive(agent_run_id, nextFence())
    assert.deepEqual(await counts(), { steps: 2, events: 2, observed: 1, commands: 1 })
  })

  test('a turn asks for a further answer only within its first ten seconds', async () => {
    const id = await room.submit({}, { taskName: 'Slow' })
    await room.settle(id)
    const run = await room.runOf(id)
    const drive = openRunDrive(room.agents)
    const asked: number[] = []
    for (let next = 'again'; next === 'again'; asked.push(answers))
      next = (await drive(run.agent_run_id, nextFence())).t
    assert.deepEqual(asked, [2, 4, 5])
  })
})
