/** Concord as an MCP server: stock clients call a tool over HTTP and standard input, wait, and get the result, also when the server is killed while they wait. */
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import {
  type CallToolResult,
  type Client,
  connectTo,
  type Mode,
  resultFromTaskOutcome,
  startClient,
  taskSession,
  TASKS,
} from '#test/mcp-clients'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

type View = { readonly command_id: string; readonly status: string }
const viewOf = (result: unknown) => (result as CallToolResult).structuredContent as View

describe('the MCP server of a real process', () => {
  let ownerKey: string
  let agentKey: string
  let report: { artifact_id: string; checksum: string }
  const server = withServer({
    config(folder) {
      const examples = new URL('../../examples/catalog/index.ts', import.meta.url).href
      const options = JSON.stringify({ vendorUrl: 'http://127.0.0.1:1', folder: join(folder, 'examples') })
      return `import { exampleCatalog } from ${JSON.stringify(examples)}\nexport default { catalog: exampleCatalog(${options}) }\n`
    },
    async ready({ hire, as, concord }) {
      const ana = await hire('ana')
      agentKey = (await as(ana, 'keys', 'create', '--agent', 'planner', '--tools', 'publish_report')).out.trim()
      ownerKey = await hire('dora', 'data-owner')
      const payload = '{"report_type":"monthly_revenue","date_range":"2026-05"}'
      const made = await concord('submit', 'Generate Report', '--payload', payload, '--wait', '--json')
      assert.equal(made.code, 0, made.err)
      report = (JSON.parse(made.out) as { result: typeof report }).result
    },
  })
  const headers = () => ({ authorization: `Bearer ${agentKey}` })
  const url = () => new URL('/mcp', server.address)
  const connect = (over: 'http' | 'stdio', mode: Mode) =>
    over === 'http'
      ? connectTo(url(), headers(), mode)
      : startClient({ ...server.env, CONCORD_KEY: agentKey, CONCORD_URL: server.address }, server.folder, mode)
  const letters = async () => {
    const names = await readdir(join(server.folder, 'examples', 'outbox')).catch(() => [])
    return names.filter((name) => !name.includes('draft')).length
  }
  const argumentsTo = (name: string) => ({
    artifact_id: report.artifact_id,
    checksum: report.checksum,
    destination: `external:${name}@example.com`,
    _reason: 'Finance asked for it.',
  })

  const ask = async (method: string, path: string, body?: object) => {
    const response = await fetch(`${server.address}${path}`, {
      method,
      headers: { authorization: `Bearer ${ownerKey}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    return (await response.json()) as Record<string, unknown>
  }
  type Approval = { readonly approval_id: string; readonly command_id: string }
  const open = async () => (await ask('GET', '/approvals')) as { readonly items: readonly Approval[] }
  /** The owner of the data approves over HTTP what waits. */
  async function approve(): Promise<string> {
    await until(async () => (await open()).items.length === 1, 'an approval')
    const [approval] = (await open()).items
    await ask('POST', `/approvals/${approval?.approval_id}/resolve`, { decision: 'approved', reason: 'They may.' })
    return approval?.command_id ?? ''
  }
  async function result(client: Client, called: Promise<unknown>): Promise<View> {
    const view = viewOf(await called)
    if (view.status === 'succeeded') return view
    // A client of an earlier revision gets the name of the tool that reads the command.
    const { command_id } = view
    return viewOf(await client.callTool({ name: 'get_command', arguments: { command_id } }))
  }

  for (const over of ['http', 'stdio'] as const)
    for (const mode of ['modern', 'legacy'] as const)
      test(`the stock client (${mode}, ${over}) lists, calls, waits, and gets the result after the approval over HTTP`, async () => {
        const client = await connect(over, mode)
        try {
          const { tools } = await client.listTools()
          assert.deepEqual(
            tools.map(({ name }) => name),
            ['publish_report', 'get_command'],
          )
          const before = await letters()
          const called = client.callTool({ name: 'publish_report', arguments: argumentsTo(`${over}-${mode}`) })
          const commandId = await approve()
          assert.deepEqual(
            [(await result(client, called)).status, (await result(client, called)).command_id],
            ['succeeded', commandId],
          )
          assert.equal(await letters(), before + 1)
        } finally {
          await client.close()
        }
      })

  for (const mode of ['modern', 'legacy'] as const)
    test(`a client over standard input (${mode}) waits through a kill of the server, and its call is one command`, async () => {
      const client = await connect('stdio', mode)
      try {
        const before = await letters()
        const called = client.callTool({ name: 'publish_report', arguments: argumentsTo(`kill-${mode}`) })
        await until(async () => (await open()).items.length === 1, 'an approval')
        await server.stop('SIGKILL')
        await server.serve()
        const commandId = await approve()
        const view = await result(client, called)
        assert.deepEqual([view.status, view.command_id], ['succeeded', commandId])
        assert.equal(await letters(), before + 1)
      } finally {
        await client.close()
      }
    })

  test('a task is still there after a kill of the server', async () => {
    const capabilities = { extensions: { [TASKS]: {} } }
    const open = async () => taskSession(await connectTo(url(), headers(), 'modern', capabilities), url(), headers())
    const first = await open()
    const execution = await first.callTool('publish_report', argumentsTo('task'))
    assert.ok(execution.kind === 'task')
    const { taskId } = execution.handle
    await execution.detach()
    await first.close()
    await server.stop('SIGKILL')
    await server.serve()
    const second = await open()
    const task = second.task(taskId)
    assert.equal((await task.snapshot()).status, 'working')
    assert.equal(await approve(), taskId)
    await until(async () => (await task.snapshot()).status === 'completed', 'the task')
    assert.equal(viewOf(resultFromTaskOutcome(await task.result())).status, 'succeeded')
    await second.close()
  })

  test('a server that stops answers the calls that it holds', async () => {
    const client = await connect('http', 'legacy')
    const pending = await client.callTool({ name: 'publish_report', arguments: argumentsTo('stop') })
    const { command_id } = viewOf(pending)
    const held = client.callTool({ name: 'get_command', arguments: { command_id } })
    // A later request of the same client is answered, so the server has read the one before.
    await client.listTools()
    await server.stop('SIGTERM')
    assert.equal(viewOf(await held).status, 'waiting_for_approval')
    await client.close()
    await server.serve()
    assert.equal(await approve(), command_id)
  })
})
