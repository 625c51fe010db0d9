/** Claims: nobody takes what another takes, a new token fences the old holder off, and only the database's clock counts. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { flowTaskMachine, missionTaskMachine } from '#kernel/machines/index'
import { aWorkspace, by, type CommandRow, leasedCommand, newId, someCommands } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { claimLapsed, claimNext, leasedTable, releaseLeases, renewLeases } from './claim.ts'
import { openDb } from './db.ts'
import { domainEventLog } from './events-domain.ts'
import { defineEventLog } from './events.ts'
import { rowType, storedMachine } from './transition/stored-machine.ts'
import { isLostRace, transition, type TransitionResult } from './transition/transition.ts'

type TaskRow = {
  id: string
  org_id: string
  status: string
  lease_token: string | null
  attempt: number
  worker_id: string | null
}

const storedTask = storedMachine({
  machine: flowTaskMachine,
  table: 'public.tasks',
  id: 'id',
  tenant: 'org_id',
  state: 'status',
  lock: { lease_token: 'uuid', attempt: 'integer' },
  settable: { attempt: 'integer', next_retry_at: 'timestamptz' },
  log: {
    log: defineEventLog({
      table: 'public.task_outbox',
      types: ['enqueue_task', 'route_event'],
      target: { column: 'payload', path: '{target_id}' },
      time: 'created_at',
      columns: [
        { name: 'kind', type: 'text', valueOf: ({ type }) => type },
        { name: 'payload', type: 'jsonb', valueOf: ({ payload }) => payload },
        { name: 'created_at', type: 'timestamptz', valueOf: ({ at }) => at },
      ],
      links: {},
    }),
    target: 'task',
    links: {},
  },
  row: rowType<TaskRow>(),
})

const leasedTask = leasedTable({
  stored: storedTask,
  token: 'lease_token',
  until: 'lease_expires_at',
  worker: 'worker_id',
  heartbeat: 'last_heartbeat',
  claim: { from: 'Queued', to: 'Running' },
  heldIn: ['Running'],
  order: 't.n',
})

const claimOf = (worker: string, leaseMs = 60_000, limit = 1) => ({
  ...by('worker'),
  worker,
  token: newId(),
  leaseMs,
  limit,
})

describe('claims and leases', () => {
  let opened: TestDb
  let org: string

  before(async () => {
    opened = await openTestDb({ poolMax: 8 })
    org = await aWorkspace(opened.db)
    await opened.db.query(
      `create table public.tasks (id uuid primary key, n bigint generated always as identity, org_id uuid, status text not null default 'Queued', attempt int not null default 1,
         worker_id text, lease_token uuid, lease_expires_at timestamptz, last_heartbeat timestamptz, started_at timestamptz, completed_at timestamptz, next_retry_at timestamptz);
       create index on public.tasks (n) where status = 'Queued';
       create index on public.tasks (lease_expires_at) where status = 'Running';
       create table public.task_outbox (id bigserial, kind text, payload jsonb, created_at timestamptz)`,
    )
  })
  after(() => opened.close())

  async function someTasks(count: number, orgId = org): Promise<string[]> {
    await opened.db.query('truncate public.tasks')
    const ids = Array.from({ length: count }, () => newId())
    await opened.db.query(
      'insert into public.tasks (id, org_id) select id, $2 from unnest($1::uuid[]) with ordinality as i(id, n) order by n',
      [ids, orgId],
    )
    return ids
  }

  async function mustClaim(worker: string, leaseMs?: number, limit?: number): Promise<TaskRow[]> {
    const claimed = await claimNext(opened.db, leasedTask, claimOf(worker, leaseMs, limit))
    return claimed.ok ? claimed.value : assert.fail(claimed.reason)
  }

  test('eight claimers take a thousand tasks, each task once', async () => {
    const ids = await someTasks(1_000)
    const taken = await Promise.all(
      Array.from({ length: 8 }, async (_, n) => {
        const mine: string[] = []
        for (;;) {
          const rows = await mustClaim(`w${n}`, 60_000, 7)
          if (rows.length === 0) return mine
          mine.push(...rows.map(({ id }) => id))
        }
      }),
    )
    assert.equal(taken.flat().length, 1_000)
    assert.deepEqual(new Set(taken.flat()), new Set(ids))
  })

  test('the oldest come first, a row that another is taking is passed over', async () => {
    const ids = await someTasks(5)
    await opened.db.transaction(async (tx) => {
      await tx.query('select from public.tasks where id = $1 for update', [ids[0]])
      assert.deepEqual(new Set((await mustClaim('w', 60_000, 2)).map(({ id }) => id)), new Set(ids.slice(1, 3)))
    })
  })

  test('a claim makes the move of the machine: state, stamps, token, worker and the time of the database', async () => {
    await someTasks(1)
    const [row] = await mustClaim('w1', 5_000)
    const [stored] = await opened.db.query(
      `select status, worker_id, lease_token is not null as leased, started_at = last_heartbeat as stamped,
              lease_expires_at - last_heartbeat = interval '5 seconds' as timed from public.tasks`,
    )
    assert.deepEqual(stored, { status: 'Running', worker_id: 'w1', leased: true, stamped: true, timed: true })
    assert.equal(row?.status, 'Running')
  })

  test('an actor who may not claim is refused', async () => {
    await someTasks(1)
    const answer = await claimNext(opened.db, leasedTask, { ...claimOf('w'), actorKind: 'reaper' })
    assert.equal(answer.ok ? 'claimed' : answer.code, 'machine.actor.not_allowed')
  })

  test('a claim for one organisation takes nothing of another', async () => {
    await someTasks(3, await aWorkspace(opened.db))
    const answer = await claimNext(opened.db, leasedTask, { ...claimOf('w', 1_000, 10), tenant: org })
    assert.deepEqual(answer.ok && answer.value, [])
  })

  test('only the token and the attempt that are on the row may write', async () => {
    await someTasks(1)
    const [row] = await mustClaim('w1')
    assert.ok(row)
    for (const stale of [{ lease_token: newId() }, { attempt: 2 }, { lease_token: null }]) {
      const late: TransitionResult<TaskRow> = await transition(
        opened.db,
        storedTask,
        { ...row, ...stale },
        'Completed',
        by('worker'),
      )
      assert.ok(isLostRace(late))
      assert.equal(late.code, 'lease.lost')
    }
    assert.ok((await transition(opened.db, storedTask, row, 'Completed', by('worker'))).ok)
    const [kind] = await opened.db.query('select kind from public.task_outbox')
    assert.deepEqual(kind, { kind: 'route_event' })
  })

  test('who lets his lease run out loses the row to whoever takes it over, with the fence up before anything is decided', async () => {
    await someTasks(1)
    const [row] = await mustClaim('w1', 1)
    assert.ok(row)
    await opened.db.query('select pg_sleep(0.01)')
    const [taken] = await claimLapsed(opened.db, leasedTask, { ...claimOf('reaper'), limit: 10 })
    assert.equal(taken?.id, row.id)
    assert.deepEqual(await claimLapsed(opened.db, leasedTask, { ...claimOf('other'), limit: 10 }), [])
    assert.ok(isLostRace(await transition(opened.db, storedTask, row, 'Completed', by('worker'))))
    const failed = await transition(opened.db, storedTask, taken ?? {}, 'Failed', {
      ...by('reaper'),
      set: { next_retry_at: new Date() },
    })
    assert.ok(failed.ok)
    const queued = await transition(opened.db, storedTask, failed.row, 'Queued', {
      ...by('sweeper'),
      add: { attempt: 1 },
    })
    assert.ok(queued.ok)
    assert.deepEqual([queued.row.attempt, queued.row.lease_token, queued.row.worker_id], [2, null, null])
    assert.equal((await mustClaim('w2')).length, 1)
  })

  test('all leases of a worker are renewed in one statement, never shortened, and the lost ones are named', async () => {
    await someTasks(3)
    const [one, two, three] = await mustClaim('w1', 600_000, 3)
    assert.ok(one && two && three)
    await opened.db.query(`update public.tasks set lease_token = gen_random_uuid() where id = $1`, [two.id])
    const held = [one, two, three].map(({ id, lease_token }) => ({ id, token: lease_token ?? '' }))
    const before = await opened.db.query('select lease_expires_at from public.tasks order by n')
    const answer = await renewLeases(opened.db, leasedTask, held, 1_000)
    assert.deepEqual(new Set(answer.renewed), new Set([one.id, three.id]))
    assert.deepEqual(answer.lost, [two.id])
    assert.deepEqual(await opened.db.query('select lease_expires_at from public.tasks order by n'), before)
    assert.equal((await renewLeases(opened.db, leasedTask, held, 1_200_000)).renewed.length, 2)
    assert.notDeepEqual(await opened.db.query('select lease_expires_at from public.tasks order by n'), before)
  })

  test('the clock of the database goes back five hours: no lease is taken early, none is shortened', async () => {
    const [id = ''] = await someTasks(1)
    const { url } = opened.db.config
    // A schema before pg_catalog may bring its own clock; the statements name no schema for theirs.
    await opened.db.query(
      `create schema if not exists skewed;
       create or replace function skewed.statement_timestamp() returns timestamptz language sql stable
         as $$ select pg_catalog.statement_timestamp() - interval '5 h' $$;
       create or replace function skewed.now() returns timestamptz language sql stable
         as $$ select pg_catalog.now() - interval '5 h' $$;`,
    )
    const [row] = await mustClaim('w1', 60_000)
    const lease = async () =>
      (await opened.db.query<{ at: Date }>('select lease_expires_at as at from public.tasks where id = $1', [id]))[0]
        ?.at
    const before = await lease()
    const back = openDb({ url, poolMax: 1 })
    try {
      await back.query('set search_path = skewed, pg_catalog, public')
      const [clock] = await back.query<{ hours: number }>(
        'select round(extract(epoch from pg_catalog.statement_timestamp() - statement_timestamp()) / 3600)::int as hours',
      )
      assert.equal(clock?.hours, 5, 'the clock is really skewed')
      assert.deepEqual(await claimLapsed(back, leasedTask, { ...claimOf('early'), limit: 10 }), [])
      const taken = await claimNext(back, leasedTask, claimOf('early'))
      assert.deepEqual(taken.ok && taken.value, [])
      const renewed = await renewLeases(back, leasedTask, [{ id, token: row?.lease_token ?? '' }], 60_000)
      assert.deepEqual([renewed.renewed, await lease()], [[id], before])
    } finally {
      await back.close()
    }
  })

  test('a token opens its own row only: two leases with their tokens exchanged are both lost', async () => {
    await someTasks(2)
    const [one] = await mustClaim('w1', 600_000)
    const [two] = await mustClaim('w1', 600_000)
    assert.ok(one && two)
    const exchanged = [
      { id: one.id, token: two.lease_token ?? '' },
      { id: two.id, token: one.lease_token ?? '' },
    ]
    assert.deepEqual((await renewLeases(opened.db, leasedTask, exchanged, 1_000)).renewed, [])
    assert.deepEqual(await releaseLeases(opened.db, leasedTask, exchanged), [])
    const held = [one, two].map(({ id, lease_token }) => ({ id, token: lease_token ?? '' }))
    assert.equal((await renewLeases(opened.db, leasedTask, held, 1_000)).renewed.length, 2)
    assert.equal((await releaseLeases(opened.db, leasedTask, held)).length, 2)
  })

  test('a lease without a move: a turn on a command is taken, given back and taken again', async () => {
    const commands = await someCommands(opened.db, await aWorkspace(opened.db), 3, 'running')
    const take = (worker: string, more = {}) =>
      claimNext(opened.db, leasedCommand, { ...claimOf(worker, 60_000, 10), ...more })
    const first = await take('d1')
    assert.ok(first.ok)
    assert.equal(first.value.length, 3)
    const none = await take('d2')
    assert.deepEqual(none.ok && none.value, [])
    const held = first.value.map(({ command_id, turn_token }) => ({ id: command_id, token: turn_token ?? '' }))
    assert.equal((await releaseLeases(opened.db, leasedCommand, held.slice(0, 2))).length, 2)
    assert.equal((await releaseLeases(opened.db, leasedCommand, held.slice(0, 2))).length, 0)
    const again = await take('d2', { id: commands[0]?.command_id })
    assert.deepEqual(again.ok && again.value.map(({ command_id }: CommandRow) => command_id), [commands[0]?.command_id])
    const [event] = await opened.db.query('select count(*)::int as count from concord.domain_events')
    assert.deepEqual(event, { count: 0 })
  })

  test('a claim with a version lock counts the version and tells one event per row, each with its own id and target', async () => {
    await opened.db.query(
      `create table public.mission_tasks (id uuid primary key, n bigint generated always as identity, workspace_id uuid, state text default 'queued', state_type text,
         version_id int not null default 1, agent_id text, agent_type text, due_at timestamptz, lease_token uuid, lease_until timestamptz, started_at timestamptz, completed_at timestamptz)`,
    )
    const log = domainEventLog(
      Object.fromEntries(
        missionTaskMachine.moves.flatMap(({ emits }) => emits.map((type) => [type, 'event' as const])),
      ),
    )
    const stored = storedMachine({
      machine: missionTaskMachine,
      table: 'public.mission_tasks',
      id: 'id',
      tenant: 'workspace_id',
      state: 'state',
      stateType: 'state_type',
      lock: { version_id: 'integer' },
      settable: { agent_id: 'text' },
      log: { log, target: 'task', links: { workspace_id: 'workspace_id' } },
      row: rowType<{ id: string; version_id: number; agent_id: string; state_type: string }>(),
    })
    const leased = leasedTable({
      stored,
      token: 'lease_token',
      until: 'lease_until',
      claim: { from: 'queued', to: 'assigned' },
      heldIn: ['assigned', 'running'],
      order: 't.n',
    })
    const workspace = await aWorkspace(opened.db)
    const ids = [newId(), newId(), newId()]
    await opened.db.query(
      'insert into public.mission_tasks (id, workspace_id) select id, $2 from unnest($1::uuid[]) id',
      [ids, workspace],
    )
    const claimed = await claimNext(opened.db, leased, {
      ...by('coordinator'),
      worker: 'coordinator',
      token: newId(),
      leaseMs: 1_000,
      limit: 3,
      set: { agent_id: 'a1' },
      payload: { agent: 'a1' },
    })
    assert.ok(claimed.ok)
    assert.deepEqual(
      new Set(claimed.value.map(({ version_id, agent_id, state_type }) => `${version_id} ${agent_id} ${state_type}`)),
      new Set(['2 a1 running']),
    )
    const told = await opened.db.query<{ event_id: string; payload: { target_id: string } }>(
      `select event_id, payload from concord.domain_events where workspace_id = $1 and event_type = 'task_assigned'`,
      [workspace],
    )
    assert.equal(new Set(told.map(({ event_id }) => event_id)).size, 3)
    assert.deepEqual(new Set(told.map(({ payload }) => payload.target_id)), new Set(ids))
    assert.deepEqual(told[0]?.payload, {
      agent: 'a1',
      from: 'queued',
      to: 'assigned',
      target_type: 'task',
      target_id: told[0]?.payload.target_id,
    })
  })
})
