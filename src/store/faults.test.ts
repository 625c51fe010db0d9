/** What an exception says about the work: only an answer of the server means "not done". */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { constraintOf, isSilence, outcomeOf, refuseConstraint } from './faults.ts'

const answer = (code: string, more = {}) =>
  Object.assign(new Error('from the server'), { code, severity: 'ERROR', ...more })

test('an error of a server that stays up means that nothing was done', () => {
  for (const code of ['23505', '23514', '22P02', '42501', '57014', '53100', '25006'])
    assert.equal(outcomeOf(answer(code)), 'not_done', code)
})

test('what Postgres asks to repeat is retried', () => {
  for (const code of ['40001', '40P01']) assert.equal(outcomeOf(answer(code)), 'again', code)
})

test('a server that goes away, a broken connection and silence leave the outcome unknown', () => {
  for (const code of ['57P01', '57P02', '57P03', '08006', '08P01'])
    assert.equal(outcomeOf(answer(code)), 'unknown', code)
  const broken = [
    Object.assign(new Error('reset'), { code: 'ECONNRESET' }),
    Object.assign(new Error('pipe'), { code: 'EPIPE' }),
    new Error('Connection terminated unexpectedly'),
    new Error('Query read timeout'),
    'not even an error',
    undefined,
  ]
  for (const error of broken) assert.equal(outcomeOf(error), 'unknown')
  assert.ok(isSilence(new Error('Query read timeout')))
  assert.ok(!isSilence(new Error('reset')))
})

test('the answer of the server is found inside what a query builder wraps around it, and a circle of causes ends', () => {
  const wrapped = new Error('Failed query', { cause: new Error('again', { cause: answer('40P01') }) })
  assert.equal(outcomeOf(wrapped), 'again')
  const circle = new Error('circle')
  circle.cause = circle
  assert.equal(outcomeOf(circle), 'unknown')
})

test('a declared constraint becomes its refusal, any other stays an exception', () => {
  const refusals = { commands_key_uq: { code: 'key_reused', reason: 'this key was used before' } } as const
  const error = answer('23505', { constraint: 'commands_key_uq' })
  assert.equal(constraintOf(error), 'commands_key_uq')
  assert.deepEqual(refuseConstraint(error, refusals), {
    ok: false,
    code: 'key_reused',
    reason: 'this key was used before',
    facts: { constraint: 'commands_key_uq' },
  })
  assert.equal(refuseConstraint(answer('23505', { constraint: 'toString' }), refusals), undefined)
  assert.equal(refuseConstraint(new Error('x'), refusals), undefined)
})
