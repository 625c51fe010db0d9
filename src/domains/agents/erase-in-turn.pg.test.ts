/** An erasure while a turn is under way: what the turn has in memory does not reach the agent, and does not come back into the record. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { amountOf, readAccount } from '#domains/budgets'
import { allow, defineCommand, defineEffect } from '#domains/commands'
import { bySystem } from '#kernel/actor'
import { formatMoney } from '#kernel/money'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { aModel, type FakeModel, startModel } from '#test/fake-model'
import { accepted, TRACE } from '#test/tenant'
import { defineAgent } from './agent-definition.ts'
import { forgetMessages } from './forget-runs.ts'
import type { AgentAnswer, AgentObservation, AgentRuntime, AgentTurn } from './agent-runtime.ts'

const ID = 'cust-44'
const recall = (note: string): AgentAnswer => ({
  text: note,
  calls: [{ id: 'c', actionType: 'tool_call', toolName: 'recall', payload: { note }, reason: 'It is the work.' }],
  final: null,
})
const done: AgentAnswer = { text: null, calls: [], final: { text: 'done' } }

describe('an erasure during a turn', () => {
  let room: AgentRoom
  let fake: FakeModel
  let answers: ((turn: AgentTurn) => Promise<AgentAnswer>)[] = []
  /** What the agent was given for each answer. */
  let seen: string[] = []
  const give = async (turn: AgentTurn, observed: readonly AgentObservation[] = []) => {
    seen.push(JSON.stringify([turn.messages, observed]))
    return (await answers[seen.length - 1]?.(turn)) ?? done
  }
  const runtime: AgentRuntime = {
    name: 'planned',
    startAgentRun: give,
    resumeAgentRun: give,
    cancelAgentRun: async () => {},
  }
  let onRecall = async (): Promise<void> => {}
  const recalling = defineEffect('work.recall', {
    input: z.object({ note: z.string() }),
    class: 'read',
    bounded: true,
    async do({ input: { note } }) {
      await onRecall()
      return { found: note.length }
    },
  })
  const { definitions } = defineCommand('recall', {
    input: z.object({ note: z.string() }),
    policy: allow,
    steps: (input) => [recalling(input)],
  })
  const agent = defineAgent('Recalls', {
    input: z.object({}),
    goal: 'Recall.',
    role: 'worker',
    tools: ['recall'],
    connectors: ['small'],
    model: { model: 'small' },
    runtime: { name: 'planned' },
    limits: { max_cost_units: 5 },
  })
  before(async () => {
    fake = await startModel()
    await fake.script({ 'fake-small': [{ text: 'Hello.', usage: { prompt_tokens: 30, completion_tokens: 10 } }] })
    const terms = { prices: { input: '100', output: '200' }, contextTokens: 300, outputTokensMax: 100 }
    room = await openAgentRoom([agent], [...definitions], [runtime], [aModel(fake.url, terms)])
  })
  after(async () => {
    await room.close()
    await fake.close()
  })

  const erase = async () => {
    const subject = { subject_type: 'customer', subject_id: ID }
    const workspaceId = room.tenant.workspace.id
    const lineage = { workspaceId, subject, subjects: [subject], memoryIds: [], commandIds: [] }
    const erasing = { erasureId: room.clock.newId(), actor: bySystem(TRACE), at: room.clock.now() }
    accepted(await room.db.transaction((tx) => forgetMessages.erase(tx, lineage, erasing)))
  }
  const runWith = async (...given: readonly (AgentAnswer | ((turn: AgentTurn) => Promise<AgentAnswer>))[]) => {
    answers = given.map((each) => (typeof each === 'function' ? each : async () => each))
    seen = []
    const run = await room.runOf(await room.start('Recalls'))
    return { run, said: JSON.stringify(await room.messagesOf(run)) }
  }
  const hello = { messages: [{ role: 'user' as const, content: 'Hello.' }], tools: [], outputTokensMax: 100 }

  test('an answer that began before the erasure is paid for and discarded, and no later request has the text', async () => {
    const { run, said } = await runWith(recall(ID), recall('nothing'), async ({ askModel }) => {
      await askModel({ model: 'small', ...hello })
      await erase()
      return recall(`${ID} again`)
    })
    assert.deepEqual(
      seen.map((text) => text.includes(ID)),
      [false, true, true, false],
    )
    assert.ok(!said.includes(ID))
    assert.deepEqual([run.status, run.step_count, run.erasures], ['succeeded', 3, 1])
    const { spent_units } = accepted(await readAccount(room.db, run.workspace_id, run.agent_run_id))
    assert.equal(formatMoney(amountOf(spent_units)), '0.005000')
  })

  test('a free answer that began before the erasure is discarded too', async () => {
    const { run, said } = await runWith(recall(ID), async () => {
      await erase()
      return recall(`${ID} again`)
    })
    assert.deepEqual(
      seen.map((text) => text.includes(ID)),
      [false, true, false],
    )
    assert.ok(!said.includes(ID))
    assert.equal(run.status, 'succeeded')
  })

  test('an erasure of an earlier answer during a call: the step is recorded, and the next request is without the text', async () => {
    const { run, said } = await runWith(recall(ID), async () => {
      onRecall = erase
      return recall('nothing')
    })
    onRecall = async () => {}
    assert.deepEqual(
      seen.map((text) => text.includes(ID)),
      [false, true, false],
    )
    assert.ok(!said.includes(ID))
    assert.deepEqual([run.status, run.step_count], ['succeeded', 3])
  })

  test('[AGT-17] an erasure of the open answer during its call: the run fails, and no observation of the call is written', async () => {
    onRecall = erase
    const { run, said } = await runWith(recall(ID))
    onRecall = async () => {}
    assert.deepEqual([run.status, run.end_reason, seen.length], ['failed', 'failed', 1])
    assert.equal(said, JSON.stringify([{ role: 'assistant', content: null }]))
  })
})
