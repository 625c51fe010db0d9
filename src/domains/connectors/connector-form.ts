/** The declaration of a connector as data, such as YAML: strict, without code, parsed into the same object as `defineConnector` returns. Pure. */
import { z } from 'zod'
import { dataClasses } from '#kernel/data-class'
import { errorClasses } from '#kernel/error-classes'
import type { JsonObject } from '#kernel/json-value'
import { riskLevels } from '#kernel/policy/policy'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import {
  authModes,
  type ConnectorDefinition,
  type ConnectorInput,
  outputTrusts,
  sideEffectClasses,
} from './connector.ts'
import { filesConnector } from './files/files-connector.ts'
import { httpConnector, httpMethods } from './http/http-connector.ts'
import { closed, typeOfSchema } from './json-schema.ts'
import { postgresConnector } from './postgres/postgres-connector.ts'

const name = z.string().min(1)
const names = z.array(name)
// The YAML reader accepts only JSON values.
const object = z.record(z.string(), z.unknown()).transform((value) => value as JsonObject)
const followup = { operation: name, input: object }

const operationForm = z.strictObject({
  description: name,
  input_schema: object,
  output_schema: object,
  side_effect_class: z.enum(sideEffectClasses),
  risk_level: z.enum(riskLevels).optional(),
  idempotency: z.strictObject({ required: z.boolean(), key_template: name.nullable().default(null) }).optional(),
  approval_required: z.boolean().optional(),
  compensation: z.strictObject({ ...followup, name: name.optional() }).optional(),
  read_back: z.strictObject({ ...followup, found: name, result: name.optional() }).optional(),
  scopes: names.optional(),
  input_classes: z.record(z.string(), z.enum(dataClasses)).optional(),
  output_classes: z.record(z.string(), z.enum(dataClasses)).optional(),
  output_trust: z.enum(outputTrusts).optional(),
  timeout_ms: z.int().optional(),
  output_max_bytes: z.int().optional(),
  retryable: z.array(z.enum(errorClasses)).optional(),
  attempts_max: z.int().optional(),
  backoff_seconds: z.array(z.number().min(0)).optional(),
  request: z
    .strictObject({
      method: z.enum(httpMethods),
      path: name.optional(),
      url_from: name.optional(),
      query: names.optional(),
      answer: z.enum(['json', 'text']).optional(),
      key_in_answer: name.optional(),
    })
    .optional(),
})

export const connectorForm = z.strictObject({
  connector: z.strictObject({
    name,
    type: name,
    connector_id: name.optional(),
    description: name.optional(),
    capabilities: names.min(1),
    auth: z
      .strictObject({
        mode: z.enum(authModes),
        secret_ref: name.optional(),
        scopes: names.default([]),
        key_header: name.optional(),
        signature_header: name.optional(),
        timestamp_header: name.optional(),
        token_url: name.optional(),
        client_id: name.optional(),
      })
      .default({ mode: 'none', scopes: [] }),
    rate_limits: z
      .strictObject({
        requests_per_minute: z.int().min(1).nullable().default(null),
        concurrent: z.int().min(1).nullable().default(null),
      })
      .optional(),
    breaker: z.strictObject({ failures: z.int().min(1), open_ms: z.int().min(1) }).optional(),
    risk_level: z.enum(riskLevels).optional(),
    data_class_max: z.enum(dataClasses).optional(),
    read_scopes: names.optional(),
    write_scopes: names.optional(),
    secret_refs: names.optional(),
    settings: object.default({}),
    operations: z.record(z.string(), operationForm).optional(),
  }),
})

export type ConnectorForm = z.infer<typeof connectorForm>['connector']
/** Makes a connector of one type from its form. Throws `TypeError` with a sentence for people. */
export type ConnectorType = (form: ConnectorForm) => ConnectorDefinition

