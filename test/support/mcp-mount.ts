/** The misbehaving MCP server as a connector, with its script and its log, and a person who approves its definitions. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  approveDefinition,
  type ConnectorDefinition,
  mcpConnector,
  type McpToolTerms,
} from '../../src/domains/connectors/index.ts'
import { newId } from './concord-rows.ts'
import type { TestGate } from './connectors.ts'
import type { McpScript } from './mcp-server.ts'
import { accepted, TRACE } from './tenant.ts'

export const mcpServerFile = new URL('./mcp-server.ts', import.meta.url).pathname

export type McpMount = {
  readonly folder: string
  script(script: McpScript): void
  /** All log entries of a kind, over all starts. */
  noted(kind: 'started' | 'asked' | 'write' | 'traceparent'): readonly unknown[]
  declare(name: string, terms?: McpToolTerms): ConnectorDefinition
  /** True when every process that was started has ended. */
  isGone(): boolean
  close(): void
}

export function openMcpMount(): McpMount {
  const folder = mkdtempSync(join(tmpdir(), 'concord-mcp-'))
  const [scriptFile, writesFile] = [join(folder, 'script.json'), join(folder, 'writes.jsonl')]
  writeFileSync(scriptFile, '{}')
  writeFileSync(writesFile, '')
  const mount: McpMount = {
    folder,
    script: (script) => writeFileSync(scriptFile, JSON.stringify(script)),
    noted: (kind) =>
      readFileSync(writesFile, 'utf8')
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line) as { kind: string; value: unknown })
        .flatMap((entry) => (entry.kind === kind ? [entry.value] : [])),
    declare: (name, terms = {}) =>
      mcpConnector({
        name,
        description: 'Writes lines.',
        server: {
          stdio: {
            command: process.execPath,
            args: [mcpServerFile, scriptFile, writesFile],
            env: { LINES_PLAIN: 'plain' },
            secret_env: { LINES_CANARY: 'vault://lines' },
          },
        },
        breaker: { failures: 1_000, open_ms: 1 },
        tools: { write_line: { tool: 'write-line', ...terms } },
      }),
    isGone: () => mount.noted('started').every((pid) => !isAlive(Number(pid))),
    close: () => rmSync(folder, { recursive: true, force: true }),
  }
  return mount
}

function isAlive(pid: number): boolean {
  try {
    // A zombie still has its process id.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return !/\) [ZX] /.test(stat)
  } catch {
    return false
  }
}

/** Approves every definition that the provider reports now. */
export async function approveAll(gate: TestGate): Promise<void> {
  for (const definition of gate.connectors.definitions) {
    const asked = { workspaceId: gate.world.workspace, traceId: TRACE, signal: new AbortController().signal }
    for (const { operation, seen_hash } of accepted(await gate.connectors.check(definition.name, asked)))
      accepted(
        await approveDefinition({ db: gate.db, now: () => new Date(), newId }, definition, {
          ...asked,
          operation,
          hash: seen_hash,
          principal: { userId: gate.world.user },
        }),
      )
  }
}
