/** `concord connectors`: the doors to other systems, what each operation promises, and what was called. */
import type { Command } from 'commander'
import { showLine } from '#kernel/visible-text'
import { askServer, showAnswer } from './ask-server.ts'
import { addPaging, type Page, queryOf, shortJson } from './command-view.ts'
import { type Cli, formatTable, type Terminal } from './terminal.ts'

type ConnectorView = {
  readonly connector_id: string
  readonly connector_type: string
  readonly description: string
  readonly capabilities: readonly string[]
  readonly auth: { readonly mode: string; readonly scopes: readonly string[] }
  readonly rate_limits: { readonly requests_per_minute: number | null; readonly concurrent: number | null }
  readonly risk_level: string
  readonly is_open: boolean
}

type OperationView = {
  readonly name: string
  readonly description: string
  readonly side_effect_class: string
  readonly risk_level: string
  readonly requires_approval: boolean
  readonly compensation: string | null
}

type InvocationView = {
  readonly connector_invocation_id: string
  readonly operation: string
  readonly status: string
  readonly command_id: string
  readonly attempt: number | null
  readonly latency_ms: number | null
  readonly error: string | null
  readonly created_at: string
}

type DefinitionView = {
  readonly operation: string
  readonly status: string
  readonly seen_hash: string
  readonly changes: readonly { readonly path: string; readonly was: string | null; readonly is: string | null }[]
}

type CallOptions = { status?: string; limit: number; cursor?: string }

export function addConnectors(program: Command, cli: Cli): void {
  const connectors = program
    .command('connectors')
    .description('list the doors to other systems, look at one, see its calls')
  const { terminal } = cli
  const at = (id: string) => `/connectors/${encodeURIComponent(id)}`

  connectors
    .command('list')
    .description('list the connectors of this installation')
    .addHelpText('after', '\nExample:\n  $ concord connectors list\n')
    .action(
      cli.handle(async () => {
        const listed = await askServer<{ items: readonly ConnectorView[] }>(cli, 'GET', '/connectors')
        return showAnswer(cli, program, listed, ({ items }) => {
          if (items.length === 0)
            return terminal.err('There are none: defineProject({ connectors: [ … ] }) brings them.\n')
          terminal.out(formatTable(['connector', 'type', 'risk', 'limits', 'operations'], items.map(connectorRow)))
        })
      }),
    )

  connectors
    .command('show <id>')
    .description('show a connector and the contract of every operation')
    .addHelpText('after', '\nExample:\n  $ concord connectors show hotel_booking\n')
    .action(
      cli.handle(async (id: string) => {
        const found = await askServer<ConnectorView & { operations: readonly OperationView[] }>(cli, 'GET', at(id))
        return showAnswer(cli, program, found, (connector) => showConnector(terminal, connector))
      }),
    )

  for (const [verb, method, said] of [
    ['definitions', 'GET', 'show what a provider that describes itself said last, and what was approved'],
    ['check', 'POST', 'ask a provider what it says about itself now; calls none of its operations'],
  ] as const)
    connectors
      .command(`${verb} <id>`)
      .description(said)
      .addHelpText('after', `\nExample:\n  $ concord connectors ${verb} tickets\n`)
      .action(
        cli.handle(async (id: string) => {
          const path = `${at(id)}/definitions${verb === 'check' ? '/check' : ''}`
          const listed = await askServer<{ items: readonly DefinitionView[] }>(cli, method, path)
          return showAnswer(cli, program, listed, ({ items }) => showDefinitions(terminal, id, items))
        }),
      )

  connectors
    .command('approve <id> <operation> <hash>')
    .description('approve the definition of an operation as it was shown')
    .addHelpText('after', '\nExample:\n  $ concord connectors approve tickets open_ticket sha256:9f86d081…\n')
    .action(
      cli.handle(async (id: string, operation: string, hash: string) => {
        const path = `${at(id)}/definitions/${encodeURIComponent(operation)}/approve`
        const approved = await askServer<DefinitionView>(cli, 'POST', path, { hash })
        return showAnswer(cli, program, approved, (definition) =>
          terminal.out(`${showLine(definition.operation)} is approved as ${showLine(definition.seen_hash)}\n`),
        )
      }),
    )

  addPaging(connectors.command('calls <id>'))
    .description('list the calls of a connector in the workspace, newest first')
    .option('--status <status>', 'only those: started, succeeded or failed')
    .addHelpText('after', '\nExample:\n  $ concord connectors calls hotel_booking --status failed\n')
    .action(
      cli.handle(async (id: string, { status, limit, cursor }: CallOptions) => {
        const path = `${at(id)}/invocations${queryOf({ status, limit, cursor })}`
        const listed = await askServer<Page<InvocationView>>(cli, 'GET', path)
        return showAnswer(cli, program, listed, ({ items, next_cursor }) => {
          if (items.length === 0) return terminal.err('Nothing was called.\n')
          const rows = items.map((call) => [
            call.created_at,
            showLine(call.operation),
            call.status,
            call.latency_ms === null ? '' : `${call.latency_ms} ms`,
            call.command_id,
            showLine(call.error ?? ''),
          ])
          terminal.out(formatTable(['begun', 'operation', 'status', 'took', 'command', 'error'], rows))
          if (next_cursor !== null) terminal.err(`there are more: add --cursor ${showLine(next_cursor)}\n`)
        })
      }),
    )
}

function showDefinitions(terminal: Terminal, id: string, items: readonly DefinitionView[]): void {
  if (items.length === 0) terminal.err('Nothing is known of it yet: concord connectors check asks the provider.\n')
  for (const { operation, status, seen_hash, changes } of items) {
    terminal.out(`${showLine(operation)}  ${status}  ${showLine(seen_hash)}\n`)
    if (status === 'approved') continue
    for (const { path, was, is } of changes) {
      if (was !== null) terminal.out(`  - ${showLine(path)}: ${showLine(was)}\n`)
      if (is !== null) terminal.out(`  + ${showLine(path)}: ${showLine(is)}\n`)
    }
    terminal.err(`  to approve it: concord connectors approve ${id} ${showLine(operation)} ${showLine(seen_hash)}\n`)
  }
}

function connectorRow(connector: ConnectorView): string[] {
  const { connector_id, connector_type, risk_level, capabilities, is_open } = connector
  const name = showLine(connector_id)
  return [
    is_open ? name : `${name} (resting)`,
    showLine(connector_type),
    showLine(risk_level),
    limitsOf(connector),
    capabilities.map(showLine).join(', '),
  ]
}

function limitsOf({ rate_limits: { requests_per_minute: rate, concurrent } }: ConnectorView): string {
  return (
    [rate === null ? '' : `${rate}/min`, concurrent === null ? '' : `${concurrent} at once`]
      .filter(Boolean)
      .join(', ') || 'none'
  )
}

function showConnector(terminal: Terminal, connector: ConnectorView & { operations: readonly OperationView[] }): void {
  terminal.out(`${showLine(connector.connector_id)}  ${showLine(connector.description)}\n`)
  terminal.out(
    `  proves itself by ${showLine(connector.auth.mode)}, scopes ${shortJson(connector.auth.scopes, 200)}, limits ${limitsOf(connector)}\n`,
  )
  const rows = connector.operations.map((operation) => [
    showLine(operation.name),
    showLine(operation.side_effect_class),
    showLine(operation.risk_level),
    operation.requires_approval ? 'always' : 'by policy',
    showLine(operation.compensation ?? ''),
    showLine(operation.description),
  ])
  terminal.out(formatTable(['operation', 'side effect', 'risk', 'approval', 'undone by', 'what it does'], rows))
}
