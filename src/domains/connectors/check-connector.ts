/** Whether a declaration is complete, fits together and holds no secret; what does not pass is not loaded. Pure. */
import { isJsonObject, type JsonValue } from '#kernel/json-value'
import { hasSecretShape } from '#kernel/secret-shapes'
import { checkOperation, isConnectorName } from './check-operation.ts'
import type { Connector } from './connector.ts'
import { authModes, type ConnectorDefinition, sideEffectClasses } from './define-connector.ts'
import { type ConnectorFinding, finding } from './finding.ts'
import { parseSecretReference } from './secrets.ts'

export function checkConnector(definition: ConnectorDefinition): readonly ConnectorFinding[] {
  const { name, auth, rate_limits, breaker, operations } = definition
  const findings: ConnectorFinding[] = []
  const flaw = (rule: string, message: string) => void findings.push(finding(rule, name, message))

  if (!isConnectorName(name)) flaw('name', 'its name is not lower-case letters, digits and _')
  if (definition.connector_id.trim() === '') flaw('connector_id', 'it has no connector_id')
  if (definition.connector_type.trim() === '') flaw('connector_type', 'it has no connector_type')
  if (definition.description.trim() === '') flaw('description', 'it does not say what it is')
  if (operations.length === 0) flaw('operations', 'it has no operation')
  const names = operations.map((operation) => operation.name)
  for (const twice of names.filter((each, at) => names.indexOf(each) !== at))
    flaw('operations', `it has ${twice} twice`)
  for (const { name: each, side_effect_class: kind } of operations)
    if (!sideEffectClasses.includes(kind)) flaw('side_effect_class', `${each} has no side-effect class`)

  if (!authModes.includes(auth.mode)) flaw('auth', 'its auth mode is none that is known')
  if (auth.mode !== 'none' && auth.secret_ref === null) flaw('auth', `its auth mode ${auth.mode} needs a secret_ref`)
  if (auth.mode === 'none' && auth.secret_ref !== null) flaw('auth', 'it names a secret and no auth mode')
  for (const reference of [...(auth.secret_ref === null ? [] : [auth.secret_ref]), ...definition.secret_refs])
    if (!parseSecretReference(reference).ok)
      flaw('secret_in_manifest', 'a secret_ref is not a reference; the value is not shown')

  for (const [limit, value] of Object.entries(rate_limits))
    if (value !== null && !isCount(value)) flaw('rate_limits', `${limit} is no count from 1 on`)
  if (!isCount(breaker.failures) || !isCount(breaker.open_ms))
    flaw('breaker', 'failures and open_ms are counts from 1 on')

  for (const each of definition.flaws) flaw('settings', each)
  const declared = { description: definition.description, settings: definition.settings }
  for (const path of secretPaths(declared, [])) flaw('secret_in_manifest', `${path} holds a secret; write a reference`)
  return [...findings, ...operations.flatMap((operation) => checkOperation(definition, operation))]
}

/** The connector itself must be the one that was declared. */
export function checkOpened(definition: ConnectorDefinition, connector: Connector): readonly ConnectorFinding[] {
  const can = [...connector.capabilities()].toSorted().join(', ')
  const says = definition.operations
    .map(({ name }) => name)
    .toSorted()
    .join(', ')
  return [
    ...(connector.name === definition.name
      ? []
      : [finding('name', definition.name, `it calls itself ${connector.name}`)]),
    ...(connector.connector_type === definition.connector_type
      ? []
      : [finding('connector_type', definition.name, `it says that it is of the type ${connector.connector_type}`)]),
    ...(can === says ? [] : [finding('capabilities', definition.name, `it can do (${can}) and declares (${says})`)]),
  ]
}

function isCount(value: number): boolean {
  return Number.isSafeInteger(value) && value >= 1
}

/** Of settings and of headers. */
const SECRET_NAME =
  /(^|_|-)(password|passwd|passphrase|secret|token|(api|auth|access|secret|private)[_-]?key|credentials?|authorization|cookie)$/i

/** Paths only; what stands there is never told. */
function secretPaths(value: JsonValue, path: readonly string[]): readonly string[] {
  if (typeof value === 'string') {
    const isNamed = SECRET_NAME.test(path.at(-1) ?? '') && value !== '' && !parseSecretReference(value).ok
    return isNamed || hasSecretShape(value) ? [path.join('.')] : []
  }
  if (Array.isArray(value))
    return (value as readonly JsonValue[]).flatMap((part, at) => secretPaths(part, [...path, String(at)]))
  if (value === null || !isJsonObject(value)) return []
  return Object.entries(value).flatMap(([name, part]) => secretPaths(part, [...path, name]))
}
