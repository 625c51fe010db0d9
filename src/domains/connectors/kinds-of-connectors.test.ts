/** What a connector may stand for: anything that can be declared, opened and called under the one contract. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import type { Db } from '#store'
import { realSleep } from '#test/connectors'
import { accepted } from '#test/tenant'
import { defineConnector, succeeded } from './connector.ts'
import { openConnectors } from './open-connectors.ts'
import { openSecrets } from './secrets.ts'

const anything = { input: z.strictObject({ id: z.string() }), output: z.looseObject({}) }

/** Name, type and one operation of each: what the other side is makes no difference to the contract. */
const others = [
  ['warehouse_copy', 'postgres', 'run_sql', 'none'],
  ['billing_api', 'http_api', 'create_invoice', 'keyed'],
  ['notification', 'notification', 'send_email', 'opaque'],
  ['data_warehouse', 'data_warehouse', 'load_table', 'keyed'],
  ['github', 'github', 'create_github_issue', 'opaque'],
  ['slack', 'slack', 'send_slack', 'opaque'],
  ['hotel_inventory', 'hotel_inventory', 'search', 'none'],
  ['hotel_booking', 'hotel_booking', 'book_hotel', 'keyed'],
  ['object_storage', 'object_storage', 'put_object', 'keyed'],
  ['memory_backend', 'memory_backend', 'search_memory', 'none'],
  ['job_system', 'external_job_system', 'submit_job', 'keyed'],
] as const

const definitions = others.map(([name, connector_type, operation, side_effect_class]) =>
  defineConnector({
    name,
    connector_type,
    description: `Stands for ${connector_type}.`,
    operations: [{ ...anything, name: operation, description: 'Does it.', side_effect_class }],
    open: () => ({ name, connector_type, capabilities: () => [operation], call: () => Promise.resolve(succeeded({})) }),
  }),
)

test('[CON-14] a connector may stand for any of these, side by side, under one contract', () => {
  // Nothing here gets as far as the database.
  const world = {
    db: undefined as unknown as Db,
    now: () => new Date(0),
    newId: () => '',
    sleep: realSleep,
    secrets: openSecrets({}),
  }
  const opened = accepted(openConnectors(definitions, world))
  assert.deepEqual(
    opened.definitions.map(({ name, connector_type }) => [name, connector_type]),
    others.map(([name, type]) => [name, type]),
  )
})
