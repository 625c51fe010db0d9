import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { Principal } from '#domains/identity'
import { openScheduleBench, type ScheduleBench } from '#test/schedules'
import { accepted, aPerson, aTenant, TRACE } from '#test/tenant'
import { recordResumedSchedule } from './drive-firing.ts'
import { syncCommandSchedules } from './sync-catalog.ts'
import {
  changeCommandSchedule,
  createCommandSchedule,
  type CreateCommandSchedule,
  getCommandSchedule,
  listCommandSchedules,
  removeCommandSchedule,
  type StoredCommandSchedule,
} from './command-schedule.ts'
import { byPerson } from '#kernel/actor'
import { toCommandScheduleView } from './contract.ts'

describe('making, changing and ending schedules', () => {
  let bench: ScheduleBench
  before(async () => {
    bench = await openScheduleBench()
  })
  after(() => bench.close())

  const world = () => bench.work().schedules
  const writer = () => bench.tenant.people.writer.principal
  const admin = () => bench.tenant.people.admin.principal
  const here = () => bench.tenant.workspace.id
  let names = 0
  const create = (more: Partial<CreateCommandSchedule> = {}, principal: Principal = writer()) =>
    createCommandSchedule(world(), byPerson(principal, TRACE), {
      name: `schedule ${++names}`,
      command_type: 'tick',
      cron: '30 2 * * *',
      workspaceId: here(),
      ...more,
    })
  const made = async (more: Partial<CreateCommandSchedule> = {}) => accepted(await create(more)).schedule
  const ref = (scheduleId: string) => ({ workspaceId: here(), scheduleId })
  const codeOf = async (decision: Promise<{ ok: boolean; code?: string; path?: string }>) => {
    const { ok, code, path } = await decision
    return ok ? 'ok' : `${code} ${path ?? ''}`.trim()
  }
  const events = (name: string) =>
    bench.opened.db.query<{ event_type: string; actor: string; purpose: string; payload: Record<string, unknown> }>(
      `select event_type, actor, purpose, payload from concord.domain_events where payload->>'name' = $1 order by seq`,
      [name],
    )
  const known = (scheduleId: string) => world().runtime.describeSchedule(`csched_${scheduleId.replaceAll('-', '')}`)

  test('[EVT-06] an operator who gives a schedule, or one firing of it, another chance is on record there', async () => {
    const schedule = await made({ name: 'resumed' })
    const name = `csched_${schedule.schedule_id.replaceAll('-', '')}`
    const by = { id: 'operator:root', kind: 'operator', traceId: TRACE } as const
    const SECRET = `sk_live_${'a1'.repeat(10)}`
    const { newId, now } = world().commands
    const resume = (process: { kind: string; id: string }) =>
      bench.opened.db.transaction((tx) =>
        recordResumedSchedule(tx, { newId, now }, by, { process, why: 'failing', reason: `repaired with ${SECRET}` }),
      )
    const firing = { kind: 'schedule_firing', id: `schedule:${name}:2026-05-01T02:30:00.000Z` }
    assert.equal(await resume({ kind: 'schedule', id: name }), true)
    assert.equal(await resume(firing), true)
    assert.equal(await resume({ kind: 'schedule', id: 'nobody' }), false)
    const told = (await events('resumed')).filter(({ event_type }) => event_type === 'schedule_resumed')
    assert.deepEqual(
      told.map(({ actor, purpose, payload }) => [actor, purpose, payload['target_id'], payload['due_at']]),
      [
        ['operator:root', 'audit', schedule.schedule_id, null],
        ['operator:root', 'audit', schedule.schedule_id, '2026-05-01T02:30:00.000Z'],
      ],
    )
    assert.deepEqual(new Set(told.map(({ payload }) => payload['reason'])), new Set(['repaired with [redacted]']))
  })

  test('fifty who make a schedule at once do not pass the limit of the workspace; the same again, removing, and others are as ever', async () => {
    const limited = { ...world(), schedulesMax: 3 }
    const { workspace, people } = await aTenant(bench.identity)
    const asked = (name: string) => ({
      name,
      command_type: 'tick',
      cron: '30 2 * * *',
      workspaceId: workspace.id,
      traceId: TRACE,
    })
    const make = (name: string) => createCommandSchedule(limited, byPerson(people.writer.principal, TRACE), asked(name))
    const answers = await Promise.all(Array.from({ length: 50 }, (_, index) => make(`crowd ${index}`)))
    const refusals = answers.filter((answer) => !answer.ok)
    assert.equal(refusals.length, 47)
    for (const refusal of refusals) {
      assert.ok(!refusal.ok && refusal.code === 'schedules.schedule.too_many' && /remove/i.test(refusal.hint ?? ''))
    }
    const count = `select count(*)::int as count from schedules.command_schedules
      where workspace_id = $1 and origin = 'person' and removed_at is null`
    assert.deepEqual(await bench.opened.db.query(count, [workspace.id]), [{ count: 3 }])
    const [kept] = answers.flatMap((answer) => (answer.ok ? [answer.value.schedule] : []))
    assert.ok(kept)
    assert.equal(accepted(await make(kept.name)).isNew, false)
    // Switched off it still counts, removed it does not; and another workspace has its own.
    const mine = { workspaceId: workspace.id, scheduleId: kept.schedule_id, traceId: TRACE }
    accepted(
      await changeCommandSchedule(limited, byPerson(people.writer.principal, TRACE), {
        ...mine,
        change: { enabled: false },
      }),
    )
    assert.equal((await make('one more')).ok, false)
    accepted(await removeCommandSchedule(limited, byPerson(people.writer.principal, TRACE), mine))
    assert.equal(accepted(await make('one more')).isNew, true)
    assert.equal((await make('too many')).ok, false)
    accepted(await create({ name: 'elsewhere' }))
  })

  test('[SCD-01] what was left out has its usual value, and the runtime keeps the due times', async () => {
    const { schedule, isNew } = accepted(await create({ name: 'usual' }))
    const { time_zone, queue, overlap, misfire, jitter_ms, enabled, payload, origin, created_role } = schedule
    assert.deepEqual(
      [isNew, time_zone, queue, overlap, misfire, jitter_ms, enabled, payload, origin, created_role],
      [true, 'UTC', 'scheduled_maintenance', 'skip', 'last', 0, true, {}, 'person', 'writer'],
    )
    const view = await known(schedule.schedule_id)
    assert.deepEqual([view?.spec.cron, view?.spec.kind], ['30 2 * * *', 'schedule_firing'])
    const [created] = await events('usual')
    assert.deepEqual(
      [created?.event_type, created?.actor, created?.purpose, created?.payload['target_id']],
      ['schedule_created', `user:${writer().userId}`, 'audit', schedule.schedule_id],
    )
  })

  test('the same once more is the same schedule; another of that name is refused, and one of a removed name is not', async () => {
    const input = { name: 'twice', payload: { note: 'a' } }
    const [first, second] = [accepted(await create(input)), accepted(await create(input))]
    assert.deepEqual([second.isNew, second.schedule.schedule_id], [false, first.schedule.schedule_id])
    assert.equal((await events('twice')).length, 1)
    assert.equal(await codeOf(create({ ...input, payload: { note: 'b' } })), 'schedules.schedule.name_taken name')
    assert.equal(await codeOf(create(input, admin())), 'schedules.schedule.name_taken name')
    accepted(await removeCommandSchedule(world(), byPerson(writer(), TRACE), ref(first.schedule.schedule_id)))
    assert.equal(await known(first.schedule.schedule_id), undefined)
    assert.equal(accepted(await create({ ...input, payload: { note: 'b' } })).isNew, true)
  })

  test('twenty people who ask at once make one', async () => {
    const all = await Promise.all(Array.from({ length: 20 }, () => create({ name: 'crowd' })))
    assert.equal(all.filter((each) => each.ok && each.value.isNew).length, 1)
    assert.equal(new Set(all.map((each) => accepted(each).schedule.schedule_id)).size, 1)
  })

  for (const [what, more, outcome] of [
    ['an unknown type', { command_type: 'tik' }, 'schedules.command_type.unknown command_type'],
    [
      'a type that no clock may start',
      { command_type: 'unscheduled_tick' },
      'schedules.command_type.not_scheduled command_type',
    ],
    ['a payload that does not fit', { payload: { note: 7 } }, 'schedules.payload.invalid payload'],
    ['a payload with a strange field', { payload: { nte: 'x' } }, 'schedules.payload.invalid payload'],
    ['a payload that lacks a field', { command_type: 'asked_tick' }, 'schedules.payload.invalid payload.note'],
    ['a secret in the payload', { payload: { secret: 'hunter2' } }, 'commands.payload.secret payload.secret'],
    ['six fields', { cron: '0 30 2 * * *' }, 'cron_fields cron'],
    ['a minute that there is not', { cron: '61 * * * *' }, 'cron_value cron'],
    ['the 30th of February', { cron: '0 0 30 2 *' }, 'cron_never cron'],
    ['a zone that there is not', { time_zone: 'Europe/Berln' }, 'timezone_unknown time_zone'],
    ['an offset as a zone', { time_zone: '+02:00' }, 'timezone_unknown time_zone'],
    ['a queue that there is not', { queue: 'scheduled_maintenence' }, 'schedules.queue.unknown queue'],
  ] as const)
    test(`[SCD-05] ${what} is refused and nothing is written`, async () => {
      const name = `refused ${what}`
      assert.equal(await codeOf(create({ name, ...more })), outcome)
      const rows = await bench.opened.db.query('select 1 from schedules.command_schedules where name = $1', [name])
      assert.deepEqual([rows.length, (await events(name)).length], [0, 0])
    })

  test('its maker and administrators change it, others do not; a change is judged like a new one and recorded', async () => {
    const schedule = await made({ name: 'changed' })
    const stranger = await aPerson(bench.identity, bench.tenant, 'writer')
    const change = (principal: Principal, fields: object) =>
      changeCommandSchedule(world(), byPerson(principal, TRACE), { ...ref(schedule.schedule_id), change: fields })
    assert.equal(await codeOf(change(stranger.principal, { enabled: false })), 'schedules.schedule.not_yours')
    assert.equal(
      await codeOf(removeCommandSchedule(world(), byPerson(stranger.principal, TRACE), ref(schedule.schedule_id))),
      'schedules.schedule.not_yours',
    )
    assert.equal(await codeOf(change(writer(), { cron: '61 * * * *' })), 'cron_value cron')
    assert.equal(await codeOf(change(writer(), { payload: { note: 1 } })), 'schedules.payload.invalid payload')
    const later = accepted(await change(writer(), { cron: '0 4 * * *', time_zone: 'Asia/Tokyo' }))
    assert.deepEqual([later.cron, later.time_zone, later.misfire], ['0 4 * * *', 'Asia/Tokyo', 'last'])
    assert.deepEqual((await known(schedule.schedule_id))?.spec.zone, 'Asia/Tokyo')
    // What the view hides comes back as it was shown, and stays as it is stored.
    const stored = accepted(await change(writer(), { payload: { note: 'a', secret: 'env://SECRET' } }))
    const { payload: shown } = toCommandScheduleView(stored, world().commands.catalog, { now: new Date() })
    assert.deepEqual(shown, { note: 'a', secret: '[secret]' })
    const back = accepted(await change(writer(), { payload: { ...shown, note: 'b' } }))
    assert.deepEqual(back.payload, { note: 'b', secret: 'env://SECRET' })
    assert.equal(await codeOf(create({ payload: shown })), 'schedules.payload.invalid payload.secret')
    const off = accepted(await change(admin(), { enabled: false }))
    assert.deepEqual([off.enabled, off.created_by], [false, `user:${writer().userId}`])
    assert.equal(await known(schedule.schedule_id), undefined)
    const taken = accepted(await change(admin(), { enabled: true, payload: { note: 'x' } }))
    assert.deepEqual([taken.created_by, taken.created_role], [`user:${admin().userId}`, 'admin'])
    assert.deepEqual(
      (await events('changed')).map(({ event_type, payload }) => [event_type, payload['changed'] ?? null]),
      [
        ['schedule_created', null],
        ['schedule_changed', ['cron', 'time_zone']],
        ['schedule_changed', ['payload']],
        ['schedule_changed', ['payload']],
        ['schedule_changed', ['enabled']],
        ['schedule_changed', ['enabled', 'payload']],
      ],
    )
    assert.ok((await events('changed')).every(({ payload }) => !('payload' in payload)))
  })

  test('a schedule of another workspace does not exist here', async () => {
    const schedule = await made()
    const foreign = { ...ref(schedule.schedule_id), workspaceId: bench.other.workspace.id }
    const they = bench.other.people.admin.principal
    const gone = 'schedules.schedule.not_found'
    assert.equal(await codeOf(getCommandSchedule(world(), foreign.workspaceId, schedule.schedule_id)), gone)
    assert.equal(
      await codeOf(changeCommandSchedule(world(), byPerson(they, TRACE), { ...foreign, change: { enabled: false } })),
      gone,
    )
    assert.equal(await codeOf(removeCommandSchedule(world(), byPerson(they, TRACE), foreign)), gone)
    assert.deepEqual(
      await listCommandSchedules(bench.opened.db, foreign.workspaceId, { afterName: null, limit: 50 }),
      [],
    )
    assert.equal(await codeOf(getCommandSchedule(world(), here(), schedule.schedule_id)), 'ok')
  })

  test('pages go by name and leave nothing out', async () => {
    const all = await listCommandSchedules(bench.opened.db, here(), { afterName: null, limit: 500 })
    const names: string[] = []
    for (let after: string | null | undefined = null; after !== undefined; ) {
      const page: readonly StoredCommandSchedule[] = await listCommandSchedules(bench.opened.db, here(), {
        afterName: after,
        limit: 2,
      })
      names.push(...page.map(({ name }) => name))
      after = page.length === 2 ? page.at(-1)?.name : undefined
    }
    assert.deepEqual(
      names,
      all.map(({ name }) => name),
    )
    assert.ok(names.includes('expire_pending_approvals'))
  })

  test('a crash between the row and the runtime is made good by the next start', async () => {
    const [lost, left] = [await made(), await made()]
    await world().runtime.unschedule(`csched_${lost.schedule_id.replaceAll('-', '')}`)
    await bench.opened.db.query('update schedules.command_schedules set enabled = false where schedule_id = $1', [
      left.schedule_id,
    ])
    const synced = await Promise.all([
      syncCommandSchedules(world()),
      syncCommandSchedules(world()),
      syncCommandSchedules(world()),
    ])
    assert.ok((await known(lost.schedule_id)) !== undefined)
    assert.equal(await known(left.schedule_id), undefined)
    assert.deepEqual(synced[0]?.problems, [])
  })
})
