/** Concord as an MCP server, called by the stock clients of both generations over HTTP. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  type CallToolResult,
  type Client,
  type McpApi,
  MODERN,
  openMcpApi,
  resultFromTaskOutcome,
} from '#test/mcp-clients'
import { until } from '#test/until'

const OUTSIDE = { subject: 'May', destination: 'external:finance@example.com' }
const INSIDE = { subject: 'May', destination: 'internal' }

type View = {
  readonly command_id: string
  readonly status: string
  readonly decision: string
  readonly output: unknown
}
const viewOf = (result: unknown) => (result as CallToolResult).structuredContent as View
const textOf = (result: unknown) =>
  (result as CallToolResult).content.map((part) => (part.type === 'text' ? part.text : '')).join('\n')

describe('the MCP server', () => {
  let mcp: McpApi
  let key: string
  before(async () => {
    mcp = await openMcpApi()
    key = await mcp.keyOf(['publish_note', 'forbidden_note', 'read_books'])
  })
  after(() => mcp.close())

  /** The newest command of a tool. */
  const newest = async () => {
    const [row] = await mcp.room.rows<{ id: string; status: string; context: { metadata: Record<string, unknown> } }>(
      `select 'cmd_' || replace(command_id::text, '-', '') as id, status, context
         from concord.commands order by created_at desc, command_id desc limit 1`,
    )
    return row
  }
  const waiting = async (before: number) => {
    await until(async () => (await mcp.count('approvals')) > before, 'an approval')
    return (await newest())?.id ?? ''
  }
  async function withClient<T>(mode: 'modern' | 'legacy', use: (client: Client) => Promise<T>, by = key): Promise<T> {
    const client = await mcp.connect(by, mode)
    try {
      return await use(client)
    } finally {
      await client.close()
    }
  }

  for (const mode of ['modern', 'legacy'] as const) {
    test(`lists the tools of the key with their contracts (${mode})`, () =>
      withClient(mode, async (client) => {
        assert.equal(client.getNegotiatedProtocolVersion(), mode === 'modern' ? MODERN : '2025-11-25')
        const { tools } = await client.listTools()
        assert.deepEqual(
          tools.map(({ name, annotations }) => [name, annotations?.readOnlyHint, annotations?.destructiveHint]),
          [
            ['forbidden_note', false, true],
            ['publish_note', false, true],
            ['read_books', true, false],
            ['get_command', true, undefined],
          ],
        )
        const [note] = tools
        assert.equal(note?.inputSchema.type, 'object')
        assert.deepEqual(Object.keys(note?.inputSchema.properties ?? {}), [
          'subject',
          'destination',
          'customer',
          'api_key',
          '_reason',
        ])
        assert.deepEqual(note?.inputSchema.required, ['subject'])
      }))

    test(`a call is a proposal: done, denied or invalid, and never an exception (${mode})`, () =>
      withClient(mode, async (client) => {
        const asked = { ...INSIDE, _reason: 'Finance asked for it.' }
        const done = await client.callTool({ name: 'publish_note', arguments: asked })
        assert.deepEqual([done.isError, viewOf(done).status, viewOf(done).decision], [undefined, 'succeeded', 'allow'])
        const command = await newest()
        assert.equal(command?.id, viewOf(done).command_id)
        assert.equal(command?.context.metadata['reason'], 'Finance asked for it.')
        const denied = await client.callTool({ name: 'forbidden_note', arguments: INSIDE })
        assert.deepEqual([denied.isError, viewOf(denied).decision], [true, 'deny'])
        assert.match(textOf(denied), /^Denied\. Nothing is allowed here\./)
        assert.equal((await newest())?.context.metadata['reason'], 'The agent gave no reason.')
        const malformed = await client.callTool({ name: 'publish_note', arguments: { subject: 7 } })
        assert.equal(malformed.isError, true)
        assert.match(textOf(malformed), /subject/)
        const blank = await client.callTool({ name: 'publish_note', arguments: { ...INSIDE, _reason: ' ' } })
        assert.match(textOf(blank), /mcp\.argument\.invalid at _reason/)
      }))

    test(`an unknown tool and a tool outside the key are errors of the protocol, on record (${mode})`, () =>
      withClient(mode, async (client) => {
        const commands = await mcp.count('commands')
        for (const [name, code, nearest] of [
          ['publish_notes', 'commands.tool.unknown', / Did you mean `publish_note`\?$/],
          // A tool that the key does not cover is not suggested.
          ['confirm_notes', 'commands.tool.unknown', / for this key\.$/],
          ['confirm_note', 'commands.tool.outside_scope', / for this key\.$/],
          ['work', 'commands.tool.forbidden', / for this key\.$/],
        ] as const) {
          const call = client.callTool({ name, arguments: INSIDE })
          await assert.rejects(call, { code: -32_602, data: { code }, message: nearest })
          const [event] = await mcp.room.rows<{ code: string }>(
            `select payload->>'code' as code from concord.domain_events where event_type = 'command_rejected' order by seq desc limit 1`,
          )
          assert.equal(event?.code, code)
        }
        assert.equal(await mcp.count('commands'), commands)
      }))
  }

  test('a person sees every task that is open to agents', () =>
    withClient(
      'modern',
      async (client) => {
        const { tools } = await client.listTools()
        const names = tools.map(({ name }) => name)
        assert.ok(names.includes('confirm_note') && names.includes('publish_note'))
        assert.ok(!names.includes('work'))
      },
      mcp.api.ours.people.writer.key,
    ))

  test('2026-07-28: a call that waits for people is held in rounds, and returns the result when they have approved over HTTP', () =>
    withClient('modern', async (client) => {
      const before = await mcp.count('approvals')
      const called = client.callTool({ name: 'publish_note', arguments: OUTSIDE })
      const commandId = await waiting(before)
      await mcp.decide(commandId)
      const result = await called
      assert.deepEqual([viewOf(result).command_id, viewOf(result).status], [commandId, 'succeeded'])
    }))

  test('2026-07-28: a rejected call is a result with isError', () =>
    withClient('modern', async (client) => {
      const before = await mcp.count('approvals')
      const called = client.callTool({ name: 'publish_note', arguments: OUTSIDE })
      await mcp.decide(await waiting(before), 'rejected')
      const result = await called
      assert.deepEqual([result.isError, viewOf(result).status], [true, 'failed'])
    }))

  test('earlier revisions: a call that waits names get_command, which waits for the result', () =>
    withClient('legacy', async (client) => {
      const pending = await client.callTool({ name: 'publish_note', arguments: OUTSIDE })
      const { command_id, status } = viewOf(pending)
      assert.deepEqual([pending.isError, status], [undefined, 'waiting_for_approval'])
      assert.match(textOf(pending), new RegExp(`get_command with \\{"command_id":"${command_id}"\\}`))
      const get = { name: 'get_command', arguments: { command_id, wait_seconds: 0 } }
      assert.equal(viewOf(await client.callTool(get)).status, 'waiting_for_approval')
      const held = client.callTool({ name: 'get_command', arguments: { command_id } })
      await mcp.decide(command_id)
      assert.equal(viewOf(await held).status, 'succeeded')
      for (const bad of [{ command_id: 'cmd_x' }, { command_id, wait_seconds: 21 }, { command_id, more: 1 }, {}])
        assert.equal((await client.callTool({ name: 'get_command', arguments: bad })).isError, true)
    }))

  test('the tasks extension: the id of the task is the command, and the result comes when people have approved', async () => {
    const session = await mcp.connectTasks(key)
    try {
      const execution = await session.callTool('publish_note', OUTSIDE)
      assert.equal(execution.kind, 'task')
      assert.ok(execution.kind === 'task')
      const { taskId } = execution.handle
      assert.equal(taskId, (await newest())?.id)
      const working = await session.task(taskId).snapshot()
      assert.equal(working.status, 'working')
      assert.match(working.statusMessage ?? '', /must agree/)
      await mcp.decide(taskId)
      await until(async () => (await session.task(taskId).snapshot()).status === 'completed', 'the task')
      const result = resultFromTaskOutcome(await session.task(taskId).result())
      assert.deepEqual([viewOf(result).command_id, viewOf(result).status], [taskId, 'succeeded'])
      await execution.detach()
      const quick = await session.callTool('read_books', { subject: 's' })
      assert.equal(quick.kind, 'immediate')
    } finally {
      await session.close()
    }
  })

  test('the tasks extension: a cancelled task is a cancelled command, and one that has ended keeps its outcome', async () => {
    const session = await mcp.connectTasks(key)
    try {
      const execution = await session.callTool('publish_note', OUTSIDE)
      assert.ok(execution.kind === 'task')
      const { taskId } = execution.handle
      await session.cancelTask(taskId)
      await until(async () => (await newest())?.status === 'cancelled', 'the command')
      assert.equal((await session.task(taskId).snapshot()).status, 'cancelled')
      const done = await mcp.propose(INSIDE, {}, key)
      const ended = session.task(done.body['command_id'] as never)
      await until(async () => (await ended.snapshot()).status === 'completed', 'the other task')
      await ended.cancel()
      assert.equal(viewOf(resultFromTaskOutcome(await ended.result())).status, 'succeeded')
    } finally {
      await session.close()
    }
  })

  test('a command that a person cancels ends the wait with isError', () =>
    withClient('modern', async (client) => {
      const before = await mcp.count('approvals')
      const called = client.callTool({ name: 'publish_note', arguments: OUTSIDE })
      const commandId = await waiting(before)
      await mcp.post(`/commands/${commandId}/cancel`, {}, mcp.api.ours.people.admin.key)
      const result = await called
      assert.deepEqual([result.isError, viewOf(result).status], [true, 'cancelled'])
    }))

  test('a client that leaves in the middle leaves its command, which the same idempotency key finds again', () =>
    withClient('modern', async (client) => {
      const [approvals, commands] = [await mcp.count('approvals'), await mcp.count('commands')]
      const _meta = { 'concord/idempotency-key': 'step-7', 'concord/reason': 'It is due.' }
      const call = { name: 'publish_note', arguments: OUTSIDE, _meta }
      const leaving = new AbortController()
      const left = client.callTool(call, { signal: leaving.signal })
      const commandId = await waiting(approvals)
      leaving.abort()
      await assert.rejects(left)
      const again = client.callTool(call)
      await mcp.decide(commandId)
      assert.equal(viewOf(await again).command_id, commandId)
      assert.equal(await mcp.count('commands'), commands + 1)
      assert.equal((await newest())?.context.metadata['reason'], 'It is due.')
      const reused = await client.callTool({ ...call, arguments: { ...OUTSIDE, subject: 'June' } })
      assert.equal(reused.isError, true)
      assert.match(textOf(reused), /key_reused/)
    }))

  test('the id of a JSON-RPC request is never a key', async () => {
    const message = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'publish_note', arguments: INSIDE },
    }
    const commands = await mcp.count('commands')
    for (const _ of [1, 2]) assert.equal((await mcp.rpc(key, message)).status, 200)
    assert.equal(await mcp.count('commands'), commands + 2)
  })
})
