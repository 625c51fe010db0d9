/**
 * What must not be written twice when a turn is given again: the command, its approval, artifact, memory, audit events, the row of a
 * connector call, and what is projected from them. A process dies before and after every write, another one goes on from the rows,
 * and the rows are those of a life without a death. Agents take no steps of their own yet: the one step that exists, a run that
 * proposes a memory, is here; the steps of the room to come will have to join this file.
 */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval, openApprovalTypes } from '#domains/approvals'
import { builtInArtifactTypes, openArtifactTypes, openDiskStore } from '#domains/artifacts'
import { defineConnector, openConnectors, openSecrets, succeeded } from '#domains/connectors'
import { grantConsent, type MemoryDeps, openMemory, type ProposedMemory, type RunScope } from '#domains/memory'
import { errorClasses } from '#kernel/error-classes'
import { decider, nextFence, openRoomOn, pendingOf, type TestRoom } from '#test/commands'
import { ProcessDied } from '#test/fake-providers'
import { realSleep } from '#test/connectors'
import { openTestDb, type TestDb } from '#test/database'
import { ada, aPreference } from '#test/memory'
import { openMortal } from '#test/mortal-db'
import { insertRow } from '#test/store-rows'
import { accepted, aTenant, aWorld, TRACE } from '#test/tenant'
import { approvalTypesOf } from './approval-types.ts'
import { connectorDefinitions } from './catalog/connector-effects.ts'
import { defineCommandType, defineFunction, defineTask } from './catalog/definitions.ts'
import { defineEffect } from './catalog/effect-definition.ts'
import { anyHost, openCatalog } from './catalog/open-catalog.ts'
import { openDrive } from './drive.ts'
import { findBrokenInvariants } from './invariants/find-broken-invariants.ts'
import { memoryDefinitions } from './memory/memory-definitions.ts'
import { memoryFacts } from './memory/memory-policies.ts'
import { followCandidates, proposeMemory, type ProposingRun } from './memory/memory-requests.ts'
import { shippedPolicies } from './catalog/shipped-policies.ts'
import { byPerson } from '#kernel/actor'

const mortal = openMortal()
/** Calls and deeds of the provider, by key: it dedupes, as a keyed one does. */
const calls: string[] = []
const done = new Set<string>()

const bank = defineConnector({
  connector_type: 'bank',
  name: 'bank',
  description: 'Moves money once per key.',
  operations: [
    {
      name: 'pay',
      description: 'Pays.',
      input: z.strictObject({ note: z.string() }),
      output: z.looseObject({}),
      side_effect_class: 'keyed',
      idempotency: { required: true, key_template: null },
      timeout_ms: 30_000,
    },
  ],
  open: () => ({
    name: 'bank',
    connector_type: 'bank',
    capabilities: () => ['pay'],
    call({ context }) {
      calls.push(context.idempotency_key ?? '')
      done.add(context.idempotency_key ?? '')
      return Promise.resolve(succeeded({ paid: true }))
    },
  }),
})

const ownDefinitions = [
  defineEffect({
    effect_type: 'artifact.receipt',
    class: 'keyed',
    async do({ artifacts }) {
      const { artifact_id } = await artifacts.write({ type: 'report', title: 'Receipt', content: { text: 'Paid.' } })
      return { artifact_id }
    },
  }),
  defineFunction({
    name: 'pay_and_write',
    plan: ({ note = null }) => [
      { effect_type: 'connector.bank.pay', payload: { note } },
      { effect_type: 'artifact.receipt', payload: { note } },
    ],
  }),
  defineCommandType({
    name: 'pay_and_write',
    description: 'Pays and writes a receipt, if somebody agrees.',
    payload: z.strictObject({ note: z.string() }),
    side_effects: ['connector.bank.pay', 'artifact.receipt'],
    error_classes: errorClasses,
    cancellable_by: ['requester', 'admin'],
    audit: ['command_created', 'policy_evaluated'],
    approval: { required: true, approver: 'role:owner' },
  }),
  defineTask({
    name: 'Pay and Write',
    description: 'Pays and writes.',
    command_type: 'pay_and_write',
    function_name: 'pay_and_write',
    ingress_types: ['user_request'],
    async_required: true,
    approval_required: true,
    artifact_output_possible: true,
    connector_requirements: ['bank'],
    policy_checks: ['permission'],
  }),
]

