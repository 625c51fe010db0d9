/** Two servers that others wrote, mounted as they come: over stdio and over streamable HTTP. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type HttpServer, mcpConnector, type McpToolTerms } from '../index.ts'
import { freePort } from '#test/concord-process'
import { openTestGate, type TestGate, testSecrets } from '#test/connectors'
import { approveAll } from '#test/mcp-mount'
import { until } from '#test/until'

const packaged = (name: string) =>
  new URL(`../../../../node_modules/@modelcontextprotocol/${name}/dist/index.js`, import.meta.url).pathname
const node = process.execPath
const reads: McpToolTerms = { side_effect_class: 'none', approval_required: false }
const everything = {
  echo: reads,
  get_sum: { tool: 'get-sum', ...reads },
  weather: { tool: 'get-structured-content', ...reads },
  long: { tool: 'trigger-long-running-operation', ...reads, timeout_ms: 3_000 },
}

describe('servers of others', () => {
  let folder: string
  let gate: TestGate
  let web: ChildProcess
  let said = ''

  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'concord-mcp-real-')))
    const port = await freePort()
    web = spawn(node, [packaged('server-everything'), 'streamableHttp'], {
      env: { PORT: port },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    web.stderr?.setEncoding('utf8').on('data', (text: string) => (said += text))
    await until(() => said.includes('listening'), 'the server')
    const http: HttpServer = {
      url: `http://127.0.0.1:${port}/mcp`,
      auth: { mode: 'bearer', secret_ref: 'vault://web' },
      reach: { allow_http: true, private_networks: ['127.0.0.1'] },
    }
    gate = await openTestGate(
      [
        mcpConnector({
          name: 'everything',
          description: 'Everything.',
          server: { stdio: { command: node, args: [packaged('server-everything')] } },
          tools: everything,
        }),
        mcpConnector({
          name: 'folder',
          description: 'A folder.',
          server: { stdio: { command: node, args: [packaged('server-filesystem'), folder] } },
          tools: { write_file: { side_effect_class: 'opaque' }, read_text_file: reads },
        }),
        mcpConnector({ name: 'web', description: 'Everything.', server: { http }, tools: everything }),
      ],
      testSecrets({ web: 'canary-web-0123456789' }),
    )
    await approveAll(gate)
  })
  after(async () => {
    web.kill('SIGKILL')
    await gate?.close()
    await rm(folder, { recursive: true, force: true })
  })

  for (const name of ['everything', 'web']) {
    test(`${name}: tools answer, with text and with structure`, async () => {
      const echoed = await gate.call(name, 'echo', { message: 'hello' })
      assert.deepEqual(
        echoed.output,
        { content: [{ type: 'text', text: 'Echo: hello' }], structured: null },
        echoed.error?.message,
      )
      const sum = await gate.call(name, 'get_sum', { a: 2, b: 3 })
      assert.match(JSON.stringify(sum.output), /2 and 3 is 5/)
      const weather = await gate.call(name, 'weather', { location: 'Chicago' })
      assert.equal(weather.ok, true, weather.error?.message)
      assert.equal(typeof (weather.output as { structured: { temperature: number } }).structured.temperature, 'number')
    })

    test(`${name}: what its approved schema does not take is refused here`, async () => {
      const { error } = await gate.call(name, 'get_sum', { a: 2, b: 'three' })
      assert.deepEqual([error?.error_class, error?.happened], ['validation_error', 'no'])
    })

    test(`[CON-12] ${name}: a tool that takes too long is given up`, async () => {
      const { error } = await gate.call(name, 'long', { duration: 60, steps: 2 })
      assert.equal(error?.error_class, 'timeout', error?.message)
    })
  }

  test('files are written and read through the server, and what it refuses is a failure of the tool', async () => {
    const path = join(folder, 'note.txt')
    const written = await gate.call('folder', 'write_file', { path, content: 'by a tool' })
    assert.equal(written.ok, true, written.error?.message)
    assert.equal(await readFile(path, 'utf8'), 'by a tool')
    const read = await gate.call('folder', 'read_text_file', { path })
    assert.deepEqual((read.output as { structured: object }).structured, { content: 'by a tool' })
    const outside = await gate.call('folder', 'read_text_file', { path: '/etc/hostname' })
    assert.equal(outside.error?.error_class, 'validation_error')
    assert.match(outside.error?.message ?? '', /the tool failed: .*denied/i)
  })

  test('a server over HTTP that is gone is a failure of the closed list', async () => {
    web.kill('SIGKILL')
    await until(() => web.exitCode !== null || web.signalCode !== null, 'its end')
    const { error } = await gate.call('web', 'echo', { message: 'hello' })
    assert.deepEqual([error?.error_class, error?.happened], ['transient_connector_error', 'no'])
  })
})
