/** The process of a run dies before or after each of its writes: every call of the model is paid for, and no answer is lost. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { amountOf, readAccount } from '#domains/budgets'
import { openConnectors, openSecrets } from '#domains/connectors'
import { formatMoney } from '#kernel/money'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { assertSound, units } from '#test/budgets'
import { nextFence } from '#test/commands'
import { realSleep } from '#test/connectors'
import { aModel, type FakeModel, startModel } from '#test/fake-model'
import { ProcessDied } from '#test/fake-providers'
import { openMortal } from '#test/mortal-db'
import { accepted } from '#test/tenant'
import { defineAgent } from './agent-definition.ts'
import type { AgentRuntime, AgentTurn } from './agent-runtime.ts'
import { openRunDrive } from './drive-run.ts'
import { openModels } from './models/ask-model.ts'

const ask = async ({ askModel, messages }: AgentTurn) => {
  const said = [{ role: 'user' as const, content: 'Hello.' }]
  const { text } = await askModel({ model: 'small', messages: said, tools: [], outputTokensMax: 100 })
  return { text, calls: [], final: messages.some(({ role }) => role === 'assistant') ? { text: text ?? '' } : null }
}
const twice: AgentRuntime = {
  name: 'twice',
  startAgentRun: ask,
  resumeAgentRun: ask,
  cancelAgentRun: () => Promise.resolve(),
}
const agent = defineAgent('Greet', {
  input: z.object({}),
  goal: 'Greet.',
  role: 'worker',
  tools: [],
  connectors: ['small'],
  runtime: { name: 'twice' },
  model: { model: 'small' },
  limits: { max_cost_units: 5 },
})

describe('a run that dies', () => {
  let room: AgentRoom
  let fake: FakeModel
  const mortal = openMortal()
  let drive: ReturnType<typeof openRunDrive>
  before(async () => {
    fake = await startModel()
    await fake.script({ 'fake-small': [{ text: 'Hello.', usage: { prompt_tokens: 30, completion_tokens: 10 } }] })
    const model = aModel(fake.url, {
      prices: { input: '100', output: '200' },
      contextTokens: 300,
      outputTokensMax: 100,
    })
    room = await openAgentRoom([agent], [], [twice], [model])
    const { now, newId } = room.world
    const db = mortal.wrap(room.world.db)
    const deps = { db, now, newId, sleep: realSleep, secrets: openSecrets({}) }
    const connectors = accepted(openConnectors([model.connector], deps))
    drive = openRunDrive({
      ...room.agents,
      commands: { ...room.world, db },
      models: openModels([model], { db, now, connectors }),
    })
  })
  after(async () => {
    await room.close()
    await fake.close()
  })

  /** True if the process died on the way. */
  async function finish(runId: string, at: number): Promise<boolean> {
    let hasDied = false
    mortal.dieAt(at)
    for (let turns = 0; turns < 40; turns++) {
      try {
        const next = await drive(runId, nextFence())
        if (next.t === 'done') return hasDied
        if (next.t === 'wait' && next.until) room.clock.travel(next.until.getTime() - room.clock.now().getTime() + 1)
      } catch (error) {
        assert.ok(error instanceof ProcessDied, String(error))
        hasDied = true
        mortal.resurrect()
      }
      await room.settleWoken()
    }
    throw new Error('The run does not end.')
  }

  test('[OPS-05] wherever it dies, each call is paid for in advance, the same answers are on record, and the sums are exact', async () => {
    let deaths = 0
    for (let at = 1; ; at++) {
      const { length } = await fake.requests()
      const commandId = await room.submit({}, { taskName: 'Greet' })
      await room.settle(commandId)
      const { agent_run_id } = await room.runOf(commandId)
      const hasDied = await finish(agent_run_id, at)
      const run = await room.runOf(commandId)
      assert.deepEqual(
        [run.status, run.end_reason, run.step_count],
        ['succeeded', 'final_answer_created', 2],
        `at ${at}`,
      )
      assert.equal(formatMoney(amountOf(run.cost_units)), '0.010000')
      const account = accepted(await readAccount(room.db, run.workspace_id, agent_run_id))
      const calls = (await fake.requests()).length - length
      assert.ok(account.closed_at && Number(account.reserved_units) === 0)
      assert.ok(
        amountOf(account.spent_units) >= BigInt(calls) * units('0.005'),
        `${calls} calls, ${account.spent_units}`,
      )
      assert.ok(calls <= 3, 'the model was asked again at most for the turn that died')
      await assertSound(room.db, { workspaceId: run.workspace_id, commandId })
      if (!hasDied) break
      deaths += 1
    }
    assert.ok(deaths >= 20, `${deaths} deaths`)
  })
})
