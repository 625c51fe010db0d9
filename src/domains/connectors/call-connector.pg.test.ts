/** The gate: who may call, what is written before and after, and what never comes through. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import type { JsonValue } from '#kernel/json-value'
import { openTestGate, type TestGate, testSecrets } from '#test/connectors'
import { openTestSpans } from '#test/spans'
import { type ConnectorCall, ConnectorFailure, type ConnectorResult, defineConnector, succeeded } from './connector.ts'

type Behave = (call: ConnectorCall) => Promise<ConnectorResult>

/** The provider does what the test has put here. */
let behave: Behave = () => Promise.resolve(succeeded({}))
const calls: ConnectorCall[] = []

const operation = {
  description: 'Does what the test says.',
  input: z.strictObject({ note: z.string().optional(), card: z.string().optional(), pin: z.string().optional() }),
  output: z.looseObject({}),
  side_effect_class: 'none' as const,
}

const scripted = defineConnector({
  connector_type: 'scripted',
  name: 'scripted',
  description: 'A provider for tests.',
  auth: { mode: 'api_key', secret_ref: 'vault://scripted' },
  data_class_max: 'pii',
  breaker: { failures: 1_000, open_ms: 1 },
  operations: [
    { ...operation, name: 'look', input_classes: { note: 'pii', pin: 'secret' } },
    { ...operation, name: 'act', side_effect_class: 'keyed' },
    { ...operation, name: 'quick', timeout_ms: 30 },
    { ...operation, name: 'tiny', output_max_bytes: 64 },
    { ...operation, name: 'brief', record: 'digest' },
    { ...operation, name: 'strict', output: z.strictObject({ id: z.string() }) },
  ],
  open: () => ({
    name: 'scripted',
    connector_type: 'scripted',
    capabilities: () => ['look', 'act', 'quick', 'tiny', 'brief', 'strict'],
    call(call) {
      calls.push(call)
      return behave(call)
    },
  }),
})

