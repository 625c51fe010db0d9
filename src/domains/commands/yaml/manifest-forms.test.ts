/** Command types and approval types in YAML: the hotel example loads to its contracts, and errors have their place. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Decision } from '#kernel/refusal'
import { accepted } from '#test/tenant'
import { loadDefinitions } from './load-definitions.ts'

const bytes = (text: string) => new TextEncoder().encode(text)
const codeOf = (decision: Decision<unknown>) => (decision.ok ? 'ok' : `${decision.code} ${decision.path ?? ''}`.trim())

const bookHotel = `name: book_hotel
version: 1.0.0
description: Books a room at the vendor.
risk_level: high
execution: { mode: approval_gated_async, runtime_workflow: run_command }
payload_schema:
  type: object
  additionalProperties: false
  required: [booking_draft_id, total_price]
  properties:
    booking_draft_id: { type: string, minLength: 1 }
    total_price: { type: number, minimum: 0 }
policies: { required: [permission, approval_required_for_booking] }
approval: { required: true, approval_type: hotel_booking_approval }
artifacts: { produces: [reservation_confirmation] }
connector_operations: [hotel_booking.book_hotel]
idempotency: { required: true, key_template: "book_hotel:{booking_draft_id}" }
compensation: { supported: true, command_type: cancel_hotel }
on_failure: undo
`
const approval = `name: hotel_booking_approval
version: 1.0.0
risk_level: high
required_fields: [hotel_name, check_in_date, check_out_date, total_price, currency, cancellation_policy_summary, booking_draft_id, requester]
decision_values: [approved, rejected, request_changes]
expiration: { default_minutes: 30 }
ui: { template: hotel_booking }
resume: { on_approved: run_command, on_rejected: fail_or_replan }
`

describe('manifests', () => {
  test('[YML-08] a command type loads with its payload, policies, approval, side effects, key and compensation', () => {
    const [loaded] = accepted(loadDefinitions('book_hotel.yaml', bytes(bookHotel)))
    const type = loaded?.catalog
    assert.ok(type?.kind === 'command_type')
    assert.deepEqual(
      [type.name, type.version, type.risk_level, type.execution_mode],
      ['book_hotel', '1.0.0', 'high', 'approval_gated_async'],
    )
    assert.deepEqual(type.policies, ['permission', 'approval_required_for_booking'])
    assert.deepEqual([type.approval.required, type.approval.approval_type], [true, 'hotel_booking_approval'])
    assert.deepEqual(type.side_effects, ['connector.hotel_booking.book_hotel', 'artifact.reservation_confirmation'])
    assert.deepEqual(type.idempotency, { required: true, key_template: 'book_hotel:{booking_draft_id}' })
    assert.deepEqual(type.compensation, { supported: true, command_type: 'cancel_hotel' })
    assert.equal(type.on_failure, 'undo')
    const fits = (payload: object) => type.payload.safeParse(payload).success
    assert.ok(fits({ booking_draft_id: 'd', total_price: 0 }))
    assert.equal(fits({ booking_draft_id: 'd', total_price: -1 }), false)
    assert.equal(fits({ booking_draft_id: 'd' }), false)
    assert.equal(fits({ booking_draft_id: 'd', total_price: 1, more: 1 }), false)
  })

  test('[YML-09] an approval type loads with its eight fields, its decisions, its thirty minutes and its resume steps', () => {
    const [loaded] = accepted(loadDefinitions('approval.yaml', bytes(approval)))
    const type = loaded?.approvalType ?? assert.fail()
    assert.deepEqual([type.name, type.version, type.riskLevel], ['hotel_booking_approval', '1.0.0', 'high'])
    assert.equal(type.requiredFields.length, 8)
    assert.deepEqual(type.decisionValues, ['approved', 'rejected', 'request_changes'])
    assert.deepEqual([type.expirationMinutes, type.ui], [30, { template: 'hotel_booking' }])
    assert.deepEqual([type.resume.on_approved, type.resume.on_rejected], ['run_command', 'fail_or_replan'])
  })

  for (const [title, text, answer] of [
    ['an unknown field', `${bookHotel}polices: []\n`, 'unknown_field polices'],
    ['a version of two numbers', bookHotel.replace('1.0.0', '"1.0"'), 'commands.definition.invalid version'],
    [
      'an unknown mode',
      bookHotel.replace('approval_gated_async', 'soon'),
      'commands.definition.invalid execution.mode',
    ],
    [
      'a payload that takes any field',
      bookHotel.replace('additionalProperties: false', 'additionalProperties: true'),
      'commands.definition.invalid payload_schema.additionalProperties',
    ],
    [
      'a remote reference',
      bookHotel.replace('{ type: string, minLength: 1 }', '{ $ref: "https://x.example/y" }'),
      'commands.definition.invalid payload_schema',
    ],
    [
      'an unknown decision',
      approval.replace('request_changes', 'maybe'),
      'commands.definition.invalid decision_values[2]',
    ],
    [
      'only an approval',
      approval.replace('[approved, rejected, request_changes]', '[approved, request_changes]'),
      'commands.definition.invalid',
    ],
    ['another unknown field', `${approval}sla: 5\n`, 'unknown_field sla'],
  ] as const) {
    test(`[YML-10] ${title} is refused with its place`, () => {
      const loaded = loadDefinitions('m.yaml', bytes(text))
      assert.equal(codeOf(loaded), answer)
      assert.ok(!loaded.ok && /^m\.yaml:\d+: /.test(loaded.reason))
    })
  }

  test('[YML-10] JSON of the same shape loads too', () => {
    const json = JSON.stringify({
      name: 'a_b',
      version: '1.0.0',
      risk_level: 'low',
      expiration: { default_minutes: 5 },
    })
    assert.ok(loadDefinitions('a.json', bytes(json)).ok)
  })
})
