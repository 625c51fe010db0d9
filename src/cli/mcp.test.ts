/** `concord mcp`: each line is one request to `/mcp`, with the headers that the protocol asks for, and each answer is one line. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { EventFrames, Problem, runAgainst } from '#test/recorded-server'

const AT = 'POST /mcp'
const request = (id: number, method: string, params: object = {}) => ({ jsonrpc: '2.0', id, method, params })
const lines = (...messages: (object | string)[]) =>
  messages.map((each) => `${typeof each === 'string' ? each : JSON.stringify(each)}\n`).join('')
type Answer = { readonly id?: unknown; readonly error?: { readonly code: number; readonly data: object } }
const answersIn = (out: string) =>
  out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Answer)

describe('mcp', () => {
  test('sends a request with the key and the headers of its revision, and prints the answer', async () => {
    const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
    const stdin = lines(request(1, 'tools/call', { name: 'größe', arguments: {}, _meta }))
    const { code, out, err, heard } = await runAgainst({ [AT]: { jsonrpc: '2.0', id: 1, result: {} } }, ['mcp'], {
      stdin,
    })
    assert.deepEqual([code, err], [0, ''])
    assert.deepEqual(answersIn(out), [{ jsonrpc: '2.0', id: 1, result: {} }])
    const { headers, body } = heard[0] ?? assert.fail('nothing was sent')
    assert.equal(headers['authorization'], 'Bearer ck_test')
    assert.equal(headers['mcp-protocol-version'], '2026-07-28')
    assert.equal(headers['mcp-method'], 'tools/call')
    assert.equal(headers['mcp-name'], `=?base64?${Buffer.from('größe').toString('base64')}?=`)
    const sent = body as { params: { _meta: Record<string, string> } }
    assert.match(sent.params._meta['concord/idempotency-key'] ?? '', /^[0-9a-f-]{36}$/)
  })

  test('the key of the agent goes before the key of the person in the same environment', async () => {
    const environment = { CONCORD_AGENT_KEY: 'ck_agent' }
    const answer = { jsonrpc: '2.0', id: 1, result: {} }
    const { heard } = await runAgainst({ [AT]: answer }, ['mcp'], { stdin: lines(request(1, 'ping')), environment })
    assert.equal(heard[0]?.headers['authorization'], 'Bearer ck_agent')
  })

  test('a lost connection is tried again with the same key', async () => {
    const answer = { jsonrpc: '2.0', id: 1, result: { content: [] } }
    const stdin = lines(request(1, 'tools/call', { name: 'a' }))
    const { out, heard } = await runAgainst({ [AT]: ['hang up', answer] }, ['mcp'], { stdin })
    assert.deepEqual(answersIn(out), [answer])
    const metaIn = (all: typeof heard) => all.map(({ body }) => (body as { params: { _meta: object } }).params._meta)
    const keys = metaIn(heard)
    assert.equal(keys.length, 2)
    assert.deepEqual(keys[0], keys[1])
    const own = { 'concord/idempotency-key': 'step-1' }
    const given = await runAgainst({ [AT]: answer }, ['mcp'], {
      stdin: lines(request(1, 'tools/call', { name: 'a', _meta: own })),
    })
    assert.deepEqual(metaIn(given.heard), [own])
  })

  test('reads an answer of server-sent events, and a problem as an error', async () => {
    const event = { jsonrpc: '2.0', id: 1, result: { tools: [] } }
    const streamed = await runAgainst({ [AT]: new EventFrames([event]) }, ['mcp'], {
      stdin: lines(request(1, 'tools/list')),
    })
    assert.deepEqual(answersIn(streamed.out), [event])
    const refused = await runAgainst({ [AT]: new Problem(403, 'api.route.closed_to_agents') }, ['mcp'], {
      stdin: lines(request(7, 'tools/list')),
    })
    const [error] = answersIn(refused.out)
    assert.equal(error?.id, 7)
    assert.deepEqual(error?.error?.data, { code: 'api.route.closed_to_agents' })
  })

  test('a broken line is answered and the next one served; notifications have no answer', async () => {
    const answer = { jsonrpc: '2.0', id: 2, result: {} }
    const stdin = lines(
      '{',
      '',
      '{"jsonrpc":"2.0","id":1,"id":2}',
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      request(2, 'ping'),
    )
    const { code, out, heard } = await runAgainst({ [AT]: answer }, ['mcp'], { stdin })
    assert.equal(code, 0)
    const [first, second, third] = answersIn(out)
    assert.deepEqual(
      [first, second].map((each) => each?.error?.code),
      [-32_700, -32_700],
    )
    assert.deepEqual(third, answer)
    assert.equal(heard.length, 1)
  })
})
