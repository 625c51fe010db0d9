import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { areas, checkAreas, checkPaths, checkRooms, safety, workflows } from './suite.ts'
import { plantTree, readTree } from './tree.ts'

const policy = { name: 'policy', kind: 'unit', rows: ['POL-01'] } as const
const retry = { name: 'retry', kind: 'database', rows: ['ERR-04'] } as const

describe('the suites', () => {
  test('an area without a test of its kind is found', () => {
    const planted = {
      'src/a.pg.test.ts': `test('[POL-01] decides', run)`,
      'src/a.test.ts': `test('says [POL-01] somewhere', run)\n// [ERR-04]`,
      'src/a.case.ts': `add('[POL-02] [ERR-04] tries again', run)`,
      'src/b.test.ts': `import { cases } from './a.case.ts'`,
    }
    const missing = ['test: policy: no unit test cites POL-01', 'test: retry: no database test cites ERR-04']
    assertFindings(checkAreas(plantTree(planted), [policy, retry]), missing)
    const mended = {
      ...planted,
      'src/c.test.ts': `test('[POL-01] decides', run)`,
      'src/c.pg.test.ts': `import { cases } from './a.case.ts'`,
    }
    assertFindings(checkAreas(plantTree(mended), [policy, retry]), [])
    const narrow = { ...policy, says: /denied/ }
    assertFindings(checkAreas(plantTree(mended), [narrow]), ['test: policy: no unit test cites POL-01'])
  })

  test('a path that no test asks for is found', () => {
    const openapi = JSON.stringify({
      paths: { '/commands/{id}/cancel': {}, '/commands': {}, '/scheduler/jobs/{id}/move': {} },
    })
    const found = (text: string) => checkPaths(plantTree({ 'openapi.json': openapi, 'src/a.test.ts': text }))
    const of = (path: string) => `openapi.json: offers ${path}, which no test asks for`
    assertFindings(found(''), [of('/commands/{id}/cancel'), of('/commands'), of('/scheduler/jobs/{id}/move')])
    assertFindings(found('post(`/commands/${id}/cancelled`); get("/commands?limit=1")'), [
      of('/commands/{id}/cancel'),
      of('/scheduler/jobs/{id}/move'),
    ])
    assertFindings(
      found('post(`/commands/${id}/cancel`); get("/commands"); openScheduler; post(`/jobs/${id}/move`) // scheduler'),
      [],
    )
  })

  test('a room that no test enters is found', () => {
    const room = { 'src/domains/flow/save.ts': `import { statement } from '#store'` }
    assertFindings(checkRooms(plantTree(room)), [
      'src/domains/flow: has no test of its own',
      'src/domains/flow: has no test on Postgres',
    ])
    assertFindings(checkRooms(plantTree({ ...room, 'src/domains/flow/save.pg.test.ts': '' })), [])
  })

  const tree = readTree()
  test('[TST-01] unit tests of transitions, primitive mapping, policy, plans and idempotency', () => {
    const unit = areas.filter(({ kind }) => kind === 'unit')
    assert.equal(unit.length, 5)
    assertTidy(checkAreas(tree, unit))
  })
  test('[TST-02] tests on Postgres of persistence, queues, retry, resuming after approval and the record of calls', () => {
    const database = areas.filter(({ kind }) => kind === 'database')
    assert.equal(database.length, 5)
    assertTidy(checkAreas(tree, database))
  })
  test('[TST-03] tests of whole ways: a report, a publication behind an approval, a webhook that comes twice, an agent that has to ask', () => {
    assert.equal(workflows.length, 4)
    assertTidy(checkAreas(tree, workflows))
  })
  test('[TST-04] tests of what must be stopped: denials, sharing, memory without consent, forbidden tools, repeated webhooks', () => {
    assert.equal(safety.length, 5)
    assertTidy(checkAreas(tree, safety))
  })
  test('[TST-08] whatever others can ask for over HTTP is asked for by a test, and every room has tests', () => {
    assertTidy([...checkPaths(tree), ...checkRooms(tree)])
  })
})
