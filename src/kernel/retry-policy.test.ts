/** Retry contracts of operations: defaults, the declared form, and what is refused. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { retryableErrorClasses } from './error-classes.ts'
import { decideRetry } from './retry.ts'
import {
  checkOperations,
  compensationPolicy,
  compilePolicy,
  decideStepKey,
  defineRetryPolicy,
  parseRetryMetadata,
  registerRetryPolicies,
  type RetryPolicy,
} from './retry-policy.ts'

const search = defineRetryPolicy({ operation: 'hotel_booking.search', retryable: ['timeout', 'rate_limited'] })

function registryOf(...policies: RetryPolicy[]) {
  const registry = registerRetryPolicies(policies)
  assert.ok(registry.ok)
  return registry.value
}

function compiled(policy: RetryPolicy) {
  const settings = compilePolicy(policy.operation, registryOf(policy))
  assert.ok(settings.ok)
  return settings.value
}

function delaysOf(policy: RetryPolicy): (number | string)[] {
  const settings = compiled(policy)
  return [1, 2, 3, 4, 5].map((attempt) => {
    const decision = decideRetry(settings, { attempt, errorClass: 'timeout', random: () => 0.5 })
    return decision.retry ? decision.delayMs / 1_000 : decision.why
  })
}

test('[ERR-05] the defaults of a policy, frozen', () => {
  assert.deepEqual(search, {
    operation: 'hotel_booking.search',
    retryable: ['timeout', 'rate_limited'],
    max_attempts: 3,
    backoff_seconds: [30, 120, 600],
    requires_idempotency_key: false,
  })
  assert.ok(Object.isFrozen(search) && Object.isFrozen(search.retryable) && Object.isFrozen(search.backoff_seconds))
})

test('[ERR-05] one policy per operation', () => {
  const twice = registerRetryPolicies([search, search])
  assert.equal(twice.ok ? 'accepted' : twice.code, 'retry.policy.duplicate')
})

test('[ERR-07] max_attempts counts executions: the third delay is used only from four on', () => {
  assert.deepEqual(delaysOf(search), [30, 120, 'exhausted', 'exhausted', 'exhausted'])
  assert.deepEqual(delaysOf({ ...search, max_attempts: 4 }), [30, 120, 600, 'exhausted', 'exhausted'])
  assert.deepEqual(delaysOf({ ...search, max_attempts: 1 }).slice(0, 1), ['exhausted'])
  assert.deepEqual(delaysOf({ ...search, max_attempts: 9 }), [30, 120, 600, 600, 600])
})

test('a class the policy does not list is not retried', () => {
  const decision = decideRetry(compiled(search), {
    attempt: 1,
    errorClass: 'transient_connector_error',
    random: () => 0,
  })
  assert.deepEqual(decision, { retry: false, why: 'not_listed' })
})

describe('the declared form', () => {
  const declared = {
    operation: 'hotel_booking.search',
    retry_class: 'transient_connector_error',
    max_attempts: 3,
    requires_idempotency_key: true,
  }

  test('[ERR-09] four fields become a policy', () => {
    const parsed = parseRetryMetadata(declared)
    assert.ok(parsed.ok)
    assert.deepEqual(parsed.value, {
      operation: 'hotel_booking.search',
      retryable: ['transient_connector_error'],
      max_attempts: 3,
      backoff_seconds: [30, 120, 600],
      requires_idempotency_key: true,
    })
  })

  test('[ERR-09] a list of classes is read too, and what is left out has its default', () => {
    const parsed = parseRetryMetadata({ operation: 'x', retry_class: ['timeout', 'rate_limited'] })
    assert.ok(parsed.ok)
    assert.deepEqual(parsed.value.retryable, ['timeout', 'rate_limited'])
    assert.equal(parsed.value.max_attempts, 3)
    assert.equal(parsed.value.requires_idempotency_key, false)
  })

  const wrong: [string, unknown, string | undefined][] = [
    ['no object', 'hotel', undefined],
    ['a list', [declared], undefined],
    ['null', null, undefined],
    ['no operation', { ...declared, operation: '' }, 'operation'],
    ['an unknown class', { ...declared, retry_class: 'bad_luck' }, 'retry_class'],
    ['a final class', { ...declared, retry_class: 'validation_error' }, 'retry_class'],
    ['a final class among others', { ...declared, retry_class: ['timeout', 'internal_error'] }, 'retry_class'],
    ['a failure type of missions', { ...declared, retry_class: 'quality' }, 'retry_class'],
    ['no class', { ...declared, retry_class: [] }, 'retry_class'],
    ['zero attempts', { ...declared, max_attempts: 0 }, 'max_attempts'],
    ['half an attempt', { ...declared, max_attempts: 1.5 }, 'max_attempts'],
    ['endless attempts', { ...declared, max_attempts: Number.POSITIVE_INFINITY }, 'max_attempts'],
    ['a text for a number', { ...declared, max_attempts: '3' }, 'max_attempts'],
    ['a text for a flag', { ...declared, requires_idempotency_key: 'yes' }, 'requires_idempotency_key'],
    ['an unknown field', { ...declared, max_attempt: 3 }, 'max_attempt'],
  ]
  for (const [name, input, path] of wrong)
    test(`[ERR-09] refused: ${name}`, () => {
      const parsed = parseRetryMetadata(input)
      assert.ok(!parsed.ok)
      assert.equal(parsed.code, 'retry.policy.invalid')
      assert.equal(parsed.path, path)
    })

  test('a mistyped field gets the right name', () => {
    const parsed = parseRetryMetadata({ ...declared, max_attempt: 3 })
    assert.equal(parsed.ok ? '' : parsed.hint, 'Did you mean `max_attempts`?')
  })
})

test('[ERR-10] an operation that requires a key does not run without one', () => {
  const strict = compiled({ ...search, requires_idempotency_key: true })
  for (const key of [null, '']) {
    const decision = decideStepKey(strict, key)
    assert.equal(decision.ok ? 'ran' : decision.code, 'retry.key.missing')
  }
  assert.deepEqual(decideStepKey(strict, 'book:1'), { ok: true, value: 'book:1' })
  assert.deepEqual(decideStepKey(compiled(search), null), { ok: true, value: null })
})

test('[ERR-13] an operation without a policy is refused, and all of them are named', () => {
  const registry = registryOf(search)
  const single = compilePolicy('hotel_booking.serch', registry)
  assert.ok(!single.ok)
  assert.equal(single.code, 'retry.policy.unknown')
  assert.equal(single.hint, 'Did you mean `hotel_booking.search`?')
  const several = checkOperations(['hotel_booking.search', 'mail.send', 'crm.sync'], registry)
  assert.ok(!several.ok)
  assert.deepEqual(several.facts, { operations: ['mail.send', 'crm.sync'] })
  assert.equal(checkOperations(['hotel_booking.search'], registry).ok, true)
})

test('undo steps have a policy of their own, with a key', () => {
  const settings = compiled(compensationPolicy)
  assert.deepEqual(settings.retryable, [...retryableErrorClasses])
  assert.equal(settings.requiresIdempotencyKey, true)
})