const httpSettings = z.strictObject({
  base_url: name,
  hosts: names.optional(),
  ports: z.array(z.int()).optional(),
  allow_http: z.boolean().optional(),
  private_networks: names.optional(),
  headers: z.record(z.string(), z.string()).optional(),
  idempotency_header: name.optional(),
  redirects_max: z.int().min(0).max(10).optional(),
})
const filesSettings = z.strictObject({
  root: name,
  file_max_bytes: z.int().optional(),
  writable: z.boolean().optional(),
  approval_required: z.boolean().optional(),
})
const postgresSettings = z.strictObject({ rows_max: z.int().optional(), timeout_ms: z.int().optional() })

const shippedConnectorTypes: Readonly<Record<string, ConnectorType>> = {
  http(form) {
    const { hosts, ports, allow_http, private_networks, ...settings } = httpSettings.parse(form.settings)
    const { secret_ref = null, ...auth } = form.auth
    const reach = given({ hosts, ports, allow_http, private_networks })
    const operations = operationsOf(form).map(({ request, ...operation }) => {
      if (!request) throw new TypeError(`The operation ${operation.name} has no request.`)
      return { ...operation, ...given(request) }
    })
    return httpConnector({
      ...commonOf(form),
      ...given(settings),
      reach,
      auth: { ...given(auth), secret_ref },
      operations,
    })
  },
  files: (form) => filesConnector({ ...commonOf(form), ...given(filesSettings.parse(form.settings)) }),
  postgres(form) {
    if (form.auth.secret_ref === undefined)
      throw new TypeError('The field auth.secret_ref is missing: it locates the connection string.')
    return postgresConnector({
      ...commonOf(form),
      ...given(postgresSettings.parse(form.settings)),
      secret_ref: form.auth.secret_ref,
    })
  },
}

export function connectorOfForm(
  form: ConnectorForm,
  types: Readonly<Record<string, ConnectorType>> = shippedConnectorTypes,
): Decision<ConnectorDefinition> {
  const no = (reason: string, path: string) =>
    refuse('connectors.declaration.invalid', reason, { path: `connector.${path}` })
  const type = Object.hasOwn(types, form.type) ? types[form.type] : undefined
  if (!type)
    return no(`There is no connector type ${quote(form.type)}. The types are ${Object.keys(types).join(', ')}.`, 'type')
  try {
    const definition = type(form)
    const [can, says] = [definition.operations.map((each) => each.name), form.capabilities].map((list) =>
      list.toSorted().join(', '),
    )
    return can === says ? accept(definition) : no(`It supports (${can}) but declares (${says}).`, 'capabilities')
  } catch (error) {
    if (error instanceof z.ZodError) {
      const [issue] = error.issues
      return no(`settings.${issue?.path.join('.') ?? ''}: ${issue?.message ?? 'not valid'}`, 'settings')
    }
    return no(error instanceof Error ? error.message : 'The connector cannot be created.', 'operations')
  }
}

function commonOf(form: ConnectorForm) {
  const {
    connector_id,
    description = `${form.name} (${form.type})`,
    rate_limits,
    breaker,
    risk_level,
    data_class_max,
  } = form
  const { read_scopes, write_scopes, secret_refs } = form
  const rest = given({
    connector_id,
    rate_limits,
    breaker,
    risk_level,
    data_class_max,
    read_scopes,
    write_scopes,
    secret_refs,
  })
  return { name: form.name, description, ...rest }
}

function operationsOf(form: ConnectorForm): (ConnectorInput['operations'][number] & {
  request?: NonNullable<ConnectorForm['operations']>[string]['request']
})[] {
  return Object.entries(form.operations ?? {}).map(
    ([operation, { input_schema, output_schema, request, ...contract }]) => ({
      ...given(contract),
      description: contract.description,
      side_effect_class: contract.side_effect_class,
      name: operation,
      // Like an input in code, it accepts only the fields that it names.
      input: typeOfSchema({
        ...closed(input_schema),
        ...given({ additionalProperties: input_schema['additionalProperties'] }),
      }),
      output: typeOfSchema(output_schema),
      ...(request ? { request } : {}),
    }),
  )
}

type Given<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
}

/** Drops the fields that are undefined, which would override a default. */
function given<T extends object>(value: T): Given<T> {
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Given<T>
}
