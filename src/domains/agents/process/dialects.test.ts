/** Lines as the programs print them, and requests as they send them. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import type { ModelAnswer } from '../agent-runtime.ts'
import { dialects, type Heard } from './dialects.ts'
import { blockMessages, chatCompletions, readRequest, responses } from './wire-formats.ts'

const hear = (name: keyof typeof dialects, ...lines: readonly object[]): Heard => {
  const listen = dialects[name].listen(0)
  let heard: Heard = { t: 'going_on' }
  for (const line of lines) heard = listen(JSON.stringify(line))
  return heard
}
const final = (text: string) => ({ t: 'answer', answer: { text, calls: [], final: { text } } })

describe('the dialects of programs', () => {
  test('claude -p --output-format stream-json', () => {
    const before = [
      {
        type: 'system',
        subtype: 'init',
        cwd: '/work',
        session_id: '5b1f',
        tools: ['Bash', 'Read'],
        mcp_servers: [],
        model: 'claude-sonnet-4-5',
        permissionMode: 'default',
      },
      {
        type: 'assistant',
        message: {
          id: 'msg_01',
          type: 'message',
          role: 'assistant',
          content: [{ type: 'text', text: 'I am looking.' }],
          usage: { input_tokens: 3, output_tokens: 1 },
        },
        parent_tool_use_id: null,
        session_id: '5b1f',
      },
      { type: 'user', message: { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'ok' }] } },
    ]
    const result = { type: 'result', duration_ms: 1_200, num_turns: 1, session_id: '5b1f', total_cost_usd: 0.01 }
    assert.deepEqual(hear('claude', ...before), { t: 'going_on' })
    assert.deepEqual(
      hear('claude', ...before, { ...result, subtype: 'success', is_error: false, result: 'Four.' }),
      final('Four.'),
    )
    assert.deepEqual(hear('claude', { ...result, subtype: 'error_max_turns', is_error: true }), {
      t: 'failed',
      reason: 'It ended with error_max_turns.',
    })
    // An error of the model has the subtype success.
    assert.deepEqual(hear('claude', { ...result, subtype: 'success', is_error: true, result: 'API Error: 404' }), {
      t: 'failed',
      reason: 'API Error: 404',
    })
  })

  test('codex exec --json', () => {
    const before = [
      { type: 'thread.started', thread_id: '019a2d7a-41c4-78b1-b7cc-a45d62a89cd5' },
      { type: 'turn.started' },
      { type: 'error', message: 'Reconnecting... 1/5' },
      { type: 'item.completed', item: { id: 'item_0', type: 'reasoning', text: '**Thinking**' } },
      { type: 'item.completed', item: { id: 'item_1', type: 'agent_message', text: 'First.' } },
      { type: 'item.started', item: { id: 'item_2', type: 'command_execution', command: 'ls', status: 'in_progress' } },
      { type: 'item.completed', item: { id: 'item_3', type: 'agent_message', text: '4' } },
    ]
    const usage = { input_tokens: 2_946, cached_input_tokens: 0, output_tokens: 7 }
    assert.deepEqual(hear('codex', ...before), { t: 'going_on' })
    assert.deepEqual(hear('codex', ...before, { type: 'turn.completed', usage }), final('4'))
    assert.equal(hear('codex', { type: 'turn.completed', usage }).t, 'failed')
    assert.deepEqual(hear('codex', { type: 'turn.failed', error: { message: 'No credit.' } }), {
      t: 'failed',
      reason: 'No credit.',
    })
  })

  test('our own: one answer, with calls or with a result; an unknown field is refused', () => {
    const call = { tool: 'look', payload: { n: 1 } }
    const heard = hear('concord', { type: 'log', text: 'x' }, { type: 'answer', text: 'I look.', calls: [call, call] })
    assert.ok(heard.t === 'answer')
    assert.deepEqual(
      heard.answer.calls.map(({ id }) => id),
      ['call_0_0', 'call_0_1'],
    )
    assert.equal(heard.answer.final, null)
    assert.deepEqual(hear('concord', { type: 'answer', final: { total: 4 } }), {
      t: 'answer',
      answer: { text: null, calls: [], final: { total: 4 } },
    })
    assert.throws(() => hear('concord', { type: 'answer', finale: {} }))
    assert.throws(() => dialects.concord.listen(0)('{"type":"answer"'))
  })
})

describe('the requests of programs', () => {
  const [system, user] = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Look.' },
  ] as const
  const said = { role: 'assistant', text: 'I look.', calls: [] }
  const expected = { messages: [system, user, said], outputTokensMax: 9, isStream: true }
  const tools = [{ type: 'function', name: 'Bash' }]

  test('chat completions, messages with blocks and responses are the same request', () => {
    const asked = { model: 'any', stream: true, tools }
    const answered = { role: 'assistant', content: [{ type: 'text', text: 'I look.' }] }
    assert.deepEqual(readRequest({ ...asked, max_tokens: 9, messages: [system, user, answered] }), expected)
    const blocks = { ...asked, max_tokens: 9, system: [{ type: 'text', text: 'Be brief.', cache_control: {} }] }
    assert.deepEqual(readRequest({ ...blocks, messages: [user, answered] }), expected)
    const items = [
      { type: 'additional_tools', role: 'developer', tools },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'Look.' }] },
      { type: 'reasoning', summary: [], content: null },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I look.' }] },
    ]
    const response = { ...asked, max_output_tokens: 9, instructions: 'Be brief.' }
    assert.deepEqual(readRequest({ ...response, input: items }), expected)
    const alone = readRequest({ ...response, stream: null, input: 'Look.' })
    assert.deepEqual(alone, { messages: [system, user], outputTokensMax: 9, isStream: false })
  })

  test('instructions in the middle of a conversation go to its beginning', () => {
    const { messages } = readRequest({ messages: [user, { role: 'developer', content: 'Be brief.' }] })
    assert.deepEqual(messages, [system, user])
  })

  test('a request of another form is refused', () => {
    const none = [{ messages: [] }, { messages: [{ role: 'user' }] }, { messages: [system] }, { input: [{}] }]
    for (const wrong of [null, 1, {}, { messages: 'x' }, { messages: [1] }, { ...user, max_tokens: 0 }, ...none])
      assert.throws(() => readRequest(wrong), JSON.stringify(wrong))
  })

  test('an answer comes back as it is, whole and as a stream', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const usage = { inputTokens: 1, outputTokens: 2, cachedTokens: 0, reasoningTokens: 0 }
        const answer: ModelAnswer = { text, calls: [], usage }
        for (const format of [chatCompletions, blockMessages, responses]) {
          assert.ok(JSON.stringify(format.whole(answer)).includes(JSON.stringify(text)))
          const events = format.stream(answer).matchAll(/^data: (?!\[DONE\])(.*)$/gm)
          const read = [...events].map(([, data = '']) => JSON.parse(data) as unknown)
          assert.ok(JSON.stringify(read).includes(JSON.stringify(text)))
        }
      }),
    )
  })
})
