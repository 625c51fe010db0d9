import assert from 'node:assert/strict'
import { test } from 'node:test'
import { allMachines } from '#kernel/machines/index'
import { appendEvents, domainEventLog, type Sql } from '#store'
import { gatherEventNames } from './event-names.ts'
import { readTree } from './tree.ts'

const tree = readTree()
const row = /^\| EVT-14 \|([^|]*)\|/m.exec(tree.get('docs/requirements/events.md') ?? '')?.[1] ?? ''
const wanted = [...row.matchAll(/`([a-z_]+)`/g)].map(([, name = '']) => name)
/** The swarms of the room of agents will write the denial of a spawn; until then the row is not proven. */
const hasAgents = [...tree.keys()].some((path) => path.startsWith('src/domains/agents/swarms/'))

test(`${hasAgents ? '[EVT-14] ' : ''}every event of a command is in the list of its writer`, () => {
  assert.equal(wanted.length, 24)
  const names = new Set(Object.values(gatherEventNames(tree, allMachines)).flat())
  const missing = wanted.filter((name) => !names.has(name))
  assert.deepEqual(missing, hasAgents ? [] : ['spawn_denied'])
})

test(`${hasAgents ? '[EVT-14] ' : ''}a log takes no name that is not in its list, and says so before it writes`, async () => {
  const log = domainEventLog({ command_created: 'audit' })
  // A call that reaches the database is a failure.
  const sql = new Proxy({}, { get: () => assert.fail('the database was asked') }) as Sql
  const event = { eventId: 'e', payload: {}, actor: 'a', actorKind: 'system', traceId: 't', at: new Date(0) }
  // The type forbids it, but input from elsewhere has no type.
  const other = { ...event, type: 'report_made' as 'command_created' }
  await assert.rejects(appendEvents(sql, log, [other]), /has no event type report_made/)
})

test('only the store appends to the log: a statement of a room that does it past the list is found', () => {
  const past = [...tree].filter(
    ([path, text]) =>
      path.startsWith('src/') &&
      path.endsWith('.ts') &&
      !/\.(test|case)\.ts$/.test(path) &&
      /insert into concord\.journal/i.test(text),
  )
  assert.deepEqual(
    past.map(([path]) => path),
    // The two statements of a command take the types and purposes of their events from the list of the room.
    ['src/domains/commands/insert-command.ts', 'src/domains/commands/write-command.ts'],
  )
})
