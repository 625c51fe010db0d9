/** A binding that could write a forbidden column is refused when it is declared, not when it runs. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineMachine, moves } from '#kernel/machine'
import { storedCommand } from '#test/concord-rows'
import { defineEventLog } from './events.ts'
import { statementName } from './statement.ts'
import { storedMachine } from './transition.ts'

const machine = defineMachine({
  name: 'toy',
  title: 'A toy.',
  states: { on: 'running', off: 'terminal' },
  initial: 'on',
  moves: moves('on', 'off', ['user'], ['switched']),
  lock: 'from-state',
})
const log = defineEventLog({
  table: 'public.log',
  types: ['switched'],
  payload: 'payload',
  time: 'at',
  columns: [{ name: 'payload', type: 'jsonb', valueOf: ({ payload }) => payload }],
  links: { toy_id: 'uuid' },
})
const good = {
  machine,
  table: 'public.toys',
  id: 'id',
  state: 'state',
  tenant: 'tenant_id',
  log: { log, target: 'toy', links: { toy_id: 'id' } },
} as const

test('a valid binding is returned unchanged', () => {
  assert.equal(storedMachine(good), good)
})

test('every invalid binding is refused', () => {
  const { log: _, ...unlogged } = good
  const wrong = [
    { ...good, table: 'public.toys; drop table x' },
    { ...good, id: 'id"' },
    { ...good, state: 'State' },
    { ...good, machine: { ...machine, lock: 'version' as const } },
    unlogged,
    { ...good, log: { ...good.log, log: { ...log, types: [] } } },
    { ...good, log: { ...good.log, links: { made_up: 'id' } } },
    { ...good, settable: { state: 'text' } as const },
    { ...good, settable: { tenant_id: 'uuid' } as const },
    { ...good, returning: ['id'] },
    { ...good, machine: { ...machine, nullState: 'on' as const } },
  ]
  // The deliberately wrong ones do not fit the type either.
  for (const [index, binding] of wrong.entries()) {
    assert.throws(() => storedMachine(binding as typeof good), { name: 'KernelFault' }, `binding ${index}`)
  }
  assert.equal(storedCommand.machine.lock, 'from-state')
})

test('the name of a statement changes with its text and fits the length that Postgres keeps', () => {
  const long = 'a very long label with ünïcode and (brackets)'.repeat(5)
  assert.notEqual(statementName(long, 'select 1'), statementName(long, 'select 2'))
  assert.ok(Buffer.byteLength(statementName(long, 'select 1')) <= 63)
})
