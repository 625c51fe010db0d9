/** The taxonomy against lists written out by hand. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  classifyError,
  classifyPostgres,
  errorClasses,
  failureClasses,
  failureTypeOf,
  failureTypes,
  finalErrorClasses,
  isRetryable,
  retryableErrorClasses,
} from './error-classes.ts'

test('[ERR-01] four classes are retryable', () => {
  assert.deepEqual(
    [...retryableErrorClasses],
    ['transient_connector_error', 'rate_limited', 'timeout', 'temporary_database_error'],
  )
  for (const name of retryableErrorClasses) assert.equal(isRetryable(name), true, name)
})

test('[ERR-02] five classes are not, and neither is an unclassified error', () => {
  assert.deepEqual(
    [...finalErrorClasses],
    [
      'validation_error',
      'policy_denied',
      'approval_rejected',
      'permission_denied',
      'malformed_payload',
      'internal_error',
    ],
  )
  for (const name of finalErrorClasses) assert.equal(isRetryable(name), false, name)
})

test('[ERR-03] whatever is not in the list is an internal error', () => {
  for (const stranger of ['', 'Timeout', 'constructor', 'infrastructure', undefined, null, 7, {}])
    assert.equal(classifyError(stranger), 'internal_error')
  for (const name of errorClasses) assert.equal(classifyError(name), name)
  fc.assert(
    fc.property(fc.string(), (name) => {
      fc.pre(!failureClasses.some((known) => known === name))
      assert.equal(classifyError(name), 'internal_error')
      assert.equal(isRetryable(name), false)
    }),
  )
})

test('[MIS-032] an attempt fails by infrastructure or by quality; a refusal is neither', () => {
  assert.deepEqual([...failureTypes], ['infrastructure', 'quality'])
  assert.deepEqual(Object.fromEntries(errorClasses.map((name) => [name, failureTypeOf(name)])), {
    transient_connector_error: 'infrastructure',
    rate_limited: 'infrastructure',
    timeout: 'infrastructure',
    temporary_database_error: 'infrastructure',
    internal_error: 'infrastructure',
    validation_error: 'quality',
    malformed_payload: 'quality',
    policy_denied: undefined,
    approval_rejected: undefined,
    permission_denied: undefined,
  })
})

test('SQLSTATE codes fall into the right class', () => {
  const expected: Record<string, string> = {
    '40001': 'temporary_database_error',
    '40P01': 'temporary_database_error',
    '53300': 'temporary_database_error',
    '53100': 'temporary_database_error',
    '57P01': 'temporary_database_error',
    '57P03': 'temporary_database_error',
    '08006': 'temporary_database_error',
    '08P01': 'temporary_database_error',
    '25006': 'temporary_database_error',
    '55P03': 'temporary_database_error',
    '57014': 'timeout',
    '25P03': 'timeout',
    '42501': 'permission_denied',
    '28P01': 'permission_denied',
    '22P02': 'malformed_payload',
    '22P05': 'malformed_payload',
    '22003': 'validation_error',
    '23505': 'validation_error',
    '23514': 'validation_error',
    '40002': 'internal_error',
    '42601': 'internal_error',
    '42P01': 'internal_error',
    XX000: 'internal_error',
    '08': 'internal_error',
    '': 'internal_error',
    constructor: 'internal_error',
  }
  const actual = Object.fromEntries(Object.keys(expected).map((state) => [state, classifyPostgres(state)]))
  assert.deepEqual(actual, expected)
})