describe('the gate', () => {
  let gate: TestGate
  before(async () => {
    gate = await openTestGate([scripted], testSecrets({ scripted: 'canary-0123456789' }))
  })
  after(() => gate.close())

  async function callWith(capability: string, act: Behave, more: Parameters<TestGate['call']>[3] = {}) {
    behave = act
    const before = (await gate.invocations()).length
    const called = calls.length
    const result = await gate.call('scripted', capability, { note: 'hello' }, more)
    const rows = (await gate.invocations()).slice(before)
    return { result, rows, called: calls.length - called }
  }

  test('[CON-07] [CON-08] a call is one row: started before it, completed by its own id, with key, trace, attempt and latency', async () => {
    let during: string[] = []
    const { result, rows } = await callWith('act', async () => {
      during = (await gate.invocations()).map(({ status }) => status)
      return succeeded({ id: 'x1' })
    })
    assert.equal(result.ok, true)
    assert.deepEqual(during, ['started'])
    const [row] = rows
    assert.ok(row)
    assert.equal(rows.length, 1)
    assert.deepEqual(
      [row.status, row.connector_name, row.operation, row.side_effect, row.attempt, row.error_class],
      ['succeeded', 'scripted', 'act', true, 1, null],
    )
    assert.deepEqual([row.command_id, row.domain_effect_id], [gate.world.command, gate.world.effect])
    assert.match(row.idempotency_key ?? '', /^key:/)
    assert.deepEqual(row.response_payload, { output: { id: 'x1' } })
    assert.ok((row.latency_ms ?? -1) >= 0 && row.trace_id?.startsWith('trace_'))
    const [event] = await gate.db.query<{ payload: { target_id: string; operation: string } }>(
      `select payload from concord.domain_events where event_type = 'connector_called'`,
    )
    assert.deepEqual([event?.payload.target_id, event?.payload.operation], [row.connector_invocation_id, 'act'])
  })

  test('[CON-07] two calls of one operation in one command are two rows, each completed by its own id', async () => {
    const answers = new Map([
      [1, 'first'],
      [2, 'second'],
    ])
    behave = ({ context }) => Promise.resolve(succeeded({ id: answers.get(context.attempt) ?? null }))
    const before = (await gate.invocations()).length
    await Promise.all([1, 2].map((attempt) => gate.call('scripted', 'look', {}, { context: { attempt } })))
    const rows = (await gate.invocations()).slice(before)
    assert.deepEqual(
      rows
        .map(({ attempt, response_payload: of }) => [attempt, (of as { output: { id: string } }).output.id])
        .toSorted(([a], [b]) => Number(a) - Number(b)),
      [
        [1, 'first'],
        [2, 'second'],
      ],
    )
  })

  test('[CON-02] [CON-17] without a command that runs and an effect that executes nothing is called and no row is written', async () => {
    const other = await import('#test/connectors').then(({ insertRunning }) => insertRunning(gate.db))
    const cases: Parameters<TestGate['call']>[3][] = [
      { command_id: other.command },
      { command_id: other.parent, context: { domain_effect_id: other.effect } },
      { context: { workspace_id: other.workspace } },
      { context: { domain_effect_id: '00000000-0000-7000-8000-000000000001' } },
    ]
    for (const more of cases) {
      const { result, rows, called } = await callWith('look', () => Promise.resolve(succeeded({})), more)
      assert.deepEqual([result.error?.error_class, result.error?.happened], ['permission_denied', 'no'])
      assert.deepEqual([rows.length, called], [0, 0])
    }
    for (const status of ['queued', 'waiting_for_approval', 'succeeded', 'failed', 'cancelled']) {
      const done = ['succeeded', 'failed', 'cancelled'].includes(status) ? 'now()' : 'null'
      await gate.db.query(
        `update concord.commands set status = '${status}', completed_at = ${done} where command_id = $1`,
        [gate.world.command],
      )
      const { result, called } = await callWith('look', () => Promise.resolve(succeeded({})))
      assert.deepEqual([result.error?.error_class, called], ['permission_denied', 0], status)
    }
    await gate.db.query(`update concord.commands set status = 'running', completed_at = null where command_id = $1`, [
      gate.world.command,
    ])
    await gate.db.query(`update concord.domain_effects set status = 'planned' where domain_effect_id = $1`, [
      gate.world.effect,
    ])
    const { called } = await callWith('look', () => Promise.resolve(succeeded({})))
    assert.equal(called, 0)
    await gate.db.query(`update concord.domain_effects set status = 'executing' where domain_effect_id = $1`, [
      gate.world.effect,
    ])
  })

  test('[CON-06] no transaction is open during a slow call', async () => {
    let open = -1
    await callWith('look', async () => {
      const [row] = await gate.db.query<{ open: number }>(
        `select count(*)::int as open from pg_stat_activity where datname = current_database()
           and state like 'idle in transaction%'`,
      )
      open = row?.open ?? -1
      return succeeded({})
    })
    assert.equal(open, 0)
  })

  test('[CON-11] an operation that requires a key is not called without one', async () => {
    for (const idempotency_key of [null, '']) {
      const { result, rows, called } = await callWith('act', () => Promise.resolve(succeeded({})), {
        context: { idempotency_key },
      })
      assert.deepEqual(
        [result.error?.error_class, result.error?.happened, rows.length, called],
        ['validation_error', 'no', 0, 0],
      )
    }
    const { called } = await callWith('act', () => Promise.resolve(succeeded({})), {
      context: { idempotency_key: 'k:7' },
    })
    assert.equal(called, 1)
    assert.equal(calls.at(-1)?.context.idempotency_key, 'k:7')
  })

  test('an operation that is recorded by digest takes no secret either', async () => {
    const { result: plain } = await callWith('brief', () => Promise.resolve(succeeded({})))
    assert.equal(plain.ok, true)
    const before = calls.length
    const note = ['ghp', '1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ0'].join('_')
    const { ok, error } = await gate.call('scripted', 'brief', { note })
    assert.deepEqual([ok, error?.error_class, calls.length], [false, 'validation_error', before])
    assert.ok(!JSON.stringify(error).includes(note))
  })

  test('[CON-03] [CON-16] an unknown operation, and an input that does not fit, are refused before anything is written', async () => {
    const unknown = await gate.call('scripted', 'fly', {})
    assert.deepEqual([unknown.ok, unknown.error?.message], [false, 'Unsupported capability: fly'])
    const nobody = await gate.call('nobody', 'fly', {})
    assert.equal(nobody.ok, false)
    const before = (await gate.invocations()).length
    for (const input of [{ nota: 'x' }, { note: 7 }, { pin: 'not a reference' }] as const) {
      const result = await gate.call('scripted', 'look', input)
      assert.deepEqual([result.error?.error_class, result.error?.happened], ['validation_error', 'no'])
    }
    assert.equal((await gate.invocations()).length, before)
  })

  test('[CON-12] [CON-16] lying, malformed, oversized and thrown answers become failures of a known class', async () => {
    const cyclic: Record<string, unknown> = {}
    cyclic['self'] = cyclic
    const cases: [string, Behave, string, string][] = [
      ['strict', () => Promise.resolve(succeeded({ id: 7 })), 'transient_connector_error', 'no'],
      ['act', () => Promise.resolve(succeeded(cyclic as JsonValue)), 'transient_connector_error', 'unknown'],
      ['tiny', () => Promise.resolve(succeeded({ text: 'x'.repeat(100) })), 'transient_connector_error', 'no'],
      ['act', () => Promise.resolve(undefined as unknown as ConnectorResult), 'internal_error', 'unknown'],
      ['act', () => Promise.reject(new Error('boom')), 'internal_error', 'unknown'],
      ['act', () => Promise.reject(new ConnectorFailure('rate_limited', 'slow down', 'no', 7)), 'rate_limited', 'no'],
      [
        'act',
        () => {
          throw new ConnectorFailure('timeout', 'cut', 'unknown')
        },
        'timeout',
        'unknown',
      ],
      [
        'act',
        () =>
          Promise.resolve({
            ok: false,
            output: null,
            error: { error_class: 'made_up' as 'timeout', message: 'm', happened: 'no' },
          }),
        'internal_error',
        'no',
      ],
      ['act', () => Promise.resolve({ ok: false, output: null }), 'internal_error', 'unknown'],
    ]
    for (const [capability, act, errorClass, happened] of cases) {
      const { result, rows } = await callWith(capability, act)
      assert.deepEqual([result.ok, result.error?.error_class, result.error?.happened], [false, errorClass, happened])
      assert.deepEqual(
        rows.map(({ status, error_class }) => [status, error_class]),
        [['failed', errorClass]],
      )
    }
  })

  test('a call that never returns ends by its time limit, and one that nobody waits for by its signal', async () => {
    let told: AbortSignal | undefined
    const hang: Behave = ({ context }) => {
      told = context.signal
      return new Promise(() => {})
    }
    const late = await callWith('quick', hang)
    assert.deepEqual([late.result.error?.error_class, late.rows[0]?.status, told?.aborted], ['timeout', 'failed', true])
    const stop = new AbortController()
    const gone = await callWith(
      'act',
      (call) => {
        stop.abort()
        return hang(call)
      },
      { context: { signal: stop.signal } },
    )
    assert.deepEqual([gone.result.error?.error_class, gone.result.error?.happened], ['timeout', 'unknown'])
    assert.equal(gone.rows[0]?.status, 'failed')
  })

  test('[CON-09] a call resolves its own references and no others; nothing of the value comes back', async () => {
    const { result, rows } = await callWith('look', async ({ context }) => {
      const key = await context.secret('vault://scripted')
      assert.equal(key, 'canary-0123456789')
      return succeeded({ echo: key, inner: [`Basic ${Buffer.from(`user:${key}`).toString('base64')}`], [key]: 1 })
    })
    assert.equal(result.ok, true)
    for (const text of [JSON.stringify(result), JSON.stringify(rows)]) {
      assert.ok(!text.includes('canary-0123456789'))
      assert.ok(!text.includes(Buffer.from('canary-0123456789').toString('base64').slice(4, 20)))
    }
    const foreign = await callWith('look', async ({ context }) =>
      succeeded({ key: await context.secret('vault://other') }),
    )
    assert.deepEqual([foreign.result.error?.error_class, foreign.result.error?.happened], ['permission_denied', 'no'])
  })

  test('[SEC-06] what is classed above confidential is not on the row', async () => {
    const { rows } = await callWith('look', () => Promise.resolve(succeeded({})))
    assert.deepEqual(rows[0]?.request_payload, { note: '[pii]' })
  })

  test('a model call has its figures on its span, and nothing else of what the connector says', async () => {
    const spans = openTestSpans()
    const metadata = {
      'gen_ai.request.model': 'm-1',
      'gen_ai.usage.input_tokens': 120,
      'gen_ai.usage.output_tokens': 'many',
      'gen_ai.response.model': 'a sentence, not a name',
      'gen_ai.input.messages': 'hello',
    }
    try {
      await callWith('look', () => Promise.resolve(succeeded({ text: 'hello' }, metadata)))
      // A connector of a third party can return anything.
      await callWith('look', () => Promise.resolve(undefined as unknown as ConnectorResult))
      const figures = spans
        .finished()
        .map(({ attributes }) => Object.entries(attributes).filter(([name]) => /^(gen_ai|error)/.test(name)))
      assert.deepEqual(figures, [
        [
          ['gen_ai.request.model', 'm-1'],
          ['gen_ai.usage.input_tokens', 120],
        ],
        [['error.type', 'internal_error']],
      ])
      assert.doesNotMatch(JSON.stringify(spans.finished().map(({ attributes }) => attributes)), /hello/)
    } finally {
      await spans.close()
    }
  })
})
