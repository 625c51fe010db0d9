/** The MCP connector under the suite, with a misbehaving server on this machine. */
import { testSecrets } from '#test/connectors'
import { approveAll, openMcpMount } from '#test/mcp-mount'
import type { McpMode } from '#test/mcp-server'
import { describeConnector, type TroubleCase } from './connector.case.ts'

describeConnector('mcp over stdio', () => {
  const mount = openMcpMount()
  const canary = 'canary-mcp-0123456789'
  const write = { capability: 'write_line', input: { line: 'one', pattern: 'a field' } }
  const hurried = { ...write, connector: 'hurried' }
  const set = (mode: McpMode) => () => mount.script({ mode })
  const fails = (mode: McpMode, ends: TroubleCase['ends'], isUnclear = true): TroubleCase => ({
    arrange: set(mode),
    call: write,
    ends,
    isUnclear,
  })
  const echo = (mode: McpMode) => () => {
    mount.script({ mode })
    return Promise.resolve(write)
  }
  return Promise.resolve({
    definitions: [
      mount.declare('lines', { side_effect_class: 'keyed' }),
      mount.declare('hurried', { timeout_ms: 900 }),
    ],
    secrets: testSecrets({ lines: canary }),
    canaries: [canary],
    prepare: approveAll,
    good: write,
    trouble: {
      slow: { arrange: set('slow'), call: hurried, ends: ['timeout'], isUnclear: true },
      failing: fails('die', ['transient_connector_error']),
      lying: fails('lie', ['transient_connector_error']),
      duplicated: { arrange: set('honest'), call: write, ends: 'ok' },
      hanging: { arrange: set('hang'), call: hurried, ends: ['timeout'], isUnclear: true },
      oversized: fails('flood', ['transient_connector_error']),
      malformed: fails('not_json', ['transient_connector_error']),
    },
    echoes: [echo('echo'), echo('tool_error'), echo('honest')],
    write: { call: { ...write, input: { line: 'two' } }, count: () => mount.noted('write').length },
    endless: {
      call: write,
      arrange: set('hang'),
      isReleased: () => mount.noted('started').length > 0 && mount.isGone(),
    },
    behave: set('honest'),
    close() {
      mount.close()
      return Promise.resolve()
    },
  })
})