/** Memories that were committed without the outcome of their effect. */
const unrecorded = `select r.memory_id from concord.memory_records as r where not exists (
  select from concord.domain_effects as e where e.command_id = r.command_id and e.effect_type = 'memory.write' and e.status = 'succeeded')`

describe('a turn that is given again', () => {
  let opened: TestDb
  let room: TestRoom
  let memory: MemoryDeps
  let folder: string
  let closeConnectors: () => Promise<void>
  let workspaceId: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
    folder = await mkdtemp(join(tmpdir(), 'concord-replay-'))
    const clock = aWorld(opened.db, new Date())
    const tenant = await aTenant(clock)
    workspaceId = tenant.workspace.id
    const { now, newId } = clock
    const db = mortal.wrap(opened.db)
    memory = accepted(await openMemory({ db, now, newId }))
    const connectors = accepted(openConnectors([bank], { db, now, newId, sleep: realSleep, secrets: openSecrets({}) }))
    closeConnectors = () => connectors.close()
    const catalog = accepted(
      openCatalog(
        [...shippedPolicies, ...memoryDefinitions(memory), ...connectorDefinitions(connectors), ...ownDefinitions],
        anyHost,
      ),
    )
    const stores = [openDiskStore({ folder, newId, contentBytesMax: 1_048_576 })] as const
    room = openRoomOn(clock, tenant, (world) => ({
      ...world,
      db,
      catalog,
      approvalTypes: openApprovalTypes(approvalTypesOf(catalog)),
      artifacts: { db, now, newId, types: accepted(openArtifactTypes(builtInArtifactTypes)), stores },
      facts: { ...world.facts, ...memoryFacts(memory) },
      writes: { ...world.writes, commit: (write) => mortal.around(() => world.writes.commit(write)) },
      inserts: { ...world.inserts, insert: (...args) => mortal.around(() => world.inserts.insert(...args)) },
    }))
  })
  after(async () => {
    await room?.close()
    await closeConnectors?.()
    await opened?.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** Again from the start after each death, as a client with its key and a runtime with its turn do. */
  async function again<T>(work: () => Promise<T>): Promise<T> {
    for (let lives = 0; lives < 3; lives++) {
      try {
        return await work()
      } catch (error) {
        if (!(error instanceof ProcessDied)) throw error
        assert.deepEqual(await room.rows(unrecorded), [], 'a memory without the outcome of its effect')
        mortal.resurrect()
      }
    }
    return assert.fail('it dies again and again')
  }

  async function live(id: string): Promise<string> {
    for (let turns = 0; turns < 60; turns++) {
      const next = await again(() => openDrive(room.world)(id, nextFence()))
      if (next.t === 'done' || (next.t === 'wait' && (next.until === null || next.until > room.clock.now())))
        return room.statusOf(id)
    }
    return assert.fail('does not come to rest')
  }

  const count = async (from: string, id: string) =>
    (await room.rows<{ count: number }>(`select count(*)::int as count from ${from}`, [id]))[0]?.count
  const eventsOf = (id: string) =>
    room.rows<{ event_type: string; purpose: string; to: string | null; count: number }>(
      `select event_type, purpose, payload->>'to' as to, count(*)::int from concord.domain_events where command_id = $1 group by 1, 2, 3 order by 1, 2, 3`,
      [id],
    )

  const pay = async (name: string) => {
    const ask = () => room.submit({ note: name }, { taskName: 'Pay and Write', idempotencyKey: name })
    const id = await again(ask)
    await live(id)
    const answer = { workspaceId, approvalId: await pendingOf(room, id), decision: 'approved', traceId: TRACE }
    accepted(await again(() => decideApproval(room.approvals, byPerson(decider(room), TRACE), answer)))
    await live(id)
    // All over: another request, and a turn too many, change nothing.
    mortal.resurrect()
    assert.equal(await ask(), id)
    return id
  }
  const shapeOfPaid = async (id: string) => ({
    status: await live(id),
    commands: await count(
      'concord.commands where idempotency_key = (select idempotency_key from concord.commands where command_id = $1)',
      id,
    ),
    approvals: await room.rows('select status, approver from concord.approvals where command_id = $1', [id]),
    artifacts: await room.rows('select status, version from concord.artifacts where command_id = $1', [id]),
    effects: await room.rows(
      'select effect_type, status from concord.domain_effects where command_id = $1 order by declaration_order',
      [id],
    ),
    // The calls themselves are counted below, beside the provider's own count.
    events: (await eventsOf(id)).filter(({ event_type }) => event_type !== 'connector_called'),
  })

  test('[RUN-10] command, approval, artifact and audit: death before and after every write leaves each of them once', async (t) => {
    mortal.dieAt(Number.POSITIVE_INFINITY)
    const calm = await pay('calm')
    const passages = mortal.passage()
    const expected = await shapeOfPaid(calm)
    assert.equal(expected.status, 'succeeded')
    assert.deepEqual([expected.commands, expected.approvals.length, expected.artifacts.length], [1, 1, 1])
    t.diagnostic(`${passages} passages`)
    for (let dieAt = 1; dieAt <= passages; dieAt++) {
      mortal.dieAt(dieAt)
      const id = await pay(`death at ${dieAt}`)
      assert.deepEqual({ dieAt, ...(await shapeOfPaid(id)) }, { dieAt, ...expected })
    }
  })

  test('[RUN-10] connector invocation: one row per call that was really made, one event per row, one deed per key', async () => {
    const rows = await room.rows<{ key: string; rows: number; called: number; events: number }>(
      `select e.idempotency_key as key, count(i)::int as rows, count(i) filter (where i.status = 'succeeded')::int as called,
         (select count(*)::int from concord.domain_events as d where d.command_id = e.command_id and d.event_type = 'connector_called') as events
       from concord.domain_effects as e join concord.connector_invocations as i using (domain_effect_id)
       where e.effect_type = 'connector.bank.pay' group by e.domain_effect_id, e.idempotency_key, e.command_id`,
    )
    assert.ok(rows.length > 10)
    for (const { key, rows: written, called, events } of rows) {
      const made = calls.filter((each) => each === key).length
      assert.ok(done.has(key))
      // A death between row and call leaves a row without a call, and one between call and record a call without its end; never more than that one.
      assert.ok(written >= made && written <= made + 1, `${written} rows, ${made} calls`)
      // One death, so at most one call too many, and that one under the same key; what the effect has on record is never called again.
      assert.ok(made >= 1 && made <= 2, `${made} calls`)
      assert.equal(events, called)
    }
    const twice = rows.filter(({ rows: written }) => written === 2).length
    // From the row of the call to the record of the effect there are four places to die; everywhere else it stays with one row.
    assert.ok(twice >= 1 && twice <= 4, String(twice))
    assert.equal(done.size, rows.length)
  })

  type Proposal = { readonly name: string; readonly memory: ProposedMemory; readonly run?: ProposingRun }

  /** Proposes under its key until it is taken, and drives its command until it rests. */
  const propose = async ({ name, memory: proposed, run }: Proposal) => {
    const { principal } = room.tenant.people.writer
    const by = { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
    const asked = { workspaceId, memory: proposed, idempotencyKey: name, requestId: 'req_test', run }
    const ask = () => proposeMemory(room.world, memory, by, asked)
    const { command_id: id } = accepted(await again(ask)).command
    await live(id)
    mortal.resurrect()
    assert.equal(accepted(await ask()).command.command_id, id)
    // The projection: a candidate shows what became of its command, however often it is followed.
    for (let times = 0; times < 2; times++) await followCandidates(memory, { traceId: TRACE })
    return {
      status: await live(id),
      candidates: await room.rows('select status from concord.memory_candidates where command_id = $1', [id]),
      records: await room.rows('select status from concord.memory_records where subject_id = $1', [
        proposed.subject_id,
      ]),
      // Whether it got there inside the request or in a turn is no matter of record.
      events: (await eventsOf(id)).filter(({ purpose }) => purpose !== 'event'),
    }
  }
  const timesOf = (events: readonly { event_type: string; count: number }[], type: string) =>
    events.find(({ event_type }) => event_type === type)?.count

  test('[RUN-10] [PER-04] memory: death before and after every write leaves one candidate, one record and one event of each', async (t) => {
    const consented = async (name: string): Promise<Proposal> => {
      const preference = aPreference()
      const { subject_type, subject_id, memory_type, scope } = preference
      const to = { workspaceId, subject_type, subject_id, memory_type, scope }
      accepted(await grantConsent({ ...memory, db: room.db }, ada, to))
      return { name, memory: preference }
    }
    const first = await consented('remember calmly')
    mortal.dieAt(Number.POSITIVE_INFINITY)
    const expected = await propose(first)
    const passages = mortal.passage()
    assert.deepEqual(
      [expected.status, expected.candidates, expected.records],
      ['succeeded', [{ status: 'accepted' }], [{ status: 'active' }]],
    )
    assert.equal(timesOf(expected.events, 'memory_written'), 1)
    t.diagnostic(`${passages} passages`)
    for (let dieAt = 1; dieAt <= passages; dieAt++) {
      const next = await consented(`remember ${dieAt}`)
      mortal.dieAt(dieAt)
      assert.deepEqual({ dieAt, ...(await propose(next)) }, { dieAt, ...expected })
    }
  })

  test('[RUN-10] the step of a run that proposes a memory is on record once, and so is the question about it', async () => {
    const byRun = async (name: string): Promise<Proposal> => {
      const { subject_type, subject_id, memory_type, ...rest } = aPreference()
      const scope: RunScope = {
        subject_type,
        subject_id,
        allowed_memory_types: [memory_type],
        allow_semantic_retrieval: false,
        max_results: 10,
        read: [],
        write: [],
      }
      const agentRunId = room.clock.newId()
      await insertRow(room.db, 'concord.agent_runs', {
        agent_run_id: agentRunId,
        workspace_id: workspaceId,
        command_id: await room.submit({ note: name }, { taskName: 'Pay and Write', idempotencyKey: agentRunId }),
        agent_name: 'Ada',
        agent_role: 'analyst',
        status: 'running',
        goal: 'find out',
        memory_scope: scope,
      })
      return {
        name,
        memory: { subject_type, subject_id, memory_type, ...rest },
        run: { agentRunId, scope, stepIndex: 3 },
      }
    }
    const first = await byRun('step calmly')
    mortal.dieAt(Number.POSITIVE_INFINITY)
    const expected = await propose(first)
    const passages = mortal.passage()
    assert.equal(expected.status, 'waiting_for_approval')
    assert.deepEqual(
      ['propose_memory', 'approval_requested'].map((type) => timesOf(expected.events, type)),
      [1, 1],
    )
    for (let dieAt = 1; dieAt <= passages; dieAt++) {
      const next = await byRun(`step ${dieAt}`)
      mortal.dieAt(dieAt)
      assert.deepEqual({ dieAt, ...(await propose(next)) }, { dieAt, ...expected })
    }
  })

  test('[RUN-10] projections: what follows from the events is what stands on the rows', async () => {
    assert.deepEqual(await findBrokenInvariants(opened.db), [])
  })
})
