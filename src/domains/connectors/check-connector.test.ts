/** Declarations: one that is whole passes, and each way to be incomplete, contradictory or careless is reported by its rule. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import type { Refusal } from '#kernel/refusal'
import type { Db } from '#store'
import { realSleep } from '#test/connectors'
import { checkConnector, checkOpened } from './check-connector.ts'
import { type ConnectorDefinition, defineConnector, succeeded } from './connector.ts'
import { openConnectors } from './open-connectors.ts'
import { openSecrets } from './secrets.ts'

const plain = { input: z.strictObject({ id: z.string() }), output: z.looseObject({}) }

type Input = Parameters<typeof defineConnector>[0]
const operations: Input['operations'] = [
  {
    ...plain,
    name: 'book',
    description: 'Books.',
    side_effect_class: 'queryable',
    idempotency: { required: true, key_template: 'book:{id}' },
    read_back: { operation: 'find', input: { id: '{key}' }, found: 'booking' },
    compensation: { operation: 'cancel', input: { id: '{output.booking_id}' } },
    scopes: ['write'],
    input_classes: { id: 'confidential' },
  },
  { ...plain, name: 'find', description: 'Looks up.', side_effect_class: 'none', scopes: ['read'] },
  { ...plain, name: 'cancel', description: 'Cancels.', side_effect_class: 'keyed', scopes: ['write'] },
]
const names = operations.map(({ name }) => name)

function declare(change: Partial<Input> = {}, first: object = {}): ConnectorDefinition {
  const [book, ...rest] = change.operations ?? operations
  return defineConnector({
    connector_type: 'hotel',
    name: 'hotel',
    description: 'A hotel.',
    auth: { mode: 'api_key', secret_ref: 'vault://hotel/key', scopes: ['read', 'write'] },
    read_scopes: ['read'],
    write_scopes: ['write'],
    rate_limits: { requests_per_minute: 60 },
    open: () => ({
      name: 'hotel',
      connector_type: 'hotel',
      capabilities: () => names,
      call: () => Promise.resolve(succeeded({})),
    }),
    ...change,
    operations: book ? [{ ...book, ...first }, ...rest] : [],
  })
}

const rulesIn = ({ facts = {} }: Refusal) => (facts['findings'] as { rule: string }[]).map(({ rule }) => rule)
const rulesOf = (definition: ConnectorDefinition) => [...new Set(checkConnector(definition).map(({ rule }) => rule))]

test('[CON-01] [CON-18] a whole declaration passes, with every part that is asked for', () => {
  const definition = declare()
  assert.deepEqual(checkConnector(definition), [])
  assert.deepEqual(checkOpened(definition, definition.open({ now: () => new Date(0), sleep: realSleep })), [])
  const asked = [
    'connector_id',
    'connector_type',
    'name',
    'operations',
    'auth',
    'rate_limits',
    'risk_level',
    'read_scopes',
    'write_scopes',
    'data_class_max',
  ]
  assert.deepEqual(
    asked.filter((part) => !Object.hasOwn(definition, part)),
    [],
  )
  for (const operation of definition.operations)
    for (const part of [
      'input',
      'output',
      'side_effect_class',
      'idempotency',
      'compensation',
      'approval_required',
      'input_classes',
    ])
      assert.ok(Object.hasOwn(operation, part), part)
})

test('[CON-01] [CON-10] what is missing or does not fit together is refused by its rule', () => {
  const keyed = { side_effect_class: 'keyed', read_back: null }
  const cases: [string, ConnectorDefinition][] = [
    ['name', declare({ name: 'Hotel Booking' })],
    ['connector_id', declare({ connector_id: '' })],
    ['connector_type', declare({ connector_type: ' ' })],
    ['description', declare({ description: '' })],
    ['operations', declare({ operations: [] })],
    ['operations', declare({ operations: [...operations, ...operations.slice(1, 2)] })],
    ['auth', declare({ auth: { mode: 'api_key', secret_ref: null } })],
    ['auth', declare({ auth: { mode: 'none', secret_ref: 'vault://x' } })],
    ['auth', declare({ auth: { mode: 'magic' as 'none' } })],
    ['rate_limits', declare({ rate_limits: { requests_per_minute: 0 } })],
    ['rate_limits', declare({ rate_limits: { concurrent: 1.5 } })],
    ['breaker', declare({ breaker: { failures: 0, open_ms: 1 } })],
    ['name', declare({}, { name: 'book hotel' })],
    ['description', declare({}, { description: ' ' })],
    ['timeout', declare({}, { timeout_ms: 0 })],
    ['size', declare({}, { output_max_bytes: 2_000_000 })],
    ['attempts', declare({}, { attempts_max: 0 })],
    ['input_schema', declare({}, { input: z.string(), idempotency: { required: true, key_template: null } })],
    ['input_schema', declare({}, { input: z.looseObject({ id: z.string() }) })],
    ['side_effect_class', declare({}, { side_effect_class: 'perhaps' })],
    ['key', declare({}, { ...keyed, idempotency: { required: false, key_template: null } })],
    [
      'key',
      declare(
        {},
        { side_effect_class: 'opaque', read_back: null, idempotency: { required: true, key_template: null } },
      ),
    ],
    ['key_template', declare({}, { idempotency: { required: true, key_template: 'book:{' } })],
    ['key_template', declare({}, { idempotency: { required: true, key_template: 'book:{nobody}' } })],
    ['read_back', declare({}, { read_back: null })],
    ['read_back', declare({}, { read_back: { operation: 'nobody', input: {}, found: 'x' } })],
    ['read_back', declare({}, { read_back: { operation: 'cancel', input: {}, found: 'x' } })],
    ['read_back', declare({}, { read_back: { operation: 'find', input: { id: '{output.id}' }, found: 'x' } })],
    ['compensation', declare({}, { compensation: { operation: 'find', input: {} } })],
    ['compensation', declare({}, { side_effect_class: 'none', read_back: null })],
    ['scope', declare({}, { scopes: ['admin'] })],
    ['scope', declare({}, { side_effect_class: 'none', read_back: null, compensation: null })],
    ['data_class', declare({}, { input_classes: { id: 'payment' } })],
    ['settings', declare({ flaws: ['it is not plugged in'] })],
  ]
  for (const [rule, definition] of cases)
    assert.ok(rulesOf(definition).includes(rule), `${rule}: ${rulesOf(definition).join()}`)
})

test('[CON-09] a secret in the declaration is refused by its place, and not shown', () => {
  const cases: Partial<Input>[] = [
    { settings: { nested: [{ password: 'hunter2-hunter2' }] } },
    { settings: { note: 'Bearer abcdefgh12345678' } },
    { settings: { url: 'postgres://app:hunter2-hunter2@db/x' } },
    { settings: { api_key: 'hunter2-hunter2' } },
    { settings: { headers: { 'X-Api-Key': 'hunter2-hunter2' } } },
    { settings: { headers: { Authorization: 'Basic hunter2' } } },
    { settings: { headers: { cookie: 'sid=hunter2' } } },
    { description: 'use ghp_012345678901234567890123456789' },
    { auth: { mode: 'api_key', secret_ref: 'hunter2-hunter2' } },
    { secret_refs: ['sk-live-0123456789abcdef0123'] },
  ]
  for (const change of cases) {
    const findings = checkConnector(declare(change))
    assert.deepEqual([...new Set(findings.map(({ rule }) => rule))], ['secret_in_manifest'])
    assert.doesNotMatch(JSON.stringify(findings), /hunter2|abcdefgh12345678|ghp_0123|sk-live-0123/)
  }
  assert.deepEqual(
    checkConnector(declare({ settings: { token: 'vault://team/token', token_url: 'https://x.test' } })),
    [],
  )
})

test('what does not pass is not opened, nothing starts, and everything is reported at once', () => {
  let isOpened = false
  const bad = declare({
    description: '',
    rate_limits: { concurrent: -1 },
    open: () => {
      isOpened = true
      throw new Error('must not be opened')
    },
  })
  // Nothing here gets as far as the database.
  const world = {
    db: undefined as unknown as Db,
    now: () => new Date(0),
    newId: () => '',
    sleep: realSleep,
    secrets: openSecrets({}),
  }
  const refused = openConnectors([bad, declare(), declare({ connector_id: 'other' })], world)
  assert.ok(!refused.ok)
  assert.deepEqual([refused.code, isOpened], ['connectors.declaration.invalid', false])
  const rules = rulesIn(refused)
  for (const rule of ['description', 'rate_limits', 'duplicate']) assert.ok(rules.includes(rule), rule)
  const liar = declare({
    open: () => ({
      name: 'motel',
      connector_type: 'x',
      capabilities: () => ['fly'],
      call: () => Promise.resolve(succeeded({})),
    }),
  })
  const lied = openConnectors([liar], world)
  assert.ok(!lied.ok)
  assert.deepEqual(rulesIn(lied), ['name', 'connector_type', 'capabilities'])
  const secret = openConnectors([declare({ settings: { password: 'hunter2-hunter2' } })], world)
  assert.equal(secret.ok ? '' : secret.code, 'secret_in_manifest')
})
