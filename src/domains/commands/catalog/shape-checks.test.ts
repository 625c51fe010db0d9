/** Definitions with missing fields, which stripped types do not prevent: an error names kind, name and field, and nothing throws. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { defineRetryPolicy } from '#kernel/retry-policy'
import { shippedPolicies } from './shipped-policies.ts'
import {
  defineCommandType,
  defineConnectorOperation,
  defineFunction,
  definePolicy,
  defineSchedule,
  defineTask,
  type Definition,
  registerRetry,
} from './definitions.ts'
import { defineEffect } from './effect-definition.ts'
import { anyHost, openCatalog } from './open-catalog.ts'

// A value from a project without type checks.
const untyped = (value: unknown) => value as never

function messagesOf(...definitions: readonly Definition[]): readonly string[] {
  const opened = openCatalog([...shippedPolicies, ...definitions], anyHost)
  if (opened.ok) return []
  assert.equal(opened.code, 'commands.catalog.invalid')
  return ((opened.facts?.['findings'] ?? []) as readonly { message: string }[]).map(({ message }) => message)
}

const cases: readonly [title: string, make: () => Definition, message: RegExp][] = [
  [
    'a command type without its error classes',
    () => defineCommandType(untyped({ name: 'pay', description: 'd' })),
    /^command_type .?pay.?: error_classes is missing: it must be a list of names$/,
  ],
  [
    'a command type without a schema',
    () => defineCommandType(untyped({ name: 'pay', payload: { a: 1 } })),
    /^command_type .?pay.?: payload has the wrong type: it must be a zod schema$/,
  ],
  ['a task without a function', () => defineTask(untyped({ name: 'Pay' })), /^task .?Pay.?: function_name is missing/],
  [
    'a task whose ingress types are a text',
    () => defineTask(untyped({ name: 'Pay', ingress_types: 5 })),
    /^task .?Pay.?: ingress_types has the wrong type: it must be a list of names$/,
  ],
  ['a function without a plan', () => defineFunction(untyped({ name: 'pay' })), /^function .?pay.?: plan is missing/],
  [
    'an effect without a name',
    () => defineEffect(untyped({ class: 'read' })),
    /^effect \(definition \d+ of the catalog\): effect_type is missing/,
  ],
  ['an effect without a do', () => defineEffect(untyped({ effect_type: 'x.y' })), /^effect .?x\.y.?: do is missing/],
  [
    'an undo without a name',
    () => defineEffect(untyped({ effect_type: 'x.y', class: 'keyed', do: () => 1, undo: { do: () => 1 } })),
    /^effect .?x\.y.?: undo\.name is missing/,
  ],
  ['a policy without a rule', () => definePolicy(untyped({ name: 'p' })), /^policy .?p.?: decide is missing/],
  [
    'an operation without its connector',
    () => defineConnectorOperation(untyped({ operation: 'book' })),
    /^connector_operation .?book.?: connector is missing/,
  ],
  ['a schedule without a time', () => defineSchedule(untyped({ name: 's' })), /^schedule .?s.?: cron is missing/],
  [
    'a retry policy without an operation',
    () => registerRetry(defineRetryPolicy(untyped({}))),
    /^retry_policy \(definition \d+ of the catalog\): operation is missing/,
  ],
  ['an undefined definition', () => untyped(undefined), /^definition \d+ of the catalog: kind is .?undefined.?/],
]

for (const [title, make, message] of cases) {
  test(`${title} is named by its kind, its name and its field`, () => {
    const messages = messagesOf(make())
    assert.ok(
      messages.some((each) => message.test(each)),
      messages.join('\n'),
    )
  })
}

test('every missing field of every definition is reported at once', () => {
  const messages = messagesOf(defineCommandType(untyped({ name: 'pay' })), defineTask(untyped({ name: 'Pay' })))
  const fields = messages.map((message) => /: (\w+) is missing/.exec(message)?.[1])
  const ofType = ['payload', 'description', 'side_effects', 'error_classes', 'cancellable_by', 'audit']
  assert.deepEqual(fields, ofType.concat('command_type', 'function_name', 'description'))
})
