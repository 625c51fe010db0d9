/** A task is found by its name, or by its command type where that can only mean one. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeProvider } from '#test/fake-providers'
import { testDefinitions } from '#test/projects/commands'
import { accepted } from '#test/tenant'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import { defineTask } from './catalog/definitions.ts'
import { findTask } from './tasks.ts'
import { scheduledTypeOf } from './scheduled-commands.ts'

const definitions = testDefinitions(new FakeProvider(), () => () => Promise.resolve(''))
const second = defineTask({
  name: 'More Work',
  description: 'The same by another name.',
  command_type: 'work',
  function_name: 'work',
  ingress_types: ['user_request'],
  async_required: true,
  connector_requirements: ['hotel', 'bank', 'parent'],
  policy_checks: ['permission'],
})
const catalog = accepted(openCatalog(definitions, anyHost))
const work = catalog.tasks.get('Work')

test('by its name, by its type, and not at all', () => {
  assert.ok(work)
  assert.equal(findTask(catalog, 'Work'), work)
  assert.equal(findTask(catalog, 'work'), work)
  assert.equal(findTask(catalog, 'wrok'), undefined)
})

test('a type that two tasks run names neither', () => {
  assert.ok(work)
  const tasks = new Map([...catalog.tasks, ['More Work', { ...work, spec: second.spec }]])
  assert.equal(findTask({ tasks }, 'work'), undefined)
  assert.equal(findTask({ tasks }, 'More Work')?.spec.name, 'More Work')
})

test('a schedule may name the task that the clock starts; another task of the type is not put in its place', () => {
  assert.ok(work)
  assert.equal(scheduledTypeOf(catalog, 'Work'), 'work')
  assert.equal(scheduledTypeOf(catalog, 'work'), 'work')
  const more = { ...catalog, tasks: new Map([...catalog.tasks, ['More Work', { ...work, spec: second.spec }]]) }
  assert.equal(scheduledTypeOf(more, 'More Work'), 'More Work')
})
