/** The effects of connectors call the right connector and operation through the gate, with the key of the contract. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { type ConnectorDefinition, type Connectors, defineConnector, succeeded, toolsOf } from '#domains/connectors'
import { parseKeyTemplate, renderKey } from '#kernel/idempotency-key'
import { anyHost, openCatalog } from './open-catalog.ts'
import { connectorDefinitions } from './connector-effects.ts'
import type { EffectCall } from './effect-definition.ts'

type Request = Parameters<Connectors['call']>[0]

function declare(name: string): ConnectorDefinition {
  const shapes = { input: z.looseObject({ id: z.string() }), output: z.looseObject({}) }
  const idempotency = { required: true, key_template: `${name}:{id}` }
  return defineConnector({
    name,
    connector_type: 'desk',
    description: 'A desk.',
    operations: [
      { ...shapes, name: 'search', description: 'Looks.', side_effect_class: 'none' },
      { ...shapes, name: 'file', description: 'Files.', side_effect_class: 'keyed', idempotency },
    ],
    open: () => assert.fail('no connector is opened in this test'),
  })
}

/** A gate that records its calls; other tests cover the real one. */
function openGate() {
  const requests: Request[] = []
  const connectors: Connectors = {
    definitions: [declare('north'), declare('south')],
    call: (request) => (requests.push(request), Promise.resolve(succeeded({ from: request.connector_name }))),
    isOpen: () => false,
    check: () => assert.fail('not called'),
    sync: () => assert.fail('not called'),
    settleAbandoned: () => assert.fail('not called'),
    close: () => Promise.resolve(),
  }
  const opened = openCatalog(connectorDefinitions(connectors), anyHost)
  if (!opened.ok) throw new Error(opened.reason)
  return { connectors, requests, catalog: opened.value }
}

const callOf = (effectType: string, idempotencyKey: string): EffectCall => ({
  commandId: 'c',
  workspaceId: 'w',
  effectId: 'e',
  effectType,
  payload: { id: '7' },
  idempotencyKey,
  attempt: 1,
  dueAt: null,
  memory: { find: () => Promise.reject(new Error('unused')), read: () => Promise.reject(new Error('unused')) },
  traceId: 't',
  requestedBy: 'user:u',
  signal: AbortSignal.timeout(60_000),
  emit: () => {},
  alongside: () => {},
  artifacts: { write: () => assert.fail('no artifact is written') } as unknown as EffectCall['artifacts'],
})

test('[PLN-15] an effect calls the connector and the operation that it names, even if two connectors have the same operation', async () => {
  const { connectors, requests, catalog } = openGate()
  const tools = connectors.definitions.flatMap(toolsOf)
  assert.equal(tools.length, 4)
  for (const tool of tools) {
    const effect = catalog.effects.get(tool.function_name)?.definition
    assert.ok(effect, tool.function_name)
    assert.deepEqual(await effect.do(callOf(tool.function_name, 'k')), { from: tool.connector })
  }
  assert.deepEqual(
    requests.map(({ connector_name, capability, input }) => [connector_name, capability, input]),
    tools.map(({ connector, name }) => [connector, name, { id: '7' }]),
  )
  assert.equal(catalog.effects.get('connector.west.search'), undefined)
})

test('[OQ-05] the key of an operation: a template in its contract, rendered by a pure function, required if the contract says so', async () => {
  const { requests, catalog } = openGate()
  const filed = catalog.effects.get('connector.south.file')
  assert.deepEqual(
    [filed?.operation?.idempotency_required, filed?.operation?.idempotency_key_template],
    [true, 'south:{id}'],
  )
  const template = parseKeyTemplate(filed?.operation?.idempotency_key_template ?? '')
  assert.ok(template.ok)
  const key = renderKey(template.value, { id: '7' })
  assert.deepEqual([key, renderKey(template.value, { id: '7' })], [{ ok: true, value: 'south:7' }, key])
  assert.equal(renderKey(template.value, {}).ok, false, 'a payload without the field has no key')
  await filed?.definition.do(callOf('connector.south.file', key.ok ? key.value : ''))
  assert.equal(requests.at(-1)?.context.idempotency_key, 'south:7')
  assert.equal(catalog.effects.get('connector.south.search')?.operation?.idempotency_required, false)
})
