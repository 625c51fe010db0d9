import assert from 'node:assert/strict'
import { after, afterEach, before, beforeEach, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { type Definition, defineSchedule, shippedSchedules } from '#domains/commands'
import { openScheduleBench, type ScheduleBench } from '#test/schedules'
import { everyMinute, tickDefinitions } from '#test/projects/commands'
import { accepted, anOrgRole, TRACE } from '#test/tenant'
import { until } from '#test/until'
import {
  changeCommandSchedule,
  createCommandSchedule,
  type CreateCommandSchedule,
  getCommandSchedule,
  removeCommandSchedule,
} from './command-schedule.ts'
import { byPerson } from '#kernel/actor'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

describe('firings', () => {
  let bench: ScheduleBench
  beforeEach(async () => {
    bench = await openScheduleBench()
  })
  afterEach(() => bench.close())

  const writer = () => bench.tenant.people.writer.principal
  const ref = (scheduleId: string) => ({ workspaceId: bench.tenant.workspace.id, scheduleId, traceId: TRACE })
  const make = async (more: Partial<CreateCommandSchedule> = {}) => {
    const input = { name: 'mine', command_type: 'tick', cron: '* * * * *', workspaceId: bench.tenant.workspace.id }
    const made = await createCommandSchedule(bench.work().schedules, byPerson(writer(), TRACE), {
      ...input,
      ...more,
    })
    return accepted(made).schedule
  }
  const countsOf = async (scheduleId: string) => {
    const { schedule, known } = accepted(
      await getCommandSchedule(bench.work().schedules, bench.tenant.workspace.id, scheduleId),
    )
    return { schedule, fired: known?.firedCount, missed: known?.missedCount, open: known?.openCount }
  }
  /** Everything that was due is decided, and nothing of it is under way. */
  const rest = (scheduleId: string, decided: number) =>
    until(async () => {
      const { fired = 0, missed = 0, open } = await countsOf(scheduleId)
      return fired + missed >= decided && open === 0
    }, 'rest')

  test('[SCD-05] [SCD-01] a due time becomes one command, in the name of the person, with the key of schedule and time', async () => {
    const { schedule_id } = await make({ payload: { note: 'now' }, misfire: 'all' })
    await bench.pass(MINUTE_MS)
    const [command] = await bench.reach(1)
    assert.match(command?.idempotency_key ?? '', /^schedule:mine:\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/)
    assert.deepEqual(
      [command?.ingress, command?.requested_by, command?.context.run_as, command?.payload],
      ['scheduled_trigger', `user:${writer().userId}`, 'user', { note: 'now' }],
    )
    assert.deepEqual([command?.context.metadata['role'], command?.context.metadata['schedule']], ['writer', 'mine'])
    await rest(schedule_id, 1)
    const { schedule } = await countsOf(schedule_id)
    const [ended] = await bench.commands()
    assert.deepEqual(
      [schedule.last_command_id, schedule.last_refusal, ended?.status],
      [command?.command_id, null, 'succeeded'],
    )
    // The firing looked at once more, as after a crash: the same command.
    await bench.work().runtime.wake({
      kind: 'schedule_firing',
      id: `schedule:csched_${schedule_id.replaceAll('-', '')}:${schedule.last_due_at?.toISOString()}`,
    })
    await bench.pass(MINUTE_MS)
    await bench.reach(2)
    assert.equal(new Set((await bench.commands()).map(({ idempotency_key }) => idempotency_key)).size, 2)
    assert.equal((await bench.commands()).length, 2)
  })

  for (const [misfire, count] of [
    ['skip', 0],
    ['last', 1],
    ['all', 5],
  ] as const)
    test(`[SCD-01] five hours at which nobody was there, misfire ${misfire}: ${count} commands`, async () => {
      const { schedule_id } = await make({ cron: '30 * * * *', misfire, overlap: 'allow' })
      // Past the grace within which a firing counts as on time.
      const sinceMs = (bench.now().getTime() - 30 * MINUTE_MS) % HOUR_MS
      await bench.pass(5 * HOUR_MS - sinceMs + 10 * MINUTE_MS)
      await rest(schedule_id, 5)
      const { fired, missed } = await countsOf(schedule_id)
      assert.deepEqual([fired, missed], [count, 5 - count])
      assert.equal((await bench.commands()).length, count)
    })

  for (const [overlap, commands, missed] of [
    ['skip', 1, 2],
    ['queue', 1, 1],
    ['allow', 3, 0],
  ] as const)
    test(`[SCD-01] three due times while the first command waits for a person, overlap ${overlap}`, async () => {
      await anOrgRole(bench.identity, bench.tenant.orgId, 'boss', [bench.tenant.people.admin])
      const { schedule_id } = await make({ command_type: 'asked_tick', payload: { note: 'x' }, overlap })
      for (const count of [1, 2, 3]) {
        await bench.pass(MINUTE_MS)
        await until(async () => {
          const { fired = 0, missed: late = 0, schedule } = await countsOf(schedule_id)
          return fired + late + (overlap === 'queue' && count > 1 ? 1 : 0) >= count && schedule.last_due_at !== null
        }, `${count} due times decided`)
      }
      assert.equal((await bench.reach(commands)).length, commands)
      assert.equal((await countsOf(schedule_id)).missed, missed)
      if (overlap !== 'queue') return
      // When the first is over, the one that waited comes at once.
      const { principal } = bench.tenant.people.admin
      await until(async () => (await decideFirst(bench, principal)) === 'approved', 'the question and its answer')
      assert.equal((await bench.reach(2)).length, 2)
    })

  async function decideFirst({ work, opened, tenant }: ScheduleBench, principal: ReturnType<typeof writer>) {
    const [approval] = await opened.db.query<{ approval_id: string }>(
      `select approval_id from concord.approvals where status = 'pending' order by created_at limit 1`,
    )
    if (!approval) return 'nothing waits'
    const decided = await decideApproval(work().approvals, byPerson({ ...principal, orgRoles: ['boss'] }, TRACE), {
      workspaceId: tenant.workspace.id,
      approvalId: approval.approval_id,
      decision: 'approved',
      reason: undefined,
    })
    return decided.ok ? 'approved' : decided.code
  }

  test('nobody approves what their own schedule asked for, and who changes it becomes its maker', async () => {
    const { people } = bench.tenant
    await anOrgRole(bench.identity, bench.tenant.orgId, 'boss', [people.writer, people.admin])
    const { schedule_id } = await make({ command_type: 'asked_tick', payload: { note: 'x' }, overlap: 'allow' })
    await bench.pass(MINUTE_MS)
    await until(async () => (await decideFirst(bench, writer())) === 'self_approval', 'the maker is refused')
    assert.equal(await decideFirst(bench, people.admin.principal), 'approved')
    accepted(
      await changeCommandSchedule(bench.work().schedules, byPerson(people.admin.principal, TRACE), {
        ...ref(schedule_id),
        change: { payload: { note: 'of the admin' } },
      }),
    )
    await bench.pass(MINUTE_MS)
    await bench.reach(2)
    await until(async () => (await decideFirst(bench, people.admin.principal)) === 'self_approval', 'the changer is')
    assert.equal(await decideFirst(bench, writer()), 'approved')
  })

  test('the row decides: off, removed, or its maker out of the workspace means no command', async () => {
    const { schedule_id } = await make()
    const switchTo = (enabled: boolean) =>
      changeCommandSchedule(bench.work().schedules, byPerson(writer(), TRACE), {
        ...ref(schedule_id),
        change: { enabled },
      })
    const firing = async (minutes: number) => {
      const due = new Date(Math.floor(bench.now().getTime() / MINUTE_MS) * MINUTE_MS + minutes * MINUTE_MS)
      const id = `schedule:csched_${schedule_id.replaceAll('-', '')}:${due.toISOString()}`
      // What the runtime may still hold of a schedule that is over: a firing under way.
      await bench.work().runtime.wake({ kind: 'schedule_firing', id })
      const settled = { kind: 'schedule_firing', id }
      await until(async () => (await bench.work().runtime.describe(settled)) === undefined, 'the firing is over')
    }
    accepted(await switchTo(false))
    await firing(1)
    await bench.pass(3 * MINUTE_MS)
    accepted(await switchTo(true))
    assert.equal((await bench.commands()).length, 0)
    // What was due while it was off was never missed.
    assert.deepEqual([(await countsOf(schedule_id)).fired, (await countsOf(schedule_id)).missed], [0, 0])

    await anOrgRole(bench.identity, bench.tenant.orgId, 'inner')
    await bench.opened.db.query(
      `update identity.workspaces set access_role_id = (select id from identity.org_roles where slug = 'inner') where id = $1`,
      [bench.tenant.workspace.id],
    )
    await bench.pass(MINUTE_MS)
    await until(async () => (await countsOf(schedule_id)).schedule.last_refusal !== null, 'the refusal')
    assert.equal((await countsOf(schedule_id)).schedule.last_refusal, 'workspace_unknown')
    const refused = await bench.opened.db.query<{ payload: { code: string; name: string } }>(
      `select payload from concord.domain_events where event_type = 'schedule_firing_refused' and purpose = 'audit'`,
    )
    assert.deepEqual(
      refused.map(({ payload: { code, name } }) => [code, name]),
      [['workspace_unknown', 'mine']],
    )
    await bench.opened.db.query('update identity.workspaces set access_role_id = null')

    // Somebody who left asks for nothing more.
    const before = (await countsOf(schedule_id)).schedule.last_due_at
    await bench.opened.db.query('update identity.users set deactivated_at = now() where id = $1', [writer().userId])
    await bench.rest()
    await bench.pass(MINUTE_MS)
    await until(async () => (await countsOf(schedule_id)).schedule.last_due_at?.getTime() !== before?.getTime(), 'it')
    assert.equal((await countsOf(schedule_id)).schedule.last_refusal, 'workspace_unknown')
    await bench.opened.db.query('update identity.users set deactivated_at = null')

    accepted(await removeCommandSchedule(bench.work().schedules, byPerson(writer(), TRACE), ref(schedule_id)))
    await firing(2)
    await bench.pass(3 * MINUTE_MS)
    assert.equal((await bench.commands()).length, 0)
  })

  test('a maker who may do less today does less, and one who may do more does not', async () => {
    const { schedule_id } = await make({ overlap: 'allow' })
    const { admin } = bench.tenant.people
    const roleOf = async (count: number) => (await bench.reach(count))[count - 1]?.context.metadata['role']
    const setRole = (role: string) =>
      bench.opened.db.query('update identity.users set role = $2 where id = $1', [writer().userId, role])
    await setRole('admin')
    await bench.pass(MINUTE_MS)
    assert.equal(await roleOf(1), 'writer')
    await setRole('reader')
    await bench.pass(MINUTE_MS)
    assert.equal(await roleOf(2), 'reader')
    await until(async () =>
      (await bench.commands()).every(({ status }) => !/created|validated|queued|running/.test(status)),
    )
    assert.deepEqual(
      (await bench.commands()).map(({ status }) => status),
      ['succeeded', 'failed'],
    )
    assert.ok(admin.principal.role === 'admin' && schedule_id)
  })

  test('[SCD-05] five fields in a zone: on the night of the change each due time comes once', async () => {
    // 02:30 did not exist on 30 March 2025 in Berlin and came at 03:00; on the next night it was 02:30 again.
    await bench.close()
    bench = await openScheduleBench({}, {}, new Date('2025-03-28T12:00:05Z'))
    await make({ cron: '30 2 * * *', time_zone: 'Europe/Berlin', misfire: 'all', overlap: 'allow' })
    await bench.pass(3 * DAY_MS)
    const keys = (await bench.reach(3)).map(({ idempotency_key }) => idempotency_key)
    assert.deepEqual(keys, [
      'schedule:mine:2025-03-29T01:30:00.000Z',
      'schedule:mine:2025-03-30T01:00:00.000Z',
      'schedule:mine:2025-03-31T00:30:00.000Z',
    ])
  })

  test('jitter moves the start and never the due time, the same way in every process', async () => {
    const { schedule_id } = await make({ jitter_ms: 30_000, misfire: 'all', overlap: 'allow' })
    await bench.pass(2 * MINUTE_MS)
    const [first] = await bench.reach(1)
    assert.match(first?.idempotency_key ?? '', /:00\.000Z$/)
    const { known } = accepted(await getCommandSchedule(bench.work().schedules, bench.tenant.workspace.id, schedule_id))
    await bench.restart()
    const again = accepted(await getCommandSchedule(bench.work().schedules, bench.tenant.workspace.id, schedule_id))
    assert.equal(again.known?.spec.jitterMs, known?.spec.jitterMs)
    assert.ok((known?.spec.jitterMs ?? 0) >= 0 && (known?.spec.jitterMs ?? 0) <= 30_000)
  })
})

describe('schedules of the catalog', () => {
  let bench: ScheduleBench
  before(async () => {
    bench = await openScheduleBench()
  })
  after(() => bench.close())

  const withSchedules = (...specs: readonly Definition[]) => bench.restart([...tickDefinitions, ...specs])
  const live = () =>
    bench.opened.db.query<{ name: string; cron: string; enabled: boolean; created_role: string }>(
      `select name, cron, enabled, created_role from schedules.command_schedules
        where removed_at is null and origin = 'catalog' order by name`,
    )

  const sweeps = () => bench.shipped('expire_approvals')

  test('[SCD-02] the shipped schedules of approvals and memory are there from the start; one without its work is not', async () => {
    assert.deepEqual(await live(), [
      { name: 'expire_pending_approvals', cron: '*/5 * * * *', enabled: true, created_role: 'system' },
      { name: 'memory_decay_review', cron: '0 3 * * *', enabled: true, created_role: 'system' },
      { name: 'repair_missions', cron: '*/10 * * * *', enabled: true, created_role: 'system' },
    ])
    assert.deepEqual(
      shippedSchedules.map(({ name, command_type, cron, queue }) => [name, command_type, cron, queue]),
      [
        ['expire_pending_approvals', 'expire_approvals', '*/5 * * * *', 'scheduled_maintenance'],
        ['sync_connector_metadata', 'sync_connector_metadata', '0 * * * *', 'scheduled_maintenance'],
        ['repair_missions', 'repair_missions', '*/10 * * * *', 'scheduled_maintenance'],
        ['memory_decay_review', 'review_stale_memory', '0 3 * * *', 'scheduled_maintenance'],
      ],
    )
    await bench.pass(5 * MINUTE_MS)
    await until(async () => (await sweeps())[0]?.status === 'succeeded', 'the sweep')
    const [swept] = await sweeps()
    assert.deepEqual(
      [swept?.command_type, swept?.requested_by, swept?.context.metadata['role']],
      ['expire_approvals', 'schedule:expire_pending_approvals', 'system'],
    )
  })

  test('[SCD-01] a schedule of the catalog fires, is changed with it, can be switched off, and ends when it leaves', async () => {
    await withSchedules(defineSchedule({ ...everyMinute, misfire: 'all', overlap: 'allow' }))
    const ticks = () => bench.commands()
    await bench.pass(MINUTE_MS)
    await until(async () => (await ticks()).length >= 1, 'a tick')
    assert.match((await ticks())[0]?.idempotency_key ?? '', /^schedule:every minute:/)

    // Every two minutes from now on; the minutes before were never due by that text.
    await withSchedules(defineSchedule({ ...everyMinute, cron: '*/2 * * * *', misfire: 'all', overlap: 'allow' }))
    assert.equal((await live()).find(({ name }) => name === 'every minute')?.cron, '*/2 * * * *')
    const before = (await ticks()).length
    await bench.pass(4 * MINUTE_MS)
    await until(async () => (await ticks()).length >= before + 2, 'two more')
    assert.equal((await ticks()).length, before + 2)

    const { schedules } = bench.work()
    const [row] = await bench.opened.db.query<{ schedule_id: string }>(
      `select schedule_id from schedules.command_schedules where name = 'every minute' and removed_at is null`,
    )
    const of = { workspaceId: bench.tenant.workspace.id, scheduleId: row?.schedule_id ?? '', traceId: TRACE }
    const { admin, writer } = bench.tenant.people
    const asWriter = await changeCommandSchedule(schedules, byPerson(writer.principal, TRACE), {
      ...of,
      change: { enabled: false },
    })
    assert.equal(asWriter.ok ? '' : asWriter.code, 'schedules.schedule.not_yours')
    const changed = await changeCommandSchedule(schedules, byPerson(admin.principal, TRACE), {
      ...of,
      change: { cron: '0 0 1 1 *' },
    })
    assert.equal(changed.ok ? '' : changed.code, 'schedules.schedule.of_catalog')
    const removed = await removeCommandSchedule(schedules, byPerson(admin.principal, TRACE), of)
    assert.equal(removed.ok ? '' : removed.code, 'schedules.schedule.of_catalog')
    accepted(
      await changeCommandSchedule(schedules, byPerson(admin.principal, TRACE), { ...of, change: { enabled: false } }),
    )
    // A restart leaves the switch as it is.
    await withSchedules(defineSchedule({ ...everyMinute, cron: '*/2 * * * *', misfire: 'all', overlap: 'allow' }))
    const off = (await ticks()).length
    await bench.pass(6 * MINUTE_MS)
    accepted(
      await changeCommandSchedule(bench.work().schedules, byPerson(admin.principal, TRACE), {
        ...of,
        change: { enabled: true },
      }),
    )
    await bench.pass(2 * MINUTE_MS)
    await until(async () => (await ticks()).length >= off + 1, 'one again')
    assert.equal((await ticks()).length, off + 1)

    await bench.restart()
    assert.deepEqual(
      (await live()).map(({ name }) => name),
      ['expire_pending_approvals', 'memory_decay_review', 'repair_missions'],
    )
    // The clock is moved faster than firings look at their commands: the one before must be over, or the next would be left out.
    await bench.rest()
    const swept = (await sweeps()).length
    await bench.pass(10 * MINUTE_MS)
    await until(async () => (await sweeps()).length > swept, 'the others go on')
    assert.equal((await ticks()).length, off + 1)
    const told = await bench.opened.db.query<{ event_type: string }>(
      `select event_type from concord.domain_events where payload->>'name' = 'every minute' order by seq`,
    )
    assert.deepEqual(
      told.map(({ event_type }) => event_type),
      ['schedule_created', 'schedule_changed', 'schedule_changed', 'schedule_changed', 'schedule_removed'],
    )
  })

  test('a firing of a schedule that left the catalog while another process still held it makes nothing', async () => {
    await withSchedules(defineSchedule({ ...everyMinute, name: 'leaving' }))
    const [row] = await bench.opened.db.query<{ schedule_id: string }>(
      `select schedule_id from schedules.command_schedules where name = 'leaving'`,
    )
    await bench.restart()
    // As an older process would leave it behind.
    await bench.opened.db.query(`update schedules.command_schedules set removed_at = null where name = 'leaving'`)
    const id = `schedule:csched_${(row?.schedule_id ?? '').replaceAll('-', '')}:2030-01-01T00:00:00.000Z`
    await bench.work().runtime.wake({ kind: 'schedule_firing', id })
    await until(async () => (await live()).every(({ name }) => name !== 'leaving'), 'it is ended')
    assert.ok((await bench.commands()).every(({ idempotency_key }) => !idempotency_key.includes('leaving')))
  })
})
