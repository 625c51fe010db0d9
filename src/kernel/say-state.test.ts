import assert from 'node:assert/strict'
import { test } from 'node:test'
import { statesOf } from './machine.ts'
import { commandMachine } from './machines/command.ts'
import { sayState } from './say-state.ts'

test('every state of a command ends a sentence', () => {
  assert.deepEqual(statesOf(commandMachine).map(sayState).toSorted(), [
    'has expired',
    'has failed',
    'has succeeded',
    'is approved',
    'is blocked',
    'is cancelled',
    'is cancelling',
    'is compensated',
    'is compensating',
    'is created',
    'is queued',
    'is running',
    'is validated',
    'is waiting for approval',
    'is waiting for input',
  ])
})
