/** Concord inside a program: typed commands from submit to undo, results that go from step to step, facts, and the caller's own transaction. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Hono } from 'hono'
import pg from 'pg'
import { z } from 'zod'
import { type Concord, openConcord } from '#app/open-concord'
import { ConcordError } from '#client'
import { allow, ask, defineCommand, defineEffect, deny, EffectFailure } from '#domains/commands'
import { from } from '#kernel/step'
import { openTestDb, type TestDb } from '#test/database'
import { openTestSpans } from '#test/spans'
import { until } from '#test/until'

const book: string[] = []
const score = defineEffect('fraud.score', {
  input: z.object({ customer: z.string() }),
  class: 'read',
  do: ({ input }) => Promise.resolve({ risk: 1, charge_id: `ch_${input.customer}` }),
})
const pay = defineEffect('payments.refund', {
  input: z.object({ order_id: z.string(), amount: z.number(), charge: z.string() }),
  class: 'keyed',
  do({ input: { order_id, amount, charge } }) {
    book.push(`pay ${order_id} ${amount} ${charge}`)
    return Promise.resolve({ refund_id: `re_${order_id}` })
  },
  undo({ input, result }) {
    book.push(`take back ${input.charge} ${result.refund_id}`)
    return Promise.resolve({})
  },
})
const tell = defineEffect('letters.send', {
  input: z.object({ to: z.string(), refund: z.string() }),
  class: 'keyed',
  do({ input }) {
    if (input.to === 'nobody') return Promise.reject(new EffectFailure('validation_error', 'no such address', 'no'))
    return Promise.resolve({ letter: `${input.to}:${input.refund}` })
  },
})
const input = z.object({ order_id: z.string(), customer: z.string(), amount: z.number().positive() })

const refund = defineCommand('refund', {
  input,
  key: ({ order_id }) => `refund:${order_id}`,
  facts: {
    refundsOfCustomer: async ({ input: { customer }, workspaceId, sql }) => {
      const count = `select count(*)::int as count from concord.commands
        where workspace_id = $1 and command_type = 'refund' and payload->>'customer' = $2`
      return (await sql<{ count: number }>(count, [workspaceId, customer]))[0]?.count ?? 0
    },
  },
  policy: ({ amount }, { facts }) =>
    amount > 5_000 || facts.refundsOfCustomer > 3
      ? deny('Above 5000, or too many.')
      : amount > 500
        ? ask(2, 'refund-approver')
        : amount >= 50
          ? ask(1, 'refund-approver')
          : allow(),
  steps({ order_id, amount, customer }) {
    const scored = score({ customer })
    const paid = pay({ order_id, amount, charge: from(scored, 'charge_id') })
    return [scored, paid, tell({ to: customer, refund: from(paid, 'refund_id') })]
  },
  result: (scored, paid, told) => ({ risk: scored.risk, refund: paid.refund_id, letter: told.letter }),
  onFailure: 'undo',
})

const token = defineEffect('login.open', {
  input: z.object({ name: z.string() }),
  class: 'read',
  do: () => Promise.resolve({ token: 'a secret' }),
})
const login = defineCommand('login', {
  input: z.object({ name: z.string() }),
  policy: () => allow(),
  steps({ name }) {
    const opened = token({ name })
    return [opened, tell({ to: name, refund: from(opened, 'token') })]
  },
})
const hidden = defineCommand('hidden', {
  input: z.object({ code: z.string() }),
  policy: () => ask(1, 'refund-approver'),
  steps: ({ code }) => [code === 'xyzzy' ? tell({ to: code, refund: code }) : score({ customer: code })],
})
const curious = defineCommand('curious', {
  input: z.object({ text: z.string() }),
  facts: { count: async ({ input: { text }, sql }) => (await sql<{ count: number }>(text))[0]?.count ?? 0 },
  policy: (_input, { facts }) => (facts.count > 0 ? allow() : deny('Nothing.')),
  steps: ({ text }) => [score({ customer: text })],
})

describe('Concord in a process', () => {
  let database: TestDb
  let home: string
  let concord: Concord
  const listeners = () => ['SIGINT', 'SIGTERM', 'uncaughtException'].map((name) => process.listenerCount(name))
  const before_ = listeners()

  before(async () => {
    database = await openTestDb()
    home = await mkdtemp(join(tmpdir(), 'concord-in-process-'))
    concord = await openConcord({
      project: { catalog: [refund, login, hidden, curious] },
      databaseUrl: database.url,
      home,
      settings: { CONCORD_UNSAFE_TEST: '1', CONCORD_COUNT_INVITED_APPROVERS: '1', CONCORD_RATE_LIMIT: '60' },
    })
  })
  after(async () => {
    await concord.close()
    await database.close()
    await rm(home, { recursive: true, force: true })
  })

  async function hire(name: string, ...roles: readonly string[]): Promise<Concord> {
    const invited = await concord.api.POST('/people', { body: { external_id: `local:${name}`, role: 'writer' } })
    assert.ok(invited.data, JSON.stringify(invited.error))
    const { invitation } = invited.data
    assert.ok(invitation)
    const redeemed = await concord.api.POST('/invitations/redeem', { body: { invitation } })
    assert.ok(redeemed.data, JSON.stringify(redeemed.error))
    for (const role of roles) {
      await concord.api.POST('/org-roles', { body: { slug: role, name: role } })
      const params = { path: { user_id: invited.data.user_id } }
      const given = await concord.api.POST('/people/{user_id}/org-roles', { params, body: { org_role: role } })
      assert.ok(given.response.ok, JSON.stringify(given.error))
    }
    return concord.as(redeemed.data.key)
  }
  const submit = async (order_id: string, amount: number, customer = order_id, by = concord) =>
    concord.wait(await by.submit(refund, { order_id, customer, amount }))

  test('a command with a typed result, whose steps pass on results; the effect is recorded with what it was given', async () => {
    const done = await submit('o1', 20, 'ana')
    assert.equal(done.status, 'succeeded')
    assert.deepEqual(done.result, { risk: 1, refund: 're_o1', letter: 'ana:re_o1' })
    assert.deepEqual(book.splice(0), ['pay o1 20 ch_ana'])
    const rows = await database.db.query<{ effect_payload: object }>(
      `select effect_payload from concord.domain_effects where effect_type = 'payments.refund'`,
    )
    assert.deepEqual(rows, [{ effect_payload: { order_id: 'o1', amount: 20, charge: 'ch_ana' } }])
    const undone = await concord.wait(await concord.undo(done))
    assert.equal(undone.status, 'succeeded')
    assert.deepEqual(book.splice(0), ['take back ch_ana re_o1'])
  })

  test('a failed step undoes what was done, with what it was given', async () => {
    const done = await submit('o2', 20, 'nobody')
    assert.equal(done.status, 'compensated')
    assert.deepEqual(book.splice(0), ['pay o2 20 ch_nobody', 'take back ch_nobody re_o2'])
  })

  test('the policy denies, asks one, asks two; the facts of a decision are recorded with it', async () => {
    const [dora, cem] = [await hire('dora', 'refund-approver'), await hire('cem', 'refund-approver')]
    const denied = await submit('o3', 6_000)
    assert.deepEqual([denied.status, denied.error], ['failed', 'Above 5000, or too many.'])
    const one = await submit('o4', 100)
    assert.equal(one.status, 'waiting_for_approval')
    const cardOf = async (by: Concord, command: { readonly command_id: string }) => {
      const [card] = await by.inbox(command.command_id)
      assert.ok(card)
      return card
    }
    const card = await cardOf(dora, one)
    await assert.rejects(cem.as('cck_wrong').approve(card), ConcordError)
    await assert.rejects(dora.approve({ ...card, payload_hash: 'f'.repeat(64) }), { code: 'payload_changed' })
    await dora.approve(card)
    assert.equal((await concord.wait(one)).status, 'succeeded')
    const two = await submit('o5', 600)
    await dora.approve(await cardOf(dora, two))
    assert.deepEqual(await dora.inbox(two.command_id), [])
    assert.equal((await concord.get(two)).status, 'waiting_for_approval')
    await cem.approve(await cardOf(cem, two), 'Checked with the customer.')
    assert.equal((await concord.wait(two)).result?.refund, 're_o5')
    const [decided] = await database.db.query<{ facts: object }>(
      `select payload->'input'->'context'->'facts' as facts from concord.domain_events
        where event_type = 'policy_evaluated' and payload->>'decision' = 'deny'`,
    )
    assert.deepEqual(decided, { facts: { 'refund.refundsOfCustomer': 1, inside: [] } })
    assert.deepEqual(
      book.splice(0).map((line) => line.split(' ').slice(0, 2).join(' ')),
      ['pay o4', 'pay o5'],
    )
  })

  test('spans go to the provider of the program: a command is part of its trace, and a turn links to the approval', async () => {
    const eda = await hire('eda', 'refund-approver')
    const spans = openTestSpans()
    try {
      let asked: Awaited<ReturnType<typeof submit>> | undefined
      const submitting = await spans.within('program submits', async () => (asked = await submit('o6', 100)))
      assert.ok(asked)
      const { command_id } = asked
      const { trace_id } = await concord.get(command_id)
      assert.equal(trace_id, `trace_${submitting}`)
      const [card] = await eda.inbox(command_id)
      assert.ok(card)
      const approving = await spans.within('program approves', () => eda.approve(card))
      assert.equal((await concord.wait(asked)).status, 'succeeded')
      const findTurn = () => spans.finished().find(({ name, links }) => name === 'turn refund' && links.length > 0)
      await until(() => findTurn() !== undefined, 'the span of the turn')
      const [all, turn] = [spans.finished(), findTurn()]
      const submitted = all.find(({ name }) => name === 'submit refund')
      assert.deepEqual(
        [turn?.spanContext().traceId, turn?.parentSpanContext?.spanId, turn?.links.map((link) => link.context.traceId)],
        [submitting, submitted?.spanContext().spanId, [approving]],
      )
      const program = all.find(({ name }) => name === 'program submits')
      assert.equal(submitted?.parentSpanContext?.spanId, program?.spanContext().spanId)
    } finally {
      await spans.close()
      book.splice(0)
    }
  })

  test('the keys of readers and agents submit nothing in the process either', async () => {
    const made = await concord.api.POST('/keys', { body: { name: 'reads', role: 'reader' } })
    assert.ok(made.data)
    const order = { order_id: 'o9', customer: 'x', amount: 1 }
    await assert.rejects(concord.as(made.data.key).submit(refund, order), { code: 'identity.role.insufficient' })
    const agent = await concord.api.POST('/keys', {
      body: { name: 'bot', role: 'writer', agent: 'bot', tools: ['refund'] },
    })
    assert.ok(agent.data, JSON.stringify(agent.error))
    await assert.rejects(concord.as(agent.data.key).submit(refund, order), { code: 'api.route.closed_to_agents' })
  })

  test('a step that takes a result which is not stored is not called', async () => {
    const asked = await concord.wait(await concord.submit(login, { name: 'ada' }))
    assert.equal(asked.status, 'failed')
    assert.match(String(asked.error), /token of step 1 is a secret, which is not stored/)
  })

  test('people are not asked about what cannot run', async () => {
    const asked = await concord.wait(await concord.submit(hidden, { code: 'xyzzy' }))
    assert.equal(asked.status, 'failed')
    assert.match(String(asked.error), /which the contract does not allow/)
    assert.deepEqual(await concord.inbox(asked.command_id), [])
  })

  test('a fact sees its workspace alone, and its statement cannot leave the transaction', async () => {
    const asked = await concord.wait(
      await concord.submit(curious, { text: 'select count(*)::int as count from concord.commands' }),
    )
    assert.equal(asked.status, 'succeeded')
    const wrong = await concord.submit(curious, { text: 'commit; select 1 as count' })
    assert.notEqual((await concord.get(wrong)).status, 'succeeded')
    await concord.cancel(wrong)
  })

  test('one key is one thing done, no matter who asks', async () => {
    const again = await concord
      .submit(refund, { order_id: 'o4', customer: 'x', amount: 1 })
      .catch((error: unknown) => error)
    assert.ok(again instanceof ConcordError)
    assert.match(again.code, /^(idempotency|commands|key)/)
    assert.ok(again.hint)
  })

  describe('in the transaction of the caller', () => {
    const connected = async <T>(work: (client: pg.Client) => Promise<T>): Promise<T> => {
      const client = new pg.Client({ connectionString: database.url })
      await client.connect()
      try {
        return await work(client)
      } finally {
        await client.end()
      }
    }
    const order = (order_id: string) => ({ order_id, customer: order_id, amount: 5 })

    test('a rollback leaves nothing, a commit leaves both and the command runs', () =>
      connected(async (client) => {
        await client.query('create table orders (id text primary key)')
        await client.query('begin')
        await client.query(`insert into orders values ('t1')`)
        const lost = await concord.submit(refund, order('t1'), { tx: client })
        await client.query('rollback')
        await assert.rejects(concord.get(lost), { status: 404 })
        await client.query(`begin; set local lock_timeout = '7s'`)
        await client.query(`insert into orders values ('t1')`)
        const kept = await concord.submit(refund, order('t1'), { tx: client })
        const own = await client.query<Record<string, string>>(
          `select current_user = session_user as same, current_setting('lock_timeout') as lock`,
        )
        assert.deepEqual({ ...own.rows[0] }, { same: true, lock: '7s' })
        await client.query('commit')
        assert.equal((await concord.wait(kept)).status, 'succeeded')
        assert.deepEqual(book.splice(0), ['pay t1 5 ch_t1'])
      }))

    test('a refusal leaves the transaction usable', () =>
      connected(async (client) => {
        await client.query('begin')
        await client.query(`insert into orders values ('t2')`)
        await assert.rejects(concord.submit({ ...refund, taskName: 'refnd' }, order('t2'), { tx: client }), {
          code: 'task_unknown',
        })
        await client.query('commit')
        const { rows } = await client.query(`select id from orders order by id`)
        assert.deepEqual(rows, [{ id: 't1' }, { id: 't2' }])
      }))

    test('submits that overlap on one connection do not undo each other', () =>
      connected(async (client) => {
        await client.query('begin')
        const [refused, kept] = await Promise.allSettled([
          concord.submit({ ...refund, taskName: 'refnd' }, order('t4'), { tx: client }),
          concord.submit(refund, order('t5'), { tx: client }),
          concord.submit({ ...refund, taskName: 'refnd' }, order('t6'), { tx: client }),
        ])
        await client.query('commit')
        assert.equal(refused.status, 'rejected')
        assert.ok(kept.status === 'fulfilled')
        assert.equal((await concord.wait(kept.value)).status, 'succeeded')
        assert.deepEqual(book.splice(0), ['pay t5 5 ch_t5'])
      }))

    for (const [end, order_id] of [
      ['commit', 't3'],
      ['rollback', 't7'],
    ] as const) {
      test(`[CMD-04] two writers with one key, and the first ends with ${end}: one command`, () =>
        connected((first) =>
          connected(async (second) => {
            for (const client of [first, second]) await client.query('begin')
            const submit = (tx: pg.Client) => concord.submit(refund, order(order_id), { tx, key: order_id })
            const asked = await submit(first)
            // It waits for the first, and gives up after half a second.
            const blocked = submit(second).catch((error: unknown) => error)
            await first.query(end)
            let other = await blocked
            if (other instanceof ConcordError) {
              assert.equal(other.code, 'key_in_progress')
              other = await submit(second)
            }
            await second.query('commit')
            const kept = other as typeof asked
            assert.equal(kept.command_id === asked.command_id, end === 'commit')
            assert.equal((await concord.wait(kept)).status, 'succeeded')
            assert.deepEqual(book.splice(0), [`pay ${order_id} 5 ch_${order_id}`])
            const rows = await database.db.query(
              `select from concord.commands where payload->>'order_id' = $1 and command_type = 'refund'`,
              [order_id],
            )
            assert.equal(rows.length, 1)
          }),
        ))
    }
  })

  test('the handler of requests mounts in another server at any path', async () => {
    const app = new Hono().mount('/concord', concord.fetch)
    const health = await app.request('http://127.0.0.1/concord/health')
    assert.equal(health.status, 200)
    assert.equal((await app.request('http://127.0.0.1/concord/commands')).status, 401)
  })

  test('the limit of requests is for callers of its handler, not for the program', async () => {
    const done = await submit('o-limit', 20)
    const key = (await readFile(join(home, 'admin.key'), 'utf8')).trim()
    const ask = () =>
      concord.fetch(new Request('http://127.0.0.1/commands?limit=1', { headers: { authorization: `Bearer ${key}` } }))
    const statuses = await Promise.all(Array.from({ length: 70 }, async () => (await ask()).status))
    assert.ok(statuses.includes(200) && statuses.includes(429), String(statuses))
    for (let n = 0; n < 70; n++) assert.equal((await concord.get(done)).status, 'succeeded')
    book.splice(0)
  })

  test('it takes no signals', () => assert.deepEqual(listeners(), before_))

  test('a start that is refused says what is wrong and what to do', async () => {
    const wrong = openConcord({ project: { catalog: [refund] }, home, settings: { CONCORD_PROT: '1' } })
    await assert.rejects(wrong, { code: 'app.setting.unknown', hint: /CONCORD_PORT/ })
  })
})
