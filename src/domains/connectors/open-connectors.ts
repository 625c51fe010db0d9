/** Checks every declaration, opens every connector and returns the gate to call them; or refuses with all findings at once. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { openBreaker } from './breaker.ts'
import { callConnector } from './call-connector.ts'
import { checkConnectors, checkOpened, type ConnectorFinding } from './check-connector.ts'
import type { ConnectorDefinition, ConnectorRequest, ConnectorResult } from './connector.ts'
import { type CheckDefinitions, checkDefinitions, type StoredDefinition } from './definitions.ts'
import type { ConnectorDeps, OpenedConnector } from './deps.ts'
import { openAbandonedSweep } from './invocation.ts'
import { type SyncConnectors, syncConnectors, type SyncedConnector } from './sync-connectors.ts'

export type Connectors = {
  readonly definitions: readonly ConnectorDefinition[]
  call(request: ConnectorRequest): Promise<ConnectorResult>
  /** Asks a provider that describes itself for its current definitions. */
  check(name: string, asked: CheckDefinitions): Promise<Decision<readonly StoredDefinition[]>>
  /** True while the circuit breaker is open. */
  isOpen(name: string): boolean
  /** Returns the state of each connector, and refreshes those that can be refreshed. */
  sync(asked: SyncConnectors): Promise<readonly SyncedConnector[]>
  /** Settles the calls of processes that have ended, and returns how many. */
  settleAbandoned(asked: { readonly traceId: string }): Promise<number>
  close(): Promise<void>
}

export function openConnectors(definitions: readonly ConnectorDefinition[], deps: ConnectorDeps): Decision<Connectors> {
  const declared = checkConnectors(definitions)
  if (declared.length > 0) return refuseFindings(declared)
  const findings: ConnectorFinding[] = []
  const opened = new Map<string, OpenedConnector>()
  for (const definition of definitions) {
    const connector = definition.open({ now: deps.now, sleep: deps.sleep })
    opened.set(definition.name, { definition, connector, breaker: openBreaker(definition.breaker) })
    findings.push(...checkOpened(definition, connector))
  }
  if (findings.length > 0) return refuseFindings(findings)
  return accept({
    definitions,
    call: (request) => callConnector(deps, opened.get(request.connector_name), request),
    async check(name, asked) {
      const found = opened.get(name)
      return found
        ? checkDefinitions(deps, found, asked)
        : refuse('connectors.connector.not_found', `There is no connector ${quote(name)}.`)
    },
    isOpen: (name) => opened.get(name)?.breaker.isOpen ?? false,
    sync: (asked) => syncConnectors(deps, [...opened.values()], asked),
    settleAbandoned: openAbandonedSweep(deps, definitions),
    async close() {
      for (const { connector } of opened.values()) await connector.close?.()
    },
  })
}

function refuseFindings(findings: readonly ConnectorFinding[]): Decision<never> {
  const count = findings.length === 1 ? 'One connector declaration is' : `${findings.length} connector declarations are`
  const isSecret = findings.every(({ rule }) => rule === 'secret_in_manifest')
  const reason = `${count} not valid: ${findings.map(({ message }) => message).join(' ')}`
  return refuse(isSecret ? 'secret_in_manifest' : 'connectors.declaration.invalid', reason, { facts: { findings } })
}
