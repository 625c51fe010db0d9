/** Schedules: one firing per due time, missed and overlapping firings by policy, and clock changes. */
import assert from 'node:assert/strict'
import type { Next, RuntimeSchedule } from '#runtime'
import { type AddCase, type CaseBench, note, type OpenCase } from './runtime-bench.case.ts'

const done: Next = { t: 'done' }
const MINUTE_MS = 60_000
const hourly: RuntimeSchedule = { name: 'tick', cron: '0 * * * *', overlap: 'allow', missed: 'all', kind: 'firing' }

/**
 * Firings are recorded by their id and stay open while `held` is on the store. For schedules it is half past: the next due time
 * of `hourly` is half an hour away, so that a case around a full hour meets the same due times as any other.
 */
async function openFirings(open: OpenCase): Promise<CaseBench> {
  const bench = await open((runtime, store) => {
    runtime.register('firing', async (id) => {
      await store.transaction(async (tx) => {
        const known = (await tx.read<string[]>('fired')) ?? []
        if (!known.includes(id)) await note(tx, 'fired', id)
      })
      return (await store.read('held')) ? { t: 'wait', until: null } : done
    })
  })
  const minute = new Date(await nowOf(bench)).getUTCMinutes()
  await bench.passForSchedules(((90 - minute) % 60) * MINUTE_MS)
  return bench
}

async function firedCount(bench: CaseBench): Promise<number> {
  return (await bench.store.read<string[]>('fired'))?.length ?? 0
}

/** Waits until the schedule has decided everything that was due. */
async function decided(bench: CaseBench, name: string, count: number): Promise<void> {
  await bench.reach(async () => {
    const view = await bench.runtime.describeSchedule(name)
    return view && view.firedCount + view.missedCount >= count
  })
  const view = await bench.runtime.describeSchedule(name)
  await bench.reach(async () => (await firedCount(bench)) === (view?.firedCount ?? 0))
}

export function scheduleCases(add: AddCase): void {
  add('[SCD-05] a due time fires once, under the key of schedule and due time', async (open) => {
    const bench = await openFirings(open)
    const made = await bench.runtime.schedule(hourly)
    assert.ok(made.ok)
    const first = made.value.nextDueAt
    assert.ok(first)
    assert.equal(first.getUTCMinutes(), 0)
    await bench.passForSchedules(60 * MINUTE_MS)
    await decided(bench, 'tick', 1)
    // A second look at the same due time, as by a second worker, fires nothing.
    await bench.runtime.wake({ kind: 'schedule', id: 'tick' })
    await bench.reach(async () => (await bench.runtime.describe({ kind: 'schedule', id: 'tick' }))?.state === 'waiting')
    assert.deepEqual(await bench.store.read('fired'), [`schedule:tick:${first.toISOString()}`])
    const view = await bench.runtime.describeSchedule('tick')
    assert.deepEqual([view?.firedCount, view?.missedCount, view?.lastDueAt], [1, 0, first])
    assert.equal(await bench.runtime.unschedule('tick'), true)
    assert.equal(await bench.runtime.unschedule('tick'), false)
    assert.equal(await bench.runtime.describeSchedule('tick'), undefined)
  })

  for (const [missed, fired, left] of [
    ['all', 5, 0],
    ['last', 1, 4],
    ['skip', 0, 5],
  ] as const) {
    add(
      `[SCD-01] an outage of five due times with missed = ${missed}: ${fired} fire, ${left} are recorded as missed`,
      async (open) => {
        const bench = await openFirings(open)
        // From half past to half past there are five due times, and none is recent enough to be on time.
        assert.ok((await bench.runtime.schedule({ ...hourly, missed })).ok)
        await outage(bench, 5 * 60 * MINUTE_MS)
        await decided(bench, 'tick', 5)
        const view = await bench.runtime.describeSchedule('tick')
        assert.deepEqual([view?.firedCount, view?.missedCount], [fired, left])
        await bench.runtime.unschedule('tick')
      },
    )
  }

  for (const [overlap, during, after] of [
    ['allow', 3, 3],
    ['queue', 1, 2],
    ['skip', 1, 1],
  ] as const) {
    add(
      `overlap = ${overlap}: ${during} of three firings while the first is open, ${after} once it is done`,
      async (open) => {
        const bench = await openFirings(open)
        await bench.store.transaction((tx) => tx.write('held', true))
        const made = await bench.runtime.schedule({ ...hourly, overlap })
        assert.ok(made.ok)
        for (let hour = 1; hour <= 3; hour++) {
          await bench.passForSchedules(60 * MINUTE_MS)
          await bench.reach(async () => {
            const view = await bench.runtime.describeSchedule('tick')
            const held = overlap === 'queue' && hour > 1 ? 1 : 0
            return view && view.firedCount + view.missedCount + held >= hour
          })
        }
        await bench.reach(async () => (await firedCount(bench)) === during)
        await bench.store.transaction((tx) => tx.write('held', false))
        for (const id of (await bench.store.read<string[]>('fired')) ?? [])
          await bench.runtime.wake({ kind: 'firing', id })
        await bench.reach(async () => (await bench.runtime.describeSchedule('tick'))?.openCount === 0)
        await bench.reach(async () => (await firedCount(bench)) === after)
        await bench.runtime.unschedule('tick')
      },
    )
  }

  add('[SCD-05] a schedule that is no schedule is refused', async (open) => {
    const bench = await openFirings(open)
    const codes = await Promise.all(
      [
        { cron: '* * * *' },
        { cron: '61 * * * *' },
        { cron: '0 0 30 2 *' },
        { zone: 'Mars/Base' },
        { kind: 'nobody' },
        { queue: 'nowhere' },
        { name: '' },
        { jitterMs: -1 },
      ].map(async (wrong) => {
        const answer = await bench.runtime.schedule({ ...hourly, ...wrong })
        return answer.ok ? 'accepted' : answer.code
      }),
    )
    const invalid = 'runtime.schedule.invalid'
    const expected = [
      'cron_fields',
      'cron_value',
      'cron_never',
      'timezone_unknown',
      'runtime.kind.unknown',
      'runtime.queue.unknown',
    ]
    assert.deepEqual(codes, [...expected, invalid, invalid])
  })
}

/** The time that schedules see. */
async function nowOf(bench: CaseBench): Promise<number> {
  const probe = await bench.runtime.schedule({ ...hourly, name: 'probe', cron: '* * * * *' })
  assert.ok(probe.ok && probe.value.nextDueAt)
  await bench.runtime.unschedule('probe')
  return probe.value.nextDueAt.getTime() - MINUTE_MS
}

/** No worker runs meanwhile: it ends before and starts afterwards. */
async function outage(bench: CaseBench, ms: number): Promise<void> {
  await bench.reach(async () => (await bench.runtime.describe({ kind: 'schedule', id: 'tick' }))?.state === 'waiting')
  await bench.runtime.close()
  await bench.passForSchedules(ms)
  await bench.crash()
}
