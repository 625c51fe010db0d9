/** Runs of the AI SDK runtime with a model that misbehaves: every failure ends in a step, a wait or a named end. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import type { JsonObject } from '#kernel/json-value'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { aModel, type FakeModel, type ModelScripts, startModel } from '#test/fake-model'
import { agentTools } from '#test/projects/commands'
import { defineAgent } from '../agent-definition.ts'
import { RUN_KIND } from '../deps.ts'

const writer = (name: string, model: string) =>
  defineAgent(name, {
    input: z.object({ wish: z.string() }),
    goal: ({ wish }) => wish,
    role: 'worker',
    tools: ['publish_note', 'read_books'],
    connectors: ['mail'],
    model: { model, output_tokens_max: 200 },
    runtime: 'ai_sdk',
    limits: { max_steps: 8 },
  })
const agent = writer('Write Notes', 'small')
const careful = writer('Write With Care', 'fragile')

describe('runs that ask a model', () => {
  let fake: FakeModel
  let room: AgentRoom
  before(async () => {
    fake = await startModel()
    const fragile = aModel(fake.url, { name: 'fragile', breaker: { failures: 1, open_ms: 30_000 } })
    room = await openAgentRoom([agent, careful], agentTools(), [], [aModel(fake.url), fragile])
  })
  after(async () => {
    await room.close()
    await fake.close()
  })

  const note = (subject: string) => ({ name: 'publish_note', arguments: { subject } })
  async function run(answers: ModelScripts[string], wish = 'Write a note.') {
    await fake.script({ 'fake-small': answers })
    const commandId = await room.start(agent.name, { wish })
    return { commandId, run: await room.runOf(commandId) }
  }
  /** Lets the time pass for which the run waits. */
  async function goOn(commandId: string) {
    const { agent_run_id, run_after } = await room.runOf(commandId)
    assert.ok(run_after)
    room.clock.travel(run_after.getTime() - room.clock.now().getTime())
    room.others.push({ kind: RUN_KIND, id: agent_run_id })
    await room.rest()
    return room.runOf(commandId)
  }
  const outcomes = async (commandId: string) =>
    (await room.stepsOf(await room.runOf(commandId))).map(({ event_type, tool_name, payload }) =>
      [event_type, tool_name, payload['decision'] as string].join(' '),
    )
  const observations = async (commandId: string) =>
    (await room.messagesOf(await room.runOf(commandId)))
      .filter(({ role }) => role === 'tool')
      .map(({ content }) => content as JsonObject)

  test('[OQ-04] an answer is data: its calls are commands, their outcomes are in the next request, its text is the result', async () => {
    const { commandId, run: ended } = await run([
      { text: 'I write.', calls: [note('a'), note('b')] },
      { text: 'Done.' },
    ])
    assert.deepEqual([ended.status, ended.end_reason, ended.step_count], ['succeeded', 'final_answer_created', 3])
    assert.deepEqual(await outcomes(commandId), [
      'tool_call publish_note allowed',
      'tool_call publish_note allowed',
      'final_answer  allowed',
    ])
    const [first, second, ...more] = await fake.requests()
    assert.equal(more.length, 0)
    assert.deepEqual(
      second?.body.messages.map(({ role }) => role),
      ['user', 'assistant', 'tool', 'tool'],
    )
    assert.ok(first && second && first.key !== second.key)
    assert.ok(Number(ended.cost_units) > 0)
    const calls = await room.rows(`select 1 from concord.connector_invocations where command_id = $1`, [commandId])
    assert.equal(calls.length, 2)
  })

  test('[AGT-06] a last turn that still calls a tool or says nothing is no result: the run ends because of its steps', async () => {
    const calls = Array.from({ length: 7 }, (_, index) => ({ calls: [note(`last ${index}`)] }))
    for (const last of [
      { calls: [note('one more')] },
      { text: 'And now:', calls: [note('one more')] },
      { text: ' ' },
    ]) {
      const { commandId, run: ended } = await run([...calls, last])
      assert.deepEqual([ended.status, ended.end_reason, ended.step_count], ['failed', 'max_steps_reached', 8])
      assert.equal(await room.statusOf(commandId), 'failed')
      const made = `select 1 from concord.commands where agent_run_id = $1`
      assert.equal((await room.rows(made, [ended.agent_run_id])).length, 7, 'the last call was not proposed')
    }
    const { run: answered } = await run([...calls, { text: 'Seven notes.' }])
    assert.deepEqual([answered.status, answered.end_reason], ['succeeded', 'final_answer_created'])
  })

  test('429: the run waits as long as the provider asks, and then goes on', async () => {
    const { commandId, run: waiting } = await run([{ text: 'Done.', trouble: 'rate_limited' }])
    assert.equal(waiting.status, 'running')
    assert.equal((await fake.requests()).length, 1)
    const ended = await goOn(commandId)
    assert.deepEqual([ended.status, (await fake.requests()).length], ['succeeded', 2])
  })

  test('a cut connection: the call is made again, with the same key', async () => {
    const { commandId } = await run([{ text: 'Done.', trouble: 'cut', times: 2 }])
    await goOn(commandId)
    const ended = await goOn(commandId)
    assert.equal(ended.status, 'succeeded')
    const keys = (await fake.requests()).map(({ key }) => key)
    assert.deepEqual([keys.length, new Set(keys).size], [3, 1])
  })

  test('a model that stays away: the run fails after its tries, and proposed nothing', async () => {
    const { commandId, run: first } = await run([{ text: 'Done.', trouble: 'fault', times: 99 }])
    let ended = first
    while (ended.completed_at === null) ended = await goOn(commandId)
    assert.deepEqual([ended.status, ended.end_reason, ended.step_count], ['failed', 'failed', 0])
    assert.equal((await fake.requests()).length, 5)
    assert.equal(await room.statusOf(commandId), 'failed')
    // Until the circuit breaker lets calls pass again.
    room.clock.travel(60_000)
  })

  test('while the circuit breaker is open the run waits, and nobody is asked for a higher budget', async () => {
    await fake.script({ 'fake-small': [{ text: 'Done.', trouble: 'fault' }] })
    const commandId = await room.start(careful.name, { wish: 'Write a note.' })
    const refused = await goOn(commandId)
    assert.match(refused.metadata.error ?? '', /Circuit breaker open/)
    assert.deepEqual([refused.status, (await fake.requests()).length], ['running', 1])
    const ended = await goOn(commandId)
    assert.deepEqual([ended.status, (await fake.requests()).length], ['succeeded', 2])
    const asked = await room.rows(`select 1 from concord.commands where agent_run_id = $1`, [ended.agent_run_id])
    assert.equal(asked.length, 0)
  })

  test('broken arguments and unknown tools are observations: no command, and the run goes on', async () => {
    const { commandId, run: ended } = await run([
      { calls: [{ name: 'publish_note', arguments: '{"subject": ' }, { name: 'wipe_disk', arguments: {} }, note('c')] },
      { text: 'Done.' },
    ])
    assert.equal(ended.status, 'succeeded')
    assert.deepEqual(
      (await observations(commandId)).map(({ decision }) => decision),
      ['failed', 'denied', 'done'],
    )
    const commands = await room.rows(`select 1 from concord.commands where agent_run_id = $1`, [ended.agent_run_id])
    assert.equal(commands.length, 1)
  })

  test('false usage: the run counts the worst case', async () => {
    const honest = await run([{ text: 'Done.', usage: { prompt_tokens: 20, completion_tokens: 2 } }])
    const silent = await run([{ text: 'Done.', usage: 'missing' }])
    const wrong = await run([{ text: 'Done.', usage: { prompt_tokens: 0, completion_tokens: -1 } }])
    assert.equal(silent.run.cost_units, wrong.run.cost_units)
    assert.ok(Number(silent.run.cost_units) > Number(honest.run.cost_units))
  })

  test('an obedient model does whatever it reads, within its tools: everything else is an observation', async () => {
    const wish = 'CALL read_books {"subject":"x"} and CALL wipe_disk {"path":"/"} and CALL publish_note {"subject":"d"}'
    const { commandId, run: ended } = await run('obedient', wish)
    assert.equal(ended.status, 'succeeded')
    const made = await room.rows<{ task_name: string }>(
      `select task_name from concord.commands where agent_run_id = $1 order by 1`,
      [ended.agent_run_id],
    )
    assert.ok(made.every(({ task_name }) => task_name === 'Publish Note' || task_name === 'Read Books'))
    assert.ok((await observations(commandId)).some(({ decision }) => decision !== 'done'))
  })
})
