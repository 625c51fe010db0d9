/**
 * The CLI of the MCP inspector as the client: it lists, calls, and reads the result after a person has approved over HTTP. It is no dependency: its
 * install has 110 MB and 120 packages. `npx` fetches the pinned version into the cache of npm, and the test is left out where it cannot.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { type CallToolResult, type McpApi, openMcpApi } from '#test/mcp-clients'

const INSPECTOR = '@modelcontextprotocol/inspector@2.12.0'
/** The download alone took 42 s. */
const PATIENT_MS = 300_000
const run = promisify(execFile)

describe('the inspector', () => {
  let mcp: McpApi
  let key: string
  let folder: string
  before(async () => {
    mcp = await openMcpApi()
    key = await mcp.keyOf(['publish_note', 'read_books'])
    folder = await mkdtemp(join(tmpdir(), 'concord-inspector-'))
  })
  after(async () => {
    await mcp.close()
    await rm(folder, { recursive: true, force: true })
  })

  async function inspector(args: readonly string[]): Promise<string> {
    const PATH = `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}`
    const env = { ...process.env, PATH, HOME: folder, npm_config_cache: cache }
    const command = ['--yes', '--package', INSPECTOR, 'mcp-inspector', '--cli', ...args]
    return (await run('npx', command, { env, cwd: folder, timeout: PATIENT_MS })).stdout
  }
  const cache = process.env['npm_config_cache'] ?? join(process.env['HOME'] ?? tmpdir(), '.npm')
  const ask = async (method: string, ...more: readonly string[]) => {
    const headers = Object.entries(mcp.headersOf(key)).map(([name, value]) => `${name}: ${value}`)
    const told = await inspector([
      mcp.url.href,
      '--transport',
      'http',
      '--header',
      ...headers,
      '--method',
      method,
      ...more,
    ])
    return JSON.parse(told) as CallToolResult & { readonly tools: readonly { readonly name: string }[] }
  }
  const call = async (tool: string, ...args: readonly string[]) => {
    const result = await ask('tools/call', '--tool-name', tool, '--tool-arg', ...args)
    return result.structuredContent as { command_id: string; status: string; decision: string }
  }

  test('lists the tools, calls one that waits for a person, and gets the result after the approval over HTTP', {
    timeout: 3 * PATIENT_MS,
  }, async (t) => {
    const missing = await inspector(['--version']).then(
      () => undefined,
      (error: Error) => error.message,
    )
    if (missing !== undefined) return t.skip(`npx cannot get ${INSPECTOR}: ${missing.slice(0, 300)}`)
    const { tools } = await ask('tools/list')
    assert.deepEqual(
      tools.map(({ name }) => name),
      ['publish_note', 'read_books', 'get_command'],
    )
    const waits = await call('publish_note', 'subject=May', 'destination=external:finance@example.com')
    assert.deepEqual([waits.decision, waits.status], ['require_approval', 'waiting_for_approval'])
    assert.deepEqual(mcp.room.provider.calls, [])
    await mcp.decide(waits.command_id)
    const ended = await call('get_command', `command_id=${waits.command_id}`)
    assert.deepEqual([ended.command_id, ended.status], [waits.command_id, 'succeeded'])
    assert.equal(mcp.room.provider.calls.length, 1)
  })
})
