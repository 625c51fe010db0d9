/** A model through the gate: one request a call, nothing of its content in the records, and whatever it answers becomes data. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { checkConnector } from '#domains/connectors'
import type { JsonObject } from '#kernel/json-value'
import { aModelInput, type FakeModel, type ModelScripts, startModel } from '#test/fake-model'
import { openTestGate, type TestGate, testSecrets } from '#test/connectors'
import { openTestSpans, sayOf } from '#test/spans'
import { TRACE } from '#test/tenant'
import type { AgentMessage, ModelRequest } from '../agent-runtime.ts'
import { callModel, type ModelCalled, worstOf } from './call-model.ts'
import { type ModelDefinition, modelConnector, type ModelInput } from './model-connector.ts'

const tool = (name: string) => ({
  name,
  description: `Does ${name}.`,
  input: { type: 'object', properties: { id: { type: 'string' } } } as JsonObject,
})
const tools = [tool('Read Document'), tool('send_mail')]
const private_text = 'Zebrafish-4711'
const goal: AgentMessage = { role: 'user', content: { goal: `Find ${private_text}.` } }

describe('a model as a connector', () => {
  let fake: FakeModel
  let gate: TestGate
  let definition: ModelDefinition
  let input: ModelInput

  before(async () => {
    fake = await startModel()
    input = aModelInput(fake.url, { apiKey: 'vault://model' })
    definition = modelConnector(input)
    gate = await openTestGate([definition.connector], testSecrets({ model: 'canary-0123456789' }))
  })
  after(async () => {
    await gate.close()
    await fake.close()
  })

  const requestOf = (more: Partial<ModelRequest> = {}): ModelRequest => ({
    model: 'small',
    messages: [goal],
    tools,
    outputTokensMax: 1_000,
    ...more,
  })
  /** Each try of a call has one row. */
  let attempt = 0
  const ask = (request = requestOf(), key = 'run-1/0'): Promise<ModelCalled> =>
    callModel(gate.connectors, request, {
      command_id: gate.world.command,
      agent_run_id: gate.world.agent,
      context: {
        workspace_id: gate.world.workspace,
        domain_effect_id: gate.world.effect,
        trace_id: TRACE,
        attempt: ++attempt,
        idempotency_key: key,
        signal: new AbortController().signal,
      },
    })
  const answered = async (answers: ModelScripts[string], request = requestOf()) => {
    await fake.script({ 'fake-small': answers })
    const called = await ask(request)
    assert.ok(called.ok, called.ok ? '' : called.error.message)
    return called
  }
  const failedWith = async (trouble: 'rate_limited' | 'cut' | 'fault') => {
    await fake.script({ 'fake-small': [{ text: 'Hello.', trouble, times: 9 }] })
    const called = await ask()
    assert.ok(!called.ok)
    return called.error
  }

  test('its calls come back as data: nothing is executed, and one call is one request with its key', async () => {
    const { answer } = await answered([
      { text: 'I read.', calls: [{ name: 'Read_Document', arguments: { id: 'd1' } }] },
    ])
    assert.deepEqual(answer.calls, [
      {
        id: 'call_0',
        actionType: 'tool_call',
        toolName: 'Read Document',
        payload: { id: 'd1' },
        reason: 'The model called it.',
      },
    ])
    const [request, ...more] = await fake.requests()
    assert.deepEqual([request?.key, more.length], ['run-1/0', 0])
    assert.equal((request as unknown as { body: JsonObject }).body['max_tokens'], 500)
  })

  test('broken arguments are invalid calls, a tool that was not offered is left to the gateway, and no call of the answer is lost', async () => {
    const { answer } = await answered([
      {
        calls: [
          { name: 'send_mail', arguments: '{"to": ' },
          { name: 'send_mail', arguments: '[1]' },
          { name: 'wipe_disk', arguments: {} },
          { name: 'send_mail', arguments: { id: 'm1' } },
        ],
      },
    ])
    assert.deepEqual(
      answer.calls.map(({ id, toolName, payload, invalid }) => [id, toolName, payload, invalid]),
      [
        ['call_0', 'send_mail', {}, 'The arguments are not a JSON object.'],
        ['call_1', 'send_mail', {}, 'The arguments are not a JSON object.'],
        ['call_2', 'wipe_disk', {}, undefined],
        ['call_3', 'send_mail', { id: 'm1' }, undefined],
      ],
    )
  })

  test('a conversation is sent whole: calls with their observations, a call without one as such', async () => {
    const call = { actionType: 'tool_call', toolName: 'Read Document', payload: { id: 'd1' }, reason: '' } as const
    const observation = { callId: 'call_0_0', decision: 'denied', content: { reasons: ['No.'] } } as const
    await answered(
      [{ text: 'unused' }, { text: 'Done.' }],
      requestOf({
        messages: [
          { role: 'system', content: 'Be brief.' },
          goal,
          {
            role: 'assistant',
            text: null,
            calls: [
              { ...call, id: 'call_0_0' },
              { ...call, id: 'call_0_1' },
            ],
          },
          { role: 'tool', observation },
          { role: 'agent', content: 'A child says hello.' },
        ],
      }),
    )
    const [seen] = await fake.requests()
    assert.deepEqual(
      seen?.body.messages.map(({ role, content }) => [role, content ?? null]),
      [
        ['system', 'Be brief.'],
        ['user', JSON.stringify(goal.content)],
        ['assistant', null],
        ['tool', JSON.stringify({ decision: 'denied', result: { reasons: ['No.'] } })],
        ['tool', 'There is no result.'],
        ['user', 'A child says hello.'],
      ],
    )
  })

  test('a provider that gives no figures, or false ones, is counted at its worst', async () => {
    const request = requestOf()
    const worst = worstOf(definition.terms, request)
    assert.equal(worst.outputTokens, 500)
    for (const usage of ['missing', { prompt_tokens: -5, completion_tokens: 3 }, { completion_tokens: 3 }] as const) {
      const called = await answered([{ text: 'Hello.', usage }], request)
      assert.deepEqual(called.answer.usage, worst)
    }
    const true_usage = { prompt_tokens: 40, completion_tokens: 3, prompt_tokens_details: { cached_tokens: 30 } }
    const called = await answered([{ text: 'Hello.', usage: true_usage }], request)
    assert.deepEqual(called.answer.usage, { inputTokens: 40, outputTokens: 3, cachedTokens: 30, reasoningTokens: 0 })
    // The fake counts truly: a request never has more tokens than its worst case.
    const honest = await answered([{ text: 'Hello.' }], request)
    assert.ok(honest.answer.usage.inputTokens <= worst.inputTokens)
  })

  test('what looks like a secret does not reach the provider, and a tool with such a field is offered as it is', async () => {
    const secret = ['ghp', '1B2c3D4e5F6g7H8i9J0kLmNoPqRsTuVwXyZ0'].join('_')
    const schema = { type: 'object', properties: { api_key: { type: 'string' } } }
    const asked = requestOf({
      messages: [
        { role: 'user', content: { note: `The token is ${secret}.` } },
        {
          role: 'assistant',
          text: `I use ${secret}.`,
          calls: [
            {
              id: 'call_0_0',
              actionType: 'tool_call',
              toolName: 'Read Document',
              payload: { page: 7, note: `with ${secret}`, password: 'correct-horse-9' },
              reason: '',
            },
          ],
        },
        { role: 'tool', observation: { callId: 'call_0_0', decision: 'done', content: { header: secret } } },
      ],
      tools: [{ ...tool('Read Document'), input: schema }],
    })
    await answered([{ text: 'Hello.' }], asked)
    const [seen] = await fake.requests()
    const sent = JSON.stringify(seen?.body)
    assert.ok(!sent.includes(secret) && !sent.includes('correct-horse-9'))
    const said = seen?.body.messages.find(({ role }) => role === 'assistant')
    assert.match(JSON.stringify(said), /I use \[redacted\].*page.*7.*with \[redacted\]/)
    assert.ok(sent.includes('The token is ['))
    assert.ok(sent.includes('"api_key":{"type":"string"}'))
  })

  test('a failure is not repeated behind the gate, and says whether it may have been charged', async () => {
    const limited = await failedWith('rate_limited')
    assert.deepEqual([limited.error_class, limited.happened, limited.retry_after_ms], ['rate_limited', 'no', 1_000])
    assert.equal((await fake.requests()).length, 1)
    for (const trouble of ['cut', 'fault'] as const) {
      const error = await failedWith(trouble)
      assert.deepEqual([error.error_class, error.happened], ['transient_connector_error', 'unknown'])
      assert.equal((await fake.requests()).length, 1)
    }
  })

  test('prompts and answers are in no row and no event: a call is recorded by digest', async () => {
    await answered([{ text: `I found ${private_text}.` }])
    const rows = await gate.db.query<{ line: string }>(
      `select to_jsonb(i)::text as line from concord.connector_invocations i
       union all select to_jsonb(e)::text from concord.domain_events e`,
    )
    assert.ok(rows.length > 1)
    assert.ok(rows.every(({ line }) => !line.includes('Zebrafish') && !line.includes('Hello')))
    const last = (await gate.invocations()).at(-1)
    for (const kept of [last?.request_payload, last?.response_payload as JsonObject])
      assert.deepEqual(
        [Object.keys(kept ?? {}), /^"[0-9a-f]{64}"$/.test(JSON.stringify(kept?.['sha256']))],
        [['sha256', 'size_bytes'], true],
      )
  })

  test('the span of a call has the GenAI names, and no content', async (t) => {
    const spans = openTestSpans()
    t.after(() => spans.close())
    await spans.within('program', async () => {
      await answered([{ text: `I found ${private_text}.`, usage: { prompt_tokens: 40, completion_tokens: 3 } }])
    })
    const span = spans.finished().find((each) => sayOf(each) === 'CLIENT call small.generate')
    assert.deepEqual(
      Object.fromEntries(Object.entries(span?.attributes ?? {}).filter(([name]) => name.startsWith('gen_ai.'))),
      {
        'gen_ai.operation.name': 'chat',
        'gen_ai.provider.name': 'fake',
        'gen_ai.request.model': 'fake-small',
        'gen_ai.response.model': 'fake-small',
        'gen_ai.usage.input_tokens': 40,
        'gen_ai.usage.output_tokens': 3,
      },
    )
    assert.ok(
      !JSON.stringify(spans.finished().map(({ attributes, events }) => [attributes, events])).includes('Zebrafish'),
    )
  })

  test('any provider of the AI SDK gets the guarded fetch and the key of the moment', async () => {
    await fake.script({ 'fake-small': [{ text: 'Hello.' }] })
    const given: (string | undefined)[] = []
    const other = modelConnector({
      ...input,
      languageModel({ apiKey, fetch, model }) {
        given.push(apiKey, model)
        return {
          specificationVersion: 'v4',
          provider: 'own',
          modelId: 'own-1',
          supportedUrls: {},
          async doGenerate() {
            await fetch('https://example.com/escape', { method: 'POST', body: '{}' })
            throw new Error('The address was called.')
          },
          doStream: () => Promise.reject(new Error('unused')),
        }
      },
    })
    const second = await openTestGate([other.connector], testSecrets({ model: 'canary-0123456789' }))
    try {
      const result = await second.call('small', 'generate', {
        messages: [{ role: 'user', text: 'Hello.' }],
        tools: [],
        output_tokens_max: 5,
      })
      assert.deepEqual(given, ['canary-0123456789', 'fake-small'])
      assert.deepEqual([result.error?.error_class, result.error?.happened], ['permission_denied', 'no'])
      assert.match(result.error?.message ?? '', /which this connector may not call/)
    } finally {
      await second.close()
    }
  })

  test('a declaration with a wrong address, price or key is refused with every finding', () => {
    const { connector } = modelConnector({
      ...input,
      baseUrl: 'nowhere',
      prices: { input: 'free', output: '1' },
      apiKey: 'sk-1',
    })
    assert.deepEqual(
      checkConnector(connector).map(({ rule, message }) => [rule, message.includes('sk-1')]),
      [
        ['secret_in_manifest', false],
        ['settings', false],
        ['settings', false],
      ],
    )
  })
})
