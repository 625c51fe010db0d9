import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { declaredIn, gatherEventNames } from './event-names.ts'
import { assertFindings, assertTidy } from './finding.ts'
import { checkPins, type Pinned, pinsOfEvents } from './pins.ts'
import { currentPins } from './pins/current.ts'
import { plantTree, readTree } from './tree.ts'

describe('pins', () => {
  test('what is new, gone or changed asks for a decision', () => {
    const pinned = { a: 'conflict', b: 'invalid', c: 'rate' }
    assertFindings(checkPins('pins.json', 'refusal code', pinned, { a: 'conflict', b: 'forbidden', d: 'usage' }), [
      'pins.json: decide: refusal code d (usage) is new, and users will rely on it; if so, node test/tidy/pins/accept.ts',
      'pins.json: decide: refusal code c is gone and breaks its users; if so, node test/tidy/pins/accept.ts',
      'pins.json: decide: refusal code b was invalid and is now forbidden; if so, node test/tidy/pins/accept.ts',
    ])
    assertFindings(checkPins('pins.json', 'refusal code', pinned, pinned), [])
  })

  test('event names are read from machines and from the lists of rooms', () => {
    const machine = {
      name: 'run',
      creation: { emits: ['run_created'] },
      moves: [{ emits: ['run_ended'] }, { emits: ['run_ended'] }],
    }
    const tree = plantTree({
      'src/domains/identity/events.ts': `export const identityEventTypes = ['org_created'] as const`,
    })
    const names = gatherEventNames(tree, [machine])
    assert.deepEqual(names, { 'machine:run': ['run_created', 'run_ended'], 'room:identity': ['org_created'] })
    assert.deepEqual(pinsOfEvents({ ...names, 'room:x': ['run_ended'] }), {
      org_created: 'room:identity',
      run_created: 'machine:run',
      run_ended: 'machine:run, room:x',
    })
  })

  test('a list may be an array or a table; comments, values and types do not count', () => {
    assert.deepEqual(
      declaredIn(`const aEventTypes = [\n  'one', // 'no'\n  'two',\n] as const\nconst other = ['no']`),
      ['one', 'two'],
    )
    assert.deepEqual(declaredIn(`const eventTypes = { one: 'audit', 'two': { three: 'no' } } as const`), ['one', 'two'])
    assert.deepEqual(declaredIn(`type EventTypes = 'no'\nuse(aEventTypes)`), [])
  })

  const tree = readTree()
  for (const { path, what, actual } of currentPins(tree)) {
    test(`every ${what} is as pinned in ${path}`, () => {
      assertTidy(checkPins(path, what, JSON.parse(tree.get(path) ?? '{}') as Pinned, actual))
    })
  }
})
