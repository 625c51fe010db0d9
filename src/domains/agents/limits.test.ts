/** The limits of a run: only whole numbers from 1 count. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { z } from 'zod'
import { defineAgent } from './agent-definition.ts'

const define = (more: object) => () =>
  defineAgent('x', { input: z.object({}), goal: 'g', role: 'worker', tools: [], runtime: 'scripted', ...more })

test('a limit of 0, NaN, infinity, a text or a negative number is refused with its path', () => {
  for (const name of ['max_steps', 'max_cost_units', 'deadline_minutes'])
    for (const value of [0, Number.NaN, Number('1e309'), -1, -0.5, Number.MAX_SAFE_INTEGER, 0.000_000_1, '2'])
      assert.throws(define({ limits: { [name]: value } }), new RegExp(`x: limits.${name}: Give a .*number`))
  assert.throws(define({ limits: { max_steps: 1.5 } }), /a whole number from 1 to 10000/)
  const limits = { max_steps: 20, max_cost_units: null, deadline_minutes: null }
  assert.deepEqual(define({})().agent.limits, limits)
  assert.deepEqual(define({ limits: { max_cost_units: 0.5 } })().agent.limits, { ...limits, max_cost_units: 0.5 })
})

test('a name that is no limit, no field or no role is refused with the nearest one: it would have no effect', () => {
  assert.throws(define({ limits: { max_step: 4 } }), /limits has no field "max_step". Did you mean `max_steps`/)
  assert.throws(define({ colour: 'red' }), /no field "colour". The fields are input/)
  assert.throws(define({ forbidenTools: [] }), /no field "forbidenTools". Did you mean `forbiddenTools`/)
  assert.throws(define({ role: 'cordinator' }), /no role "cordinator". Did you mean `coordinator`/)
  assert.throws(define({ role: 'chair', tools: undefined }), /no role "chair".*needs `tools`/)
  assert.equal(define({ role: 'chair' })().agent.role, 'chair')
})
