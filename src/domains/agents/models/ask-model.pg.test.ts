/** A model call within a budget: the worst case is reserved before it, whatever comes back is settled, and a cap is a cap. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { openAccount, readAccount, reserveCost } from '#domains/budgets'
import { priceUsage, priceWorstCase } from '#kernel/agents/price'
import { formatMoney } from '#kernel/money'
import { openGateOn, type TestGate } from '#test/connectors'
import { openTestDb, type TestDb } from '#test/database'
import { units } from '#test/budgets'
import { aModel, type FakeModel, type ModelScripts, startModel } from '#test/fake-model'
import { accepted, TRACE } from '#test/tenant'
import type { ModelRequest } from '../agent-runtime.ts'
import { type Models, openModels } from './ask-model.ts'
import { worstOf } from './call-model.ts'
import type { ModelDefinition } from './model-connector.ts'

const request = {
  model: 'small',
  messages: [{ role: 'user' as const, content: 'Hello.' }],
  tools: [],
  outputTokensMax: 100,
}

describe('a model call within a budget', () => {
  let fake: FakeModel
  let opened: TestDb
  let gate: TestGate
  let models: Models
  let model: ModelDefinition
  let asking: (turn: number, asked: ModelRequest) => Parameters<Models['ask']>[0]
  const ask = (turn = 0, asked: ModelRequest = request) => models.ask(asking(turn, asked))
  let worst: string
  const workspaceId = () => gate.world.workspace

  before(async () => {
    fake = await startModel()
    opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
  })
  after(async () => {
    await opened.close()
    await fake.close()
  })
  beforeEach(async () => {
    model = aModel(fake.url, { prices: { input: '100', output: '200' } })
    gate = await openGateOn(opened.db, [model.connector])
    models = openModels([model], { db: opened.db, now: () => new Date(), connectors: gate.connectors })
    worst = formatMoney(priceWorstCase(model.terms.prices, worstOf(model.terms, request)))
    await open('1')
  })

  async function open(limit: string): Promise<void> {
    const { workspace, command, agent } = gate.world
    const at = new Date()
    const traced = `update concord.commands set context = jsonb_build_object('trace_id', $2::text) where command_id = $1`
    await opened.db.query(traced, [command, TRACE])
    const account = { workspaceId: workspace, accountId: agent, commandId: command, parentId: null }
    accepted(await openAccount(opened.db, { ...account, limit: units(limit), at }))
    const run = { agent_run_id: agent, workspace_id: workspace, command_id: command, budget_account_id: agent }
    asking = (turn, asked) => ({ run, turn, call: 0, request: asked, signal: new AbortController().signal })
  }
  const script = (...answers: Exclude<ModelScripts[string], 'obedient'>) => fake.script({ 'fake-small': answers })
  const balances = async () => {
    const account = accepted(await readAccount(opened.db, workspaceId(), gate.world.agent))
    return { reserved: six(account.reserved_units), spent: six(account.spent_units), excess: six(account.excess_units) }
  }
  const zero = '0.000000'
  const six = (text: string) => formatMoney(units(text))

  test('[OPS-05] the worst case is held during the call, and the cost is settled in the commit of the answer', async () => {
    await script({ text: 'Hello.', usage: { prompt_tokens: 30, completion_tokens: 10 } })
    const asked = await ask()
    assert.ok(asked.t === 'answered')
    const cost = formatMoney(
      priceUsage({ input: '100', output: '200' }, { inputTokens: 30, outputTokens: 10, cachedTokens: 0 }),
    )
    assert.deepEqual([asked.answer.text, asked.costUnits], ['Hello.', cost])
    assert.deepEqual(await balances(), { reserved: worst, spent: zero, excess: zero })
    // A commit that fails settles nothing.
    const failing = opened.db.transaction(async (tx) => {
      await asked.settle(tx)
      throw new Error('The answer was not stored.')
    })
    await assert.rejects(failing, /was not stored/)
    assert.deepEqual(await balances(), { reserved: worst, spent: zero, excess: zero })
    await opened.db.transaction((tx) => asked.settle(tx))
    assert.deepEqual(await balances(), { reserved: zero, spent: cost, excess: zero })
  })

  test('ids of calls have the number of the turn, however many answers of the conversation are left', async () => {
    await script({
      calls: [
        { name: 'look', arguments: {} },
        { name: 'look', arguments: {} },
      ],
    })
    const ids = async (turn: number) => {
      const asked = await ask(turn)
      return asked.t === 'answered' ? asked.answer.calls.map(({ id }) => id) : []
    }
    assert.deepEqual(await ids(0), ['call_0_0', 'call_0_1'])
    assert.deepEqual(await ids(3), ['call_3_0', 'call_3_1'])
  })

  test('[OPS-05] without enough left the model is not asked', async () => {
    await script({ text: 'Hello.' })
    let turn = 0
    // Each answer that is not settled holds its worst case.
    while ((await ask(turn)).t === 'answered') turn += 1
    const { length } = await fake.requests()
    assert.ok(turn > 0)
    assert.equal(length, turn)
    const refused = await ask(turn)
    assert.ok(refused.t === 'exhausted')
    assert.match(refused.reason, /units are needed/)
    assert.equal((await fake.requests()).length, turn)
  })

  test('a refusal costs nothing, a lost answer costs its worst case', async () => {
    await script({ text: 'Hello.', trouble: 'rate_limited' })
    const limited = await ask()
    assert.ok(limited.t === 'failed')
    assert.equal(limited.error.error_class, 'rate_limited')
    assert.deepEqual(await balances(), { reserved: zero, spent: zero, excess: zero })
    await script({ text: 'Hello.', trouble: 'cut' })
    assert.equal((await ask(1)).t, 'failed')
    assert.deepEqual(await balances(), { reserved: zero, spent: worst, excess: zero })
  })

  test('after a process died during a call, its worst case is spent and the call is made again under the same key', async () => {
    await script({ text: 'Hello.' })
    // The process dies between the answer and its commit.
    assert.equal((await ask()).t, 'answered')
    assert.equal((await ask()).t, 'answered')
    assert.deepEqual(await balances(), { reserved: worst, spent: worst, excess: zero })
    const keys = (await fake.requests()).map(({ key }) => key)
    assert.deepEqual([keys.length, new Set(keys).size], [2, 1])
    assert.deepEqual(
      (await gate.invocations())
        .filter(({ command_id }) => command_id === gate.world.command)
        .map(({ attempt }) => attempt),
      [1, 2],
    )
  })

  test('after a process died during a call, a larger request is no breach: the lost call costs what was reserved for it', async () => {
    await script({ text: 'Hello.' })
    assert.equal((await ask()).t, 'answered')
    const larger = { ...request, messages: [{ role: 'user' as const, content: 'Hello, with more words than before.' }] }
    const asked = await ask(0, larger)
    assert.ok(asked.t === 'answered')
    const { spent, excess } = await balances()
    assert.deepEqual([spent, excess], [worst, zero])
    await opened.db.transaction((tx) => asked.settle(tx))
    assert.equal((await ask(1)).t, 'answered', 'the model is not in quarantine')
  })

  test('a call that the gate refuses before it begins uses up no try: the next one is made', async () => {
    await script({ text: 'Hello.' })
    const put = (status: string) =>
      opened.db.query('update concord.commands set status = $2 where command_id = $1', [gate.world.command, status])
    await put('blocked')
    for (const _ of [1, 2]) {
      const refused = await ask()
      assert.ok(refused.t === 'failed')
      assert.equal(refused.error.happened, 'no')
      assert.deepEqual(await balances(), { reserved: zero, spent: zero, excess: zero })
    }
    await put('running')
    assert.equal((await ask()).t, 'answered')
    assert.equal((await fake.requests()).length, 1)
  })

  test('a process that died before the call began uses its reservation again', async () => {
    await script({ text: 'Hello.' })
    const { workspace: workspaceId, agent: accountId } = gate.world
    const key = `model:${accountId}:0:0:1`
    accepted(await reserveCost(opened.db, { workspaceId, accountId, key, amount: units(worst), at: new Date() }))
    assert.equal((await ask()).t, 'answered')
    assert.deepEqual(await balances(), { reserved: worst, spent: zero, excess: zero })
  })

  test('[OPS-05] one reservation pays for one call: of two processes that ask for one call, the second to begin is refused and leaves the reservation alone', async () => {
    await script({ text: 'Hello.', usage: { prompt_tokens: 30, completion_tokens: 10 } })
    const release = Promise.withResolvers<void>()
    const stalled = Promise.withResolvers<void>()
    const call: TestGate['connectors']['call'] = async (asked) => {
      stalled.resolve()
      await release.promise
      return gate.connectors.call(asked)
    }
    const { ask: askLate } = openModels([model], { db: opened.db, now: () => new Date(), connectors: { call } })
    const late = askLate(asking(0, request))
    await stalled.promise
    const first = await ask()
    assert.ok(first.t === 'answered')
    release.resolve()
    const second = await late
    assert.ok(second.t === 'failed')
    assert.match(second.error.message, /Another process makes this call/)
    assert.deepEqual(await balances(), { reserved: worst, spent: zero, excess: zero })
    await opened.db.transaction((tx) => first.settle(tx))
    assert.deepEqual(await balances(), { reserved: zero, spent: first.costUnits, excess: zero })
    assert.equal((await fake.requests()).length, 1)
  })

  test('[OPS-05] of many processes that ask for one call at once, each that makes it has a try of its own', async () => {
    await script({ text: 'Hello.' })
    // Of two that reserve at the same instant the database refuses one with an error.
    const asked = await Promise.allSettled(Array.from({ length: 4 }, () => ask()))
    const attempts = (await gate.invocations())
      .filter(({ command_id }) => command_id === gate.world.command)
      .map(({ attempt }) => attempt)
    assert.equal(new Set(attempts).size, attempts.length, 'each try has one row')
    assert.equal((await fake.requests()).length, attempts.length)
    assert.ok(asked.some((each) => each.status === 'fulfilled' && each.value.t === 'answered'))
  })

  test('a model that costs more than its worst case is asked no more, and the excess is on record', async () => {
    await script({ text: 'Hello.', usage: { prompt_tokens: 9_000, completion_tokens: 10 } })
    const asked = await ask()
    assert.ok(asked.t === 'answered')
    await opened.db.transaction((tx) => asked.settle(tx))
    const { excess, spent } = await balances()
    assert.equal(spent, worst)
    assert.notEqual(excess, zero)
    const next = await ask(1)
    assert.ok(next.t === 'failed')
    assert.match(next.error.message, /is in quarantine/)
    assert.equal((await fake.requests()).length, 1)
  })

  test('an unknown model is refused, and a command that does not run asks nobody', async () => {
    await script({ text: 'Hello.' })
    const { workspace, command, agent } = gate.world
    const run = { agent_run_id: agent, workspace_id: workspace, command_id: command, budget_account_id: null }
    const signal = new AbortController().signal
    const unknown = await models.ask({ run, turn: 0, call: 0, request: { ...request, model: 'large' }, signal })
    assert.ok(unknown.t === 'failed')
    assert.match(unknown.error.message, /There is no model large/)
    await opened.db.query(`update concord.domain_effects set status = 'planned' where domain_effect_id = $1`, [
      gate.world.effect,
    ])
    assert.equal((await models.ask({ run, turn: 0, call: 0, request, signal })).t, 'failed')
    assert.equal((await fake.requests()).length, 0)
  })
})
