/** What the runner decides, for every database it may meet. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type AppliedMigration, decideKnown, planDown, planUp } from './decide.ts'
import type { Migration } from './migration-file.ts'

const aFile = (number: number): Migration => ({
  number,
  name: `000${number}_m`,
  up: 'u',
  afterCommit: [],
  down: 'd',
  checksum: `c${number}`,
})
const applied = ({ number, name, checksum }: Migration): AppliedMigration => ({
  number,
  name,
  checksum,
  appliedAt: new Date(0),
  isPending: false,
})
const files = [1, 2, 3, 4, 5].map(aFile)
const names = (plan: ReturnType<typeof planUp>) => (plan.ok ? plan.value.map(({ number }) => number) : plan.code)

test('up does what is missing, down takes back what is there, and together they are nothing', () => {
  fc.assert(
    fc.property(fc.nat({ max: 5 }), fc.nat({ max: 5 }), (count, to) => {
      const rows = files.slice(0, count).map(applied)
      assert.deepEqual(
        names(planUp(files, rows)),
        files.slice(count).map(({ number }) => number),
      )
      const down = planDown(files, rows, { to })
      if (to > count) return assert.equal(down.ok ? 'accepted' : down.code, 'store.migration.target')
      assert.ok(down.ok)
      assert.deepEqual(down, planDown(files, rows, { steps: count - to }))
      const left = rows.filter(({ number }) => !down.value.some((file) => file.number === number))
      const again = planUp(files, left)
      assert.deepEqual(again.ok && again.value.slice(0, count - to), [...down.value].reverse())
    }),
  )
})

test('a database that knows more than the code is refused before anything else is looked at', () => {
  const newer = [...files, aFile(6)].map(applied).with(1, { ...applied(aFile(2)), checksum: 'edited' })
  const decision = decideKnown(files, newer)
  assert.ok(!decision.ok)
  assert.equal(decision.code, 'store.schema.newer')
  assert.deepEqual(decision.facts, { known: 5, unknown: ['0006_m'] })
})

test('an applied migration whose file was edited, renamed or removed is refused', () => {
  const rows = files.map(applied)
  assert.equal(
    names(planUp(files, rows.with(2, { ...applied(aFile(3)), checksum: 'edited' }))),
    'store.migration.changed',
  )
  assert.equal(
    names(planUp(files, rows.with(2, { ...applied(aFile(3)), name: '0003_other' }))),
    'store.migration.changed',
  )
  assert.equal(names(planUp(files, [{ ...applied(aFile(1)), number: 0 }])), 'store.migration.changed')
})

test('a hole in what was applied is refused, wherever it is', () => {
  for (const hole of [0, 1, 2, 3]) {
    assert.equal(
      names(planUp(files, files.map(applied).toSpliced(hole, 1))),
      'store.migration.gap',
      `without ${hole + 1}`,
    )
  }
})

test('a target that is no number of a migration is refused', () => {
  for (const target of [{ to: -1 }, { to: 1.5 }, { to: 6 }, { steps: 6 }, { steps: -1 }, { to: Number.NaN }]) {
    assert.equal(names(planDown(files, files.map(applied), target)), 'store.migration.target', JSON.stringify(target))
  }
})
