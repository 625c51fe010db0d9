/** What a step of a run costs the database. The counts depend neither on the machine nor on its load. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
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
  before(async () => {
    room = await openAgentRoom(agents, toolsForRuns({ paid: [], looked: 0 }), [slow])
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
