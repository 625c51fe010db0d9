/** The three shapes a core function returns: their fields, their defaults, and that nothing in them can change. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { runtimeCapabilities } from './catalog.ts'
import { coreEffect, coreEvent, coreResult, frozenCopy } from './compensation.ts'

test('[EFF-01] [SUP-10] an effect has five fields with their defaults', () => {
  assert.deepEqual(coreEffect({ effect_type: 'connector.mail.send', payload: { to: 'x' } }), {
    effect_type: 'connector.mail.send',
    payload: { to: 'x' },
    idempotency_key: null,
    declared_compensation: null,
    counter_effects: false,
  })
  const full = {
    effect_type: 'connector.hotel.book',
    payload: {},
    idempotency_key: 'book:1',
    declared_compensation: 'cancel_reservation',
    counter_effects: true,
  }
  assert.deepEqual(coreEffect(full), full)
})

test('[DET-04] an event and a result have their fields and defaults', () => {
  assert.deepEqual(coreEvent({ event_type: 'policy_evaluated', payload: { decision: 'allow' } }), {
    event_type: 'policy_evaluated',
    payload: { decision: 'allow' },
  })
  assert.deepEqual(coreResult({ status: 'allowed' }), {
    status: 'allowed',
    events: [],
    effects: [],
    errors: [],
    metadata: {},
  })
})

test('[EFF-01] [DET-04] all of it is frozen to the bottom, and what was passed in is not', () => {
  const payload = { guests: [{ name: 'Ada' }] }
  const effect = coreEffect({ effect_type: 'connector.hotel.book', payload })
  const event = coreEvent({ event_type: 'booked', payload })
  const result = coreResult({
    status: 'allowed',
    effects: [effect],
    events: [event],
    metadata: { deep: { deeper: [1] } },
  })
  for (const value of [effect, event, result]) assert.ok(isFrozen(value))
  assert.throws(() => Object.assign(effect.payload, { guests: [] }), TypeError)
  payload.guests.push({ name: 'Grace' })
  assert.deepEqual(effect.payload, { guests: [{ name: 'Ada' }] })
})

test('a frozen copy equals the original and leaves it alone', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const before = structuredClone(value)
      const copy = frozenCopy(value)
      assert.deepEqual(copy, before)
      assert.deepEqual(value, before)
      assert.ok(isFrozen(copy))
      if (typeof value === 'object' && value !== null) assert.ok(!Object.isFrozen(value))
    }),
  )
})

test('[RUN-02] there are nine capabilities of a runtime', () => {
  assert.deepEqual(
    [...runtimeCapabilities],
    [
      'durable_workflows',
      'durable_steps',
      'queues',
      'schedules',
      'signals',
      'subworkflows',
      'effect_interception',
      'saga_compensation_native',
      'workflow_versioning',
    ],
  )
})

function isFrozen(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  return Object.isFrozen(value) && Object.values(value).every(isFrozen)
}
