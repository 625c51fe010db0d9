/** Finding a tool by name: every name that matches one, and every name that does not. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findTool, listTools, toolSlug } from './find-tool.ts'
import type { CompiledTask } from '../catalog/open-catalog.ts'
import { defineTask } from '../catalog/definitions.ts'

const task = (name: string, type: string, fn: string, ...ingress_types: ('agent_action' | 'user_request')[]) => {
  const { spec } = defineTask({ name, description: 'd', command_type: type, function_name: fn, ingress_types })
  // findTool reads only the names and the ingress types.
  return [name, { spec, type: { name: type } } as unknown as CompiledTask] as const
}

const tasks = new Map([
  task('Publish Report', 'publish', 'send_report', 'agent_action'),
  task('Publish Report (quick)', 'publish_quick', 'send_quick', 'agent_action'),
  task('Pay Salaries', 'pay_salaries', 'pay', 'user_request'),
  task('Pay Bonus', 'pay_bonus', 'pay', 'user_request'),
  task('Twin One', 'twin', 'one', 'agent_action'),
  task('Twin Two', 'twin', 'two', 'agent_action'),
  task('Half Closed', 'half', 'half_a', 'user_request'),
  task('Half Open', 'half', 'half_b', 'agent_action'),
])
const found = (name: string) => {
  const tool = findTool({ tasks }, name)
  return tool.ok ? tool.value.spec.name : tool.code
}

test('a tool is found by the name of its task, by its slug, its function or its command type', () => {
  for (const name of ['Publish Report', 'publish_report', 'send_report', 'publish'])
    assert.equal(found(name), 'Publish Report', name)
  assert.equal(found('publish_report_quick'), 'Publish Report (quick)')
  assert.equal(found('half'), 'Half Open', 'a task that is closed to agents does not make the name ambiguous')
})

test('a task that is not open to agents is forbidden under each of its names; any other name is unknown', () => {
  for (const name of ['Pay Salaries', 'pay_salaries', 'pay']) assert.equal(found(name), 'commands.tool.forbidden', name)
  assert.equal(found('twin'), 'commands.tool.ambiguous')
  for (const name of ['publish report', 'publish_reprot', '', '__proto__', 'constructor'])
    assert.equal(found(name), 'commands.tool.unknown', name)
  const near = findTool({ tasks }, 'publish_reprot')
  assert.equal(near.ok ? '' : near.hint, 'Did you mean `publish_report`?')
  const secret = findTool({ tasks }, 'pay_salarie')
  assert.doesNotMatch(JSON.stringify(secret), /pay_salaries/, 'a closed task is not suggested')
})

test('the slug of a task is a valid name of a tool', () => {
  assert.deepEqual(['Publish Report', '  Ärger & Co. ', 'x'].map(toolSlug), ['publish_report', 'rger_co', 'x'])
})

test('every listed tool has a name that finds it and no other, also where slugs collide', () => {
  const colliding = new Map([
    ...tasks,
    task('Twin-One', 'twin_three', 'three', 'agent_action'),
    task('one', 'four', 'five', 'agent_action'),
  ])
  const listed = listTools({ tasks: colliding }, undefined)
  for (const { name, task: own } of listed) {
    const tool = findTool({ tasks: colliding }, name)
    assert.equal(tool.ok && tool.value, own, name)
  }
  const names = new Map(listed.map(({ name, task: { spec } }) => [spec.name, name]))
  assert.equal(new Set(names.values()).size, listed.length)
  assert.deepEqual(
    ['Twin One', 'Twin-One', 'one', 'Publish Report', 'Pay Bonus'].map((name) => names.get(name)),
    ['Twin One', 'three', 'one', 'publish_report', undefined],
  )
  const agent = { name: 'a', tools: ['Publish Report', 'Pay Bonus'] }
  assert.deepEqual(
    listTools({ tasks: colliding }, agent).map(({ name }) => name),
    ['publish_report'],
  )
})
