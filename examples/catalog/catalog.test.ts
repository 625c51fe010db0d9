/** The example catalog compiles, and its contracts match the requirements. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import {
  anyHost,
  type Catalog,
  connectorDefinitions,
  expandCatalog,
  mapTaskToPrimitives,
  openCatalog,
  shippedPolicies,
  toTaskTypeView,
} from '#domains/commands'
import type { Connectors } from '#domains/connectors'
import { checkSecrets } from '#kernel/data-class'
import { evaluatePolicy } from '#kernel/policy/evaluate'
import { exampleCatalog, examplePayloads } from './index.ts'

const options = { vendorUrl: 'http://127.0.0.1:1', folder: '/nowhere' }

function open(): Catalog {
  const { catalog: definitions, connectors } = expandCatalog(exampleCatalog(options))
  const operations = connectorDefinitions({ definitions: connectors } as Connectors)
  const opened = openCatalog([...shippedPolicies, ...definitions, ...operations], anyHost)
  if (!opened.ok) throw new Error(opened.reason)
  return opened.value
}
const catalog = open()
const task = (name: string) => {
  const found = catalog.tasks.get(name)
  if (!found) throw new Error(`There is no task ${name}.`)
  return found
}

function decide(name: string, payload: object, metadata: object = { role: 'writer', org_roles: [] }) {
  const { policy, spec, type } = task(name)
  return evaluatePolicy(policy, {
    action: type.name,
    command: { payload, data_class: 'internal' },
    task: { ...spec, approval_required: spec.approval_required || type.approval.required },
    context: { metadata, facts: {} },
  })
}

describe('the example catalog', () => {
  test('it compiles without a finding or a warning, under the names of the requirements', () => {
    assert.deepEqual(catalog.warnings, [])
    const names = [...catalog.tasks.values()].map(({ spec, type }) => [spec.name, type.name])
    assert.deepEqual(names, [
      ['Generate Report', 'generate_report'],
      ['Publish Report', 'publish_report'],
      ['Search Hotels', 'search_hotels'],
      ['Rank Hotels', 'rank_hotels'],
      ['Draft Booking', 'draft_booking'],
      ['Book Hotel', 'book_hotel'],
      ['Sync Vendor Data', 'sync_vendor_data'],
    ])
  })

  test('[M5] no payload of the examples is taken for a secret', () => {
    for (const [name, payload] of Object.entries(examplePayloads))
      assert.ok(checkSecrets(payload, task(name).type.fields).ok, name)
  })

  test('every example payload fits its contract', () => {
    for (const [name, payload] of Object.entries(examplePayloads))
      assert.ok(task(name).type.payload.safeParse(payload).success, name)
  })

  test('task types show these payloads as their examples', () => {
    for (const [name, payload] of Object.entries(examplePayloads))
      assert.deepEqual(toTaskTypeView(task(name), []).payload_schema['example'], payload, name)
  })

  test('Publish Report takes the id of a report as people see it and as a result has it: one report', () => {
    const ids = ['art_0197f3b2c4d57a8e9b0c1d2e3f405170', '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170']
    for (const artifact_id of ids) {
      const read = task('Publish Report').type.payload.safeParse({ ...examplePayloads['Publish Report'], artifact_id })
      assert.equal((read.data as { artifact_id: string } | undefined)?.artifact_id, ids[1])
    }
    for (const artifact_id of ['cmd_0197f3b2c4d57a8e9b0c1d2e3f405170', 'x', ''])
      assert.ok(
        !task('Publish Report').type.payload.safeParse({ ...examplePayloads['Publish Report'], artifact_id }).success,
      )
  })

  test('[PRM-17] Generate Report passes through exactly these primitives', () => {
    assert.deepEqual(mapTaskToPrimitives(task('Generate Report').spec), [
      'ingress',
      'command',
      'context',
      'policy',
      'plan',
      'queue',
      'async_task',
      'artifact_write',
      'notification',
      'state_transition',
      'audit',
    ])
  })

  test('[EXM-01] the contract of Generate Report', () => {
    const { spec, type, policyNames } = task('Generate Report')
    assert.deepEqual(spec.ingress_types, ['user_request', 'scheduled_trigger'])
    assert.deepEqual(spec.required_inputs, ['report_type', 'date_range'])
    assert.deepEqual(
      [spec.async_required, spec.artifact_output_possible, spec.notification_required, spec.risk_level],
      [true, true, true, 'medium'],
    )
    assert.deepEqual(policyNames, ['permission', 'data_safety', 'cost', 'data_access'])
    assert.deepEqual(type.side_effects.toSorted(), ['artifact.report', 'notification.app'])
  })

  test('[POL-07] Publish Report asks the owner of the data for outside addresses alone', () => {
    for (const destination of ['finance@example.com', 'external:partner']) {
      const { decision, required_approvals, reasons } = decide('Publish Report', { destination })
      assert.deepEqual([decision, required_approvals], ['require_approval', ['data_owner']])
      assert.ok(reasons.includes('External sharing requires approval.'))
    }
    assert.equal(decide('Publish Report', { destination: 'internal' }).decision, 'allow')
    assert.equal(decide('Publish Report', {}).decision, 'allow')
  })

  test('[EXM-08] a booking always asks; above 500 a second person; a flag that claims consent changes nothing', () => {
    const asked = (total_price: number, more: object = {}) => {
      const booking = { ...examplePayloads['Book Hotel'], ...more, total_price }
      const { decision, required_approvals } = decide('Book Hotel', booking)
      return [decision, ...required_approvals]
    }
    assert.deepEqual(asked(0), ['require_approval', 'booking_approver'])
    assert.deepEqual(asked(500), ['require_approval', 'booking_approver'])
    assert.deepEqual(asked(500.01), ['require_approval', 'booking_approver', 'budget_owner'])
    assert.deepEqual(asked(20, { user_explicitly_approved: true }), ['require_approval', 'booking_approver'])
    const { type } = task('Book Hotel')
    assert.ok(!type.payload.safeParse({ ...examplePayloads['Book Hotel'], user_explicitly_approved: true }).success)
  })

  test('[EXM-06] the contract of Book Hotel', () => {
    const { spec, type } = task('Book Hotel')
    const effect = catalog.effects.get('connector.hotel_booking.book_hotel')
    assert.deepEqual([spec.risk_level, type.risk_level], ['high', 'high'])
    assert.deepEqual([type.approval.required, type.approval.approval_type], [true, 'hotel_booking_approval'])
    assert.equal(type.idempotency.key_template, 'book_hotel:{booking_draft_id}')
    assert.equal(type.cancellation_mode, 'compensate_then_stop')
    assert.deepEqual(
      [effect?.definition.class, effect?.definition.operation, effect?.definition.undo?.name],
      ['keyed', 'hotel_booking.book_hotel', 'cancel_reservation'],
    )
    assert.ok(type.side_effects.includes('artifact.reservation_confirmation'))
  })

  test('a reader may ask for nothing', () => {
    for (const [name, payload] of Object.entries(examplePayloads))
      assert.equal(decide(name, payload, { role: 'reader', org_roles: [] }).decision, 'deny', name)
  })
})
