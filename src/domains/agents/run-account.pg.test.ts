/** The account of a run: whose limit it is carved out of, what a run costs, and what comes back at its end. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import { amountOf, openAccount, readAccount, reserveCost } from '#domains/budgets'
import { byPerson } from '#kernel/actor'
import { formatMoney, maxMoney } from '#kernel/money'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { assertSound, units } from '#test/budgets'
import { decider, pendingOf } from '#test/commands'
import { aModel, type FakeModel, startModel } from '#test/fake-model'
import { accepted, TRACE } from '#test/tenant'
import { defineAgent } from './agent-definition.ts'
import type { StoredAgentRun } from './agent-run.ts'
import type { AgentRuntime, AgentTurn } from './agent-runtime.ts'
import { closeRunAccount, openRunAccount } from './run-account.ts'

/** Asks a model once in each turn. */
function asking(name: string, isFinal: (turn: AgentTurn) => boolean): AgentRuntime {
  const ask = async (turn: AgentTurn) => {
    const messages = [{ role: 'user' as const, content: 'Hello.' }]
    const { text } = await turn.askModel({ model: 'small', messages, tools: [], outputTokensMax: 100 })
    return { text, calls: [], final: isFinal(turn) ? { text: text ?? '' } : null }
  }
  return { name, startAgentRun: ask, resumeAgentRun: ask, cancelAgentRun: () => Promise.resolve() }
}
const answersOf = ({ messages }: AgentTurn) =>
  messages.filter((message) => message.role === 'assistant' && message.text !== null).length
const twice = asking('twice', (turn) => answersOf(turn) === 1)
const untilLast = asking('until_last', ({ isLast }) => isLast)
const agent = (name: string, max_cost_units: number | null, runtime = 'twice') =>
  defineAgent(name, {
    input: z.object({}),
    goal: 'Greet.',
    role: 'worker',
    tools: [],
    connectors: ['small'],
    runtime: { name: runtime },
    model: { model: 'small' },
    limits: { max_cost_units },
  })

