/** Checks every declaration, opens every connector, and gives the gate through which they are called; or refuses with all findings at once. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { callConnector, type ConnectorRequest } from './call-connector.ts'
import { checkConnector, checkOpened, type ConnectorFinding, finding } from './check-connector.ts'
import type { ConnectorResult } from './connector.ts'
import type { ConnectorDefinition } from './define-connector.ts'
import { checkDefinitions, type CheckDefinitions } from './definitions/approve-definition.ts'
import type { StoredDefinition } from './definitions/definition.ts'
import type { ConnectorDeps } from './deps.ts'
import { openAbandonedSweep } from './invocation.ts'
import { openBreaker, type OpenedConnector } from './opened-connector.ts'
import { type SyncConnectors, syncConnectors, type SyncedConnector } from './sync-connectors.ts'

export type Connectors = {
  readonly definitions: readonly ConnectorDefinition[]
  call(request: ConnectorRequest): Promise<ConnectorResult>
  /** Asks a provider that describes itself what it says now. */
  check(name: string, asked: CheckDefinitions): Promise<Decision<readonly StoredDefinition[]>>
  /** True while nobody is sent there. */
  isOpen(name: string): boolean
  /** What is known about each of them now, after a fresh look at those that can be looked at. */
  sync(asked: SyncConnectors): Promise<readonly SyncedConnector[]>
  /** Settles the calls of processes that are gone; how many. */
  settleAbandoned(asked: { readonly traceId: string }): Promise<number>
  close(): Promise<void>
}

export function openConnectors(definitions: readonly ConnectorDefinition[], deps: ConnectorDeps): Decision<Connectors> {
  const findings: ConnectorFinding[] = definitions.flatMap(checkConnector)
  for (const field of ['name', 'connector_id'] as const) {
    const all = definitions.map((definition) => definition[field])
    for (const twice of all.filter((each, at) => all.indexOf(each) !== at))
      findings.push(finding('duplicate', twice, `two connectors have this ${field}`))
  }
  if (findings.length > 0) return refuseFindings(findings)
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
  const count = findings.length === 1 ? 'one thing is' : `${findings.length} things are`
  const isSecret = findings.every(({ rule }) => rule === 'secret_in_manifest')
  const reason = `${count} wrong with the connectors: ${findings.map(({ message }) => message).join('; ')}`
  return refuse(isSecret ? 'secret_in_manifest' : 'connectors.declaration.invalid', reason, { facts: { findings } })
}
