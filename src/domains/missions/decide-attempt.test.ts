/** What follows when an attempt has ended: kinds of failure, time limits, and claims that nobody starts. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { errorClasses } from '#kernel/error-classes'
import { missionConfig } from './config.ts'
import { decideAttempt, decideUnstarted, findTimeLimit, later, leaseOf, sayCrash } from './decide-attempt.ts'
import type { StoredTask } from './mission.ts'

const at = new Date('2026-05-01T12:00:00Z')
const aTask = (more: Partial<StoredTask> = {}) =>
  ({ state: 'running', attempt_number: 1, started_at: at, attempt_started_at: at, spec: {}, ...more }) as StoredTask
const failed = (error_class: string | null, more: Partial<StoredTask> = {}, config = {}) =>
  decideAttempt({ task: aTask(more), status: 'failed', error_class }, missionConfig.parse(config), 9, at)

describe('the end of an attempt', () => {
  test('[MIS-016] each class of error is of the infrastructure, of quality, or a refusal, and only the first is tried again', () => {
    const table = Object.fromEntries(
      errorClasses.map((name) => {
        const next = failed(name)
        return [name, 'failureType' in next ? [next.kind, next.failureType] : next.kind]
      }),
    )
    const again = ['retry', 'infrastructure']
    assert.deepEqual(table, {
      transient_connector_error: again,
      rate_limited: again,
      timeout: again,
      temporary_database_error: again,
      internal_error: again,
      validation_error: ['failed', 'quality'],
      malformed_payload: ['failed', 'quality'],
      policy_denied: ['failed', null],
      approval_rejected: ['failed', null],
      permission_denied: ['failed', null],
    })
    const next = failed('timeout')
    assert.ok(next.kind === 'retry')
    const { payloads, set } = sayCrash(aTask(), next, 'late', at)
    assert.deepEqual(
      [payloads.task_crashed.failure_type, set.failure_type, payloads.task_crashed.attempt_number],
      ['infrastructure', 'infrastructure', 1],
    )
    assert.equal(failed('timeout', { attempt_number: 4 }).kind, 'failed')
  })

  test('[MIS-013] each of the three time limits ends a lease alone, and settings override it', () => {
    const ends = (timeouts: object, task: StoredTask, heardAt = at) => {
      const config = missionConfig.parse({ timeouts })
      const until = leaseOf(task, config, heardAt)
      return [(until.getTime() - at.getTime()) / 1_000, findTimeLimit(task, config, until)]
    }
    assert.deepEqual(ends({}, aTask()), [300, 'stall'])
    assert.deepEqual(ends({ task_stall_seconds: 20, task_attempt_seconds: 60 }, aTask()), [20, 'stall'])
    assert.deepEqual(ends({ task_attempt_seconds: 60, task_deadline_seconds: 90 }, aTask()), [60, 'attempt'])
    assert.deepEqual(ends({ task_attempt_seconds: 60 }, aTask(), later(at, 50)), [60, 'attempt'])
    const second = aTask({ attempt_number: 2, attempt_started_at: later(at, 40) })
    assert.deepEqual(ends({ task_attempt_seconds: 60, task_deadline_seconds: 90 }, second), [90, 'deadline'])
    const isAgain = (task_deadline_seconds: number) =>
      failed('timeout', {}, { timeouts: { task_deadline_seconds } }).kind
    assert.deepEqual([isAgain(11), isAgain(10)], ['retry', 'failed'], 'the next attempt would begin after the deadline')
  })

  test('[MIS-185] a claim that nobody starts is offered again five times', () => {
    const decided = [0, 4, 5, 6].map((returns) => decideUnstarted({ returns }))
    assert.deepEqual(decided, ['offer', 'offer', 'crash', 'crash'])
  })
})