describe('the account of a run', () => {
  let room: AgentRoom
  let fake: FakeModel
  const agents = [
    agent('Greet', 5),
    agent('Greet Freely', null),
    agent('Greet Cheaply', 0.03),
    agent('Greet For Nothing', 0.00001),
    agent('Greet On', 0.11, 'until_last'),
  ]
  before(async () => {
    fake = await startModel()
    await fake.script({
      'fake-small': [{ text: 'Hello.', usage: { prompt_tokens: 30, completion_tokens: 10 } }],
    })
    const terms = { prices: { input: '100', output: '200' }, contextTokens: 300, outputTokensMax: 100 }
    const model = aModel(fake.url, terms)
    room = await openAgentRoom(agents, [], [twice, untilLast], [model])
  })
  after(async () => {
    await room.close()
    await fake.close()
  })
  const look = async (id: string) => accepted(await readAccount(room.db, room.tenant.workspace.id, id))
  const six = (text: string) => formatMoney(amountOf(text))

  test('[OPS-05] the cost of each step is on record, adds up on the run and in its account, and the account closes with the run', async () => {
    const run = await room.runOf(await room.start('Greet'))
    assert.deepEqual([run.status, run.budget_account_id], ['succeeded', run.agent_run_id])
    const steps = await room.rows<{ cost_units: string; tokens: number }>(
      `select cost_units, (token_usage->>'inputTokens')::int as tokens from concord.domain_events
        where agent_run_id = $1 and purpose = 'agent_step' order by step_index`,
      [run.agent_run_id],
    )
    assert.deepEqual(
      steps.map(({ cost_units, tokens }) => [six(cost_units), tokens]),
      [
        ['0.005000', 30],
        ['0.005000', 30],
      ],
    )
    const account = await look(run.agent_run_id)
    assert.deepEqual(
      [six(run.cost_units), six(account.limit_units), six(account.spent_units), six(account.reserved_units)],
      ['0.010000', '5.000000', '0.010000', '0.000000'],
    )
    assert.ok(account.closed_at)
  })

  /** The question for a higher budget that the run waits for. */
  const questionOf = async ({ agent_run_id }: StoredAgentRun) => {
    const [asked] = await room.rows<{ command_id: string; payload: { amount_units: string } }>(
      `select command_id, payload from concord.commands where agent_run_id = $1 and task_name = 'raise_budget' order by command_id desc limit 1`,
      [agent_run_id],
    )
    assert.ok(asked)
    return asked
  }
  const decide = async (commandId: string, decision: 'approved' | 'rejected') => {
    const approvalId = await pendingOf(room, commandId)
    const say = { workspaceId: room.tenant.workspace.id, approvalId, decision, reason: 'as agreed' }
    accepted(await decideApproval(room.approvals, byPerson(decider(room), TRACE), say))
    await room.rest()
  }

  test('[OPS-05] at the cap no call is made and an operator is asked; a yes raises the limit, and the run goes on', async () => {
    const { length } = await fake.requests()
    const commandId = await room.start('Greet Cheaply')
    const waiting = await room.runOf(commandId)
    assert.deepEqual([waiting.status, six(waiting.cost_units)], ['waiting_for_approval', '0.000000'])
    assert.equal((await fake.requests()).length, length)
    const asked = await questionOf(waiting)
    assert.equal(asked.payload.amount_units, '0.030000')
    await decide(asked.command_id, 'approved')
    const run = await room.runOf(commandId)
    assert.deepEqual([run.status, run.end_reason], ['succeeded', 'final_answer_created'])
    const account = await look(run.agent_run_id)
    assert.deepEqual([six(account.limit_units), six(account.spent_units)], ['0.060000', '0.010000'])
  })

  test('[OPS-05] the amount that a run asks for is enough for its next call', async () => {
    const commandId = await room.start('Greet For Nothing')
    const waiting = await room.runOf(commandId)
    const asked = await questionOf(waiting)
    assert.equal(asked.payload.amount_units, '0.033090', 'what a call can cost, without the free rest')
    await decide(asked.command_id, 'approved')
    const { cost_units, status } = await room.runOf(commandId)
    assert.deepEqual([six(cost_units), status], ['0.005000', 'waiting_for_approval'], 'one call was made')
    const ids = (await room.messagesOf(waiting)).flatMap(({ content }) => {
      const { calls = [] } = content as { calls?: readonly { id: string }[] }
      return calls.map(({ id }) => id)
    })
    assert.deepEqual(ids, ['call_0_0', 'call_2_0'], 'each question has an id of its own')
  })

  test('[OPS-05] after a no the run has one last turn, paid for from the start, and hands back what it has', async () => {
    const commandId = await room.start('Greet On')
    const waiting = await room.runOf(commandId)
    assert.equal(waiting.status, 'waiting_for_approval')
    const before = await look(waiting.agent_run_id)
    assert.equal(six(before.reserved_units), '0.050000', 'the last turn')
    const { length } = await fake.requests()
    await decide((await questionOf(waiting)).command_id, 'rejected')
    const run = await room.runOf(commandId)
    assert.deepEqual([run.status, run.end_reason], ['succeeded', 'budget_exhausted'])
    assert.equal((await fake.requests()).length, length + 1)
    const account = await look(run.agent_run_id)
    assert.deepEqual([six(account.reserved_units), six(account.limit_units)], ['0.000000', '0.110000'])
    assert.equal(six(account.spent_units), six(run.cost_units))
    assert.equal(await room.statusOf(commandId), 'succeeded')
  })

  test('[OPS-05] a run of a command that may cost no more asks nobody: it has its last turn and hands back what it has', async () => {
    const commandId = await room.submit({}, { taskName: 'Greet On' })
    await room.db.query(
      `update concord.commands set context = jsonb_set(context, '{metadata}', coalesce(context->'metadata', '{}') || '{"max_cost": "0.11"}') where command_id = $1`,
      [commandId],
    )
    await room.settle(commandId)
    await room.rest()
    const run = await room.runOf(commandId)
    assert.deepEqual([run.status, run.end_reason], ['succeeded', 'budget_exhausted'])
    const asked = await room.rows(`select 1 from concord.commands where agent_run_id = $1`, [run.agent_run_id])
    assert.equal(asked.length, 0)
    const account = await look(run.agent_run_id)
    assert.deepEqual([six(account.limit_units), six(account.excess_units)], ['0.110000', '0.000000'])
  })

  test('a run without a limit has an account too', async () => {
    const run = await room.runOf(await room.start('Greet Freely'))
    const account = await look(run.agent_run_id)
    assert.deepEqual([amountOf(account.limit_units), six(account.spent_units)], [maxMoney, '0.010000'])
  })

  test('the account of a child is carved out of that of its parent, and a child without a limit shares it', async () => {
    const workspaceId = room.tenant.workspace.id
    const commandId = await room.submit({ subject: 's', steps: [] })
    const open = (maxCostUnits: number | null, parentId: string | null = null) =>
      room.db.transaction((tx) =>
        openRunAccount(tx, {
          runId: randomUUID(),
          workspaceId,
          commandId,
          parentId,
          maxCostUnits,
          at: room.world.now(),
        }),
      )
    const parent = accepted(await open(5))
    const child = accepted(await open(4, parent))
    assert.deepEqual([child === parent, accepted(await open(null, parent)) === parent], [false, true])
    const { carved_units, limit_units } = await look(parent)
    assert.deepEqual([six(carved_units), six(limit_units)], ['4.000000', '5.000000'])
    const refused = await open(5, parent)
    assert.ok(!refused.ok)
    assert.equal(refused.reason, '5.000000 units are needed and 1.000000 are left.')
  })

  test('a run that ends settles what it still holds on a shared account, and nothing of its neighbours', async () => {
    const workspaceId = room.tenant.workspace.id
    const at = room.world.now()
    const parent = await room.runOf(await room.start('Greet'))
    const accountId = randomUUID()
    const account = { accountId, workspaceId, commandId: parent.command_id, parentId: null, limit: units('5'), at }
    accepted(await openAccount(room.db, account))
    const child = { ...parent, agent_run_id: randomUUID(), budget_account_id: accountId }
    const hold = (key: string) => reserveCost(room.db, { workspaceId, accountId, key, amount: units('1'), at })
    for (const key of [
      `model:${child.agent_run_id}:0:0:1`,
      `model:${child.agent_run_id}:0:1:1`,
      `model:${parent.agent_run_id}:0:0:1`,
    ])
      accepted(await hold(key))
    for (const _ of [1, 2]) {
      await room.db.transaction((tx) => closeRunAccount(tx, child, TRACE, at))
      const { reserved_units, spent_units, closed_at } = await look(accountId)
      assert.deepEqual([six(reserved_units), six(spent_units), closed_at], ['1.000000', '2.000000', null])
    }
    await assertSound(room.db, { workspaceId, commandId: parent.command_id })
  })
})
