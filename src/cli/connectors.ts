/** `concord connectors`: lists connectors, their operations, their calls, and approves definitions. */
import type { connectorDetailView, connectorView, definitionView, invocationView } from '#domains/connectors'
import { showLine } from '#kernel/visible-text'
import { askServer, type Page, queryOf } from './client.ts'
import { listVerb, noun, type PageFlags, paging, type ViewOf, table, verb } from './noun.ts'
import { shortJson, type Terminal } from './terminal.ts'

type ConnectorView = ViewOf<typeof connectorView>
type DetailView = ViewOf<typeof connectorDetailView>
type DefinitionView = ViewOf<typeof definitionView>
type OperationView = DetailView['operations'][number]

export const connectors = noun('list connectors, show one, list its calls', (cli) => {
  const { terminal } = cli
  const at = (id: string, rest = '') => `/connectors/${encodeURIComponent(id)}${rest}`
  const definitions = (name: 'definitions' | 'check', description: string) =>
    verb({
      description,
      examples: [`concord connectors ${name} tickets`],
      ask: (id: string) =>
        name === 'check'
          ? askServer<Page<DefinitionView>>(cli, 'POST', at(id, '/definitions/check'))
          : askServer<Page<DefinitionView>>(cli, 'GET', at(id, '/definitions')),
      say: ({ items }, id) => showDefinitions(terminal, id, items),
    })
  return {
    list: listVerb<ConnectorView, []>({
      description: 'list the connectors of this installation',
      examples: ['concord connectors list'],
      at: () => '/connectors',
      none: () => 'There are none. Add them with defineProject({ connectors: [ … ] }).',
      columns: {
        connector: ({ connector_id, is_open }) => (is_open ? connector_id : `${connector_id} (resting)`),
        type: ({ connector_type }) => connector_type,
        risk: ({ risk_level }) => risk_level,
        limits: limitsOf,
        operations: ({ capabilities }) => capabilities.join(', '),
      },
    }),
    'show <id>': verb({
      description: 'show a connector and the contract of every operation',
      examples: ['concord connectors show hotel_booking'],
      ask: (id: string) => askServer<DetailView>(cli, 'GET', at(id)),
      say: (connector) => formatConnector(terminal, connector),
    }),
    'definitions <id>': definitions(
      'definitions',
      'show the published definitions of a provider, and which are approved',
    ),
    'check <id>': definitions('check', 'read the current definitions from a provider, without calling an operation'),
    'approve <id> <operation> <hash>': verb({
      description: 'approve the definition of an operation as it was shown',
      examples: ['concord connectors approve tickets open_ticket sha256:9f86d081…'],
      ask: (id: string, operation: string, hash: string) =>
        askServer<DefinitionView>(cli, 'POST', at(id, `/definitions/${encodeURIComponent(operation)}/approve`), {
          hash,
        }),
      say: ({ operation, seen_hash }) => `${showLine(operation)} is approved as ${showLine(seen_hash)}\n`,
    }),
    'calls <id>': listVerb<ViewOf<typeof invocationView>, [string, PageFlags & { status?: string }]>({
      description: 'list the calls of a connector in the workspace, newest first',
      options: [...paging, ['--status <status>', 'only started, succeeded or failed calls']],
      examples: ['concord connectors calls hotel_booking --status failed'],
      at: (id, { status, limit, cursor }) => at(id, `/invocations${queryOf({ status, limit, cursor })}`),
      none: () => 'There are no calls.',
      columns: {
        begun: ({ created_at }, when) => when(created_at),
        operation: ({ operation }) => operation,
        status: ({ status }) => status,
        took: ({ latency_ms }) => (latency_ms === null ? '' : `${latency_ms} ms`),
        command: ({ command_id }) => command_id,
        error: ({ error }) => error,
      },
    }),
  }
})

function showDefinitions(terminal: Terminal, id: string, items: readonly DefinitionView[]): void {
  if (items.length === 0)
    terminal.err('There are no definitions yet. `concord connectors check` reads them from the provider.\n')
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

function limitsOf({ rate_limits: { requests_per_minute: rate, concurrent } }: ConnectorView): string {
  const limits = [rate === null ? '' : `${rate}/min`, concurrent === null ? '' : `${concurrent} at once`]
  return limits.filter(Boolean).join(', ') || 'none'
}

const operations = {
  operation: ({ name }: OperationView) => name,
  'side effect': ({ side_effect_class }: OperationView) => side_effect_class,
  risk: ({ risk_level }: OperationView) => risk_level,
  approval: ({ requires_approval }: OperationView) => (requires_approval ? 'always' : 'by policy'),
  'undone by': ({ compensation }: OperationView) => compensation,
  'what it does': ({ description }: OperationView) => description,
}

function formatConnector(terminal: Terminal, connector: DetailView): string {
  const { mode, scopes } = connector.auth
  return [
    `${showLine(connector.connector_id)}  ${showLine(connector.description)}\n`,
    `  authenticates by ${showLine(mode)}, scopes ${shortJson(scopes, 200)}, limits ${limitsOf(connector)}\n`,
    table(terminal, operations, connector.operations),
  ].join('')
}
