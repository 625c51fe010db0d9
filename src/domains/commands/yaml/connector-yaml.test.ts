/** Connectors in YAML: the same objects as in code, and errors with code and place. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { checkConnector, type ConnectorDefinition, httpConnector, toolsOf } from '#domains/connectors'
import { loadConnector } from './load-definitions.ts'

const bytes = (text: string) => new TextEncoder().encode(text)

const billing = `connector:
  name: billing
  type: http
  description: The billing API.
  capabilities: [get_invoice, create_invoice]
  auth: { mode: bearer, secret_ref: env://BILLING_TOKEN, scopes: [invoices] }
  rate_limits: { requests_per_minute: 60 }
  read_scopes: [invoices]
  write_scopes: [invoices_write]
  settings: { base_url: https://billing.example/v1 }
  operations:
    get_invoice:
      description: Shows an invoice.
      input_schema: { type: object, properties: { invoice_id: { type: string } }, required: [invoice_id] }
      output_schema: { type: object, properties: { total: { type: string } } }
      side_effect_class: none
      scopes: [invoices]
      request: { method: GET, path: "/invoices/{invoice_id}" }
    create_invoice:
      description: Makes an invoice.
      input_schema: { type: object, properties: { order: { type: string }, total: { type: string } }, required: [order, total] }
      output_schema: { type: object }
      side_effect_class: keyed
      idempotency: { required: true, key_template: "invoice:{order}" }
      approval_required: true
      risk_level: high
      scopes: [invoices_write]
      request: { method: POST, path: /invoices }
`

test('[YML-03] a connector loads from YAML to the same object as in code', () => {
  const loaded = loadConnector('billing.yaml', bytes(billing))
  assert.ok(loaded.ok, loaded.ok ? '' : loaded.reason)
  assert.deepEqual(checkConnector(loaded.value), [])
  const inCode = httpConnector({
    name: 'billing',
    description: 'The billing API.',
    base_url: 'https://billing.example/v1',
    auth: { mode: 'bearer', secret_ref: 'env://BILLING_TOKEN', scopes: ['invoices'] },
    rate_limits: { requests_per_minute: 60 },
    read_scopes: ['invoices'],
    write_scopes: ['invoices_write'],
    operations: [
      {
        name: 'get_invoice',
        description: 'Shows an invoice.',
        method: 'GET',
        path: '/invoices/{invoice_id}',
        input: z.strictObject({ invoice_id: z.string() }),
        output: z.looseObject({ total: z.string().optional() }),
        side_effect_class: 'none',
        scopes: ['invoices'],
      },
      {
        name: 'create_invoice',
        description: 'Makes an invoice.',
        method: 'POST',
        path: '/invoices',
        input: z.strictObject({ order: z.string(), total: z.string() }),
        output: z.looseObject({}),
        side_effect_class: 'keyed',
        idempotency: { required: true, key_template: 'invoice:{order}' },
        approval_required: true,
        risk_level: 'high',
        scopes: ['invoices_write'],
      },
    ],
  })
  const plain = ({ operations, open: _open, ...rest }: ConnectorDefinition) => ({
    ...rest,
    operations: operations.map(({ input: _input, output: _output, ...contract }) => contract),
  })
  assert.deepEqual(plain(loaded.value), plain(inCode))
  const [get] = loaded.value.operations
  assert.equal(get?.input.safeParse({ invoice_id: 'i1' }).success, true)
  for (const wrong of [{}, { invoice_id: 7 }, { invoice_id: 'i1', more: 1 }])
    assert.equal(get?.input.safeParse(wrong).success, false)
})

test('[CON-15] [YML-04] every operation is a tool with its metadata', () => {
  const loaded = loadConnector('billing.yaml', bytes(billing))
  assert.ok(loaded.ok)
  const [, create] = toolsOf(loaded.value)
  assert.ok(create)
  const { input_schema, output_schema, ...rest } = create
  assert.deepEqual(rest, {
    name: 'create_invoice',
    description: 'Makes an invoice.',
    execution_mode: 'approval_gated_async',
    risk_level: 'high',
    requires_approval: true,
    connector: 'billing',
    function_name: 'connector.billing.create_invoice',
  })
  assert.deepEqual(
    [input_schema['type'], input_schema['additionalProperties'], output_schema['type']],
    ['object', false, 'object'],
  )
})

test('[YML-03] [YML-10] files and databases load too; errors have their place', () => {
  const files = loadConnector(
    'f.yaml',
    bytes(
      'connector: { name: files, type: files, capabilities: [read_file, list_files, check_file], settings: { root: /srv/reports } }',
    ),
  )
  assert.ok(files.ok, files.ok ? '' : files.reason)
  assert.deepEqual(checkConnector(files.value), [])
  const sql = loadConnector(
    's.yaml',
    bytes(
      'connector: { name: sql, type: postgres, capabilities: [run_sql], auth: { mode: connection_string, secret_ref: "vault://sql" }, settings: { rows_max: 5 } }',
    ),
  )
  assert.ok(sql.ok, sql.ok ? '' : sql.reason)
  assert.deepEqual(checkConnector(sql.value), [])
  const cases: [string, string, string][] = [
    [billing.replace('type: http', 'type: carrier_pigeon'), 'connectors.declaration.invalid', 'connector.type'],
    [
      billing.replace('capabilities: [get_invoice, create_invoice]', 'capabilities: [get_invoice]'),
      'connectors.declaration.invalid',
      'connector.capabilities',
    ],
    [billing.replace('base_url:', 'base_uri:'), 'connectors.declaration.invalid', 'connector.settings'],
    [
      billing.replace('request: { method: POST, path: /invoices }', 'attempts_max: 2'),
      'connectors.declaration.invalid',
      'connector.operations',
    ],
    ...['input_schema', 'output_schema'].map((schema): [string, string, string] => [
      billing.replace(`${schema}: { type`, `${schema}: { $async: true, type`),
      'connectors.declaration.invalid',
      'connector.operations',
    ]),
    [
      billing.replace('rate_limits: { requests_per_minute: 60 }', 'rate_limit: { requests_per_minute: 60 }'),
      'unknown_field',
      'connector.rate_limit',
    ],
    [
      billing.replace('side_effect_class: keyed', 'side_effect_class: maybe'),
      'commands.definition.invalid',
      'connector.operations.create_invoice.side_effect_class',
    ],
  ]
  for (const [text, code, path] of cases) {
    const refused = loadConnector('b.yaml', bytes(text))
    assert.deepEqual(refused.ok ? [] : [refused.code, refused.path], [code, path])
  }
})
