import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { RuntimeSchedule } from './port.ts'
import { decideSchedule, planSchedule, type ScheduleLine } from './schedule-process.ts'

const spec: RuntimeSchedule = {
  name: 'nightly',
  cron: '0 3 * * *',
  zone: 'Europe/Berlin',
  overlap: 'allow',
  missed: 'last',
  kind: 'firing',
}
const start = new Date('2026-03-01T00:00Z')

function aLine(more: Partial<RuntimeSchedule> = {}, now = start): ScheduleLine {
  const line = decideSchedule({ ...spec, ...more }, now)
  assert.ok(line.ok, line.ok ? '' : line.reason)
  return line.value
}

test('[SCD-05] P19: each due time is decided once and has one key, however many workers check it', () => {
  const steps = fc.array(fc.integer({ min: 0, max: 200 }), { minLength: 1, maxLength: 30 })
  fc.assert(
    fc.property(
      steps,
      fc.constantFrom('skip', 'last', 'all'),
      fc.constantFrom(0, 90_000),
      (minutes, missed, jitterMs) => {
        let line = aLine({ cron: '*/10 * * * *', zone: 'UTC', missed, jitterMs })
        const fired: string[] = []
        let now = start
        for (const wait of minutes) {
          now = new Date(now.getTime() + wait * 60_000)
          // Two workers check at the same moment: the second finds everything decided.
          const first = planSchedule(line, 0, now)
          const second = planSchedule(first.line, 0, now)
          assert.deepEqual(second.fire, [])
          fired.push(...first.fire.map(({ id }) => id))
          line = second.line
        }
        assert.equal(new Set(fired).size, fired.length)
        const come = Math.max(0, Math.floor((now.getTime() - jitterMs - start.getTime()) / 600_000))
        assert.equal(line.firedCount + line.missedCount, come)
        if (missed === 'all') assert.equal(line.missedCount, 0)
      },
    ),
  )
})

test('[M2] [SCD-05] after a clock that was ahead is set right, every due time by the right clock fires that had not fired before', () => {
  const minute = 60_000
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 6_000 }), fc.integer({ min: 0, max: 120 }), (aheadMinutes, laterMinutes) => {
      const line = aLine({ cron: '*/10 * * * *', zone: 'UTC', missed: 'all' })
      const ahead = planSchedule(line, 0, new Date(start.getTime() + aheadMinutes * minute))
      const back = planSchedule(ahead.line, 0, start)
      assert.deepEqual(back.fire, [])
      assert.deepEqual(back.next, { t: 'wait', until: new Date(start.getTime() + 10 * minute) })
      const later = planSchedule(back.line, 0, new Date(start.getTime() + laterMinutes * minute))
      assert.equal(later.fire.length, Math.floor(laterMinutes / 10))
    }),
  )
})

test('a firing starts after its jitter, under the key of its due time', () => {
  const line = aLine({ cron: '0 3 * * *', zone: 'UTC', jitterMs: 60_000 })
  assert.deepEqual(planSchedule(line, 0, new Date('2026-03-01T03:00:30Z')).fire, [])
  const turn = planSchedule(line, 0, new Date('2026-03-01T03:01:00Z'))
  assert.deepEqual(turn.fire, [
    { id: 'schedule:nightly:2026-03-01T03:00:00.000Z', dueAt: new Date('2026-03-01T03:00Z') },
  ])
  assert.deepEqual(turn.next, { t: 'wait', until: new Date('2026-03-02T03:01:00Z') })
})

test('a firing that waits for the one before starts when that is done, and is not forgotten when the spec changes', () => {
  const line = aLine({ overlap: 'queue', zone: 'UTC' })
  const held = planSchedule(line, 1, new Date('2026-03-01T03:00Z'))
  assert.deepEqual([held.fire, held.line.heldDueAt], [[], new Date('2026-03-01T03:00Z')])
  const changed = { ...held.line, spec: { ...held.line.spec, cron: '0 4 * * *' } }
  const freed = planSchedule(changed, 0, new Date('2026-03-01T03:05Z'))
  assert.deepEqual(
    freed.fire.map(({ id }) => id),
    ['schedule:nightly:2026-03-01T03:00:00.000Z'],
  )
  assert.equal(freed.line.heldDueAt, null)
})

test('a name is refused when its firings would not fit into a process id', () => {
  for (const name of ['', ':'.repeat(60), 'x'.repeat(190), 'a\u0007b']) {
    const refused = decideSchedule({ ...spec, name }, start)
    assert.equal(refused.ok ? '' : refused.code, 'runtime.schedule.invalid')
  }
  assert.equal(decideSchedule({ ...spec, name: 'expire_pending_approvals' }, start).ok, true)
})
