/** Forgetting: erases a subject and everything derived from it after an approval, respects holds, and leaves no trace in the database. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import {
  eraseSubject,
  getErasure,
  type Forgettable,
  grantConsent,
  parseSubject,
  placeHold,
  previewForget,
  releaseHold,
  searchMemory,
  subjectDigest,
  type Subject,
  type MemoryStore,
} from '#domains/memory'
import { decideApproval, findPending } from '#domains/approvals'
import { accept } from '#kernel/refusal'
import { openDb } from '#store'
import { accepted, TRACE } from '#test/tenant'
import { ada, aPreference, dumpDatabase, type MemoryRoom, openMemoryRoom, writeCandidate } from '#test/memory'
import { until } from '#test/until'
import { requestForget } from './memory-requests.ts'
import { byPerson } from '#kernel/actor'

/** Another room with data of the subject: one row per memory it was derived from. */
const reports: Forgettable = {
  kind: 'report',
  list: (sql, { workspaceId, memoryIds }) =>
    sql.query<{ kind: string; id: string }>(
      `select 'report' as kind, id::text from public.reports where workspace_id = $1 and memory_id = any ($2::uuid[]) and body <> ''`,
      [workspaceId, memoryIds],
    ),
  async erase(tx, lineage) {
    const items = await reports.list(tx, lineage)
    await tx.query(`update public.reports set body = '' where memory_id = any ($1::uuid[])`, [lineage.memoryIds])
    return accept(items)
  },
}

/** Finds transactions of this database that wait for a lock. */
const waitingHere = `select from pg_locks as w where not w.granted and exists (select from pg_locks as h
  where h.pid = w.pid and h.database = (select oid from pg_database where datname = current_database()))`

describe('forget_memory', () => {
  let room: MemoryRoom
  before(async () => {
    room = await openMemoryRoom({
      forgettables: [reports],
      embedder: { model: 'letters', embed: async (texts) => texts.map((text) => [text.length, 1]) },
    })
    const owner = openDb({ url: room.db.config.url })
    await owner.query('create table public.reports (id int, workspace_id uuid, memory_id uuid, body text)')
    await owner.query('grant select, insert, update on public.reports to concord_engine')
    await owner.close()
  })
  after(() => room.close())

  const writer = () => {
    const principal = room.tenant.people.writer.principal
    return { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
  }
  const ask = (subject: Subject, idempotencyKey?: string) =>
    requestForget(room.commands, room.memory, writer(), {
      workspaceId: room.workspaceId,
      subject,
      idempotencyKey,
      requestId: 'r',
    })
  const approve = async (commandId: string, decision = 'approved') => {
    const { workspaceId } = room
    const [gate] = await findPending(room.db, { workspaceId, commandId })
    assert.ok(gate, 'no approval is open')
    const decider = { ...room.tenant.people.admin.principal, orgRoles: ['data_owner'] }
    accepted(
      await decideApproval(room.approvals, byPerson(decider, TRACE), {
        workspaceId,
        approvalId: gate.approval_id,
        decision,
        reason: 'test',
      }),
    )
    return room.settle(commandId)
  }

  test('after the approval neither content nor subject is anywhere in the database; the certificate counts', async () => {
    const preference = aPreference({ subject_id: 'zzsubjectzz', content: { note: 'zzsecretwordzz' } })
    await room.consent(preference)
    const [own] = [accepted(await room.propose(preference)).candidate.memory_id ?? '']
    accepted(await room.propose({ ...preference, content: { note: 'zznewerwordzz' }, supersedes: own }))
    // A derived summary about another subject, and a proposal that still waits.
    const summary = aPreference({
      subject_type: 'team',
      memory_type: 'fact',
      content: { text: 'zzsummaryzz' },
      derived_from: [own],
    })
    await room.answer(accepted(await room.propose(summary)), 'approved')
    const second = aPreference({
      content: { text: 'zzthirdzz' },
      memory_type: 'fact',
      derived_from: [await lastMemory()],
    })
    await room.answer(accepted(await room.propose(second)), 'approved')
    const waiting = accepted(
      await room.propose({ ...preference, fact_key: 'other', memory_type: 'fact', content: { note: 'zzwaitingzz' } }),
    )
    const hold = accepted(
      await placeHold(room.memory, ada, {
        workspaceId: room.workspaceId,
        subject: preference,
        reason: 'about zzsubjectzz',
      }),
    )
    accepted(await releaseHold(room.memory, ada, { workspaceId: room.workspaceId, holdId: hold.memory_hold_id }))
    await room.rows(`insert into public.reports values (1, $1, $2, 'zzreportzz')`, [room.workspaceId, own])
    await searchMemory(room.memory, ada, { workspaceId: room.workspaceId, text: 'zzsecretwordzz', limit: 5 })
    const bystander = aPreference({ content: { note: 'zzbystanderzz' } })
    await room.consent(bystander)
    accepted(await room.propose(bystander))

    const preview = await previewForget(room.memory, room.workspaceId, preference)
    const kinds = (items: readonly { kind: string }[]) =>
      Object.fromEntries([...Map.groupBy(items, ({ kind }) => kind)].map(([kind, all]) => [kind, all.length]))
    const expected = { memory: 2, derived_memory: 2, memory_candidate: 5, embedding: 4, memory_consent: 1, report: 1 }
    assert.deepEqual(kinds(preview.items), expected)
    assert.ok(!JSON.stringify(preview.items).includes('zz'))

    const { erasure, command } = accepted(await ask(preference))
    assert.equal(await room.settle(command.command_id), 'waiting_for_approval')
    assert.match(await dumpDatabase(room.db), /zzsecretwordzz/)
    assert.equal(await approve(command.command_id), 'succeeded')

    const dump = await dumpDatabase(room.db)
    for (const word of [
      'zzsecretwordzz',
      'zznewerwordzz',
      'zzsummaryzz',
      'zzthirdzz',
      'zzwaitingzz',
      'zzsubjectzz',
      'zzreportzz',
    ])
      assert.ok(!dump.includes(word), `${word} is still there: ${dump.split('\n').find((line) => line.includes(word))}`)
    assert.ok(dump.includes('zzbystanderzz'))
    const closed = accepted(
      await getErasure(room.db, { workspaceId: room.workspaceId, erasureId: erasure.memory_erasure_id }),
    )
    assert.deepEqual([closed.outcome, closed.subject_id], ['erased', null])
    assert.deepEqual(closed.certificate?.['counts'], expected)
    assert.equal(closed.subject_digest, subjectDigest(erasure.memory_erasure_id, preference))
    const audit = await room.rows<{ payload: { certificate_hash: string } }>(
      `select payload from concord.domain_events where command_id = $1 and event_type = 'memory_erased'`,
      [command.command_id],
    )
    assert.deepEqual(
      audit.map(({ payload }) => payload.certificate_hash),
      [closed.certificate_hash],
    )
    // Its command was not decided, and nothing is left to write.
    await room.answer(waiting, 'approved')
    assert.deepEqual(await room.rows(`select from concord.memory_records where content::text like '%zzwaiting%'`), [])
    // A repeat returns the same certificate.
    const again = accepted(
      await eraseSubject(room.memory, ada, {
        workspaceId: room.workspaceId,
        erasureId: erasure.memory_erasure_id,
        commandId: command.command_id,
      }),
    )
    assert.equal(again.certificate_hash, closed.certificate_hash)
  })

  const lastMemory = async () => {
    const [row] = await room.rows<{ memory_id: string }>(
      'select memory_id from concord.memory_records order by created_at desc, memory_id desc limit 1',
    )
    return row?.memory_id ?? ''
  }

  test('a hold stops it, at the request and if it is placed after the approval was requested', async () => {
    const preference = aPreference()
    await room.consent(preference)
    accepted(await room.propose(preference))
    const subject = { subject_type: preference.subject_type, subject_id: preference.subject_id }
    const hold = accepted(
      await placeHold(room.memory, ada, { workspaceId: room.workspaceId, subject, reason: 'case 1' }),
    )
    assert.equal((await previewForget(room.memory, room.workspaceId, subject)).hold_count, 1)
    const held = accepted(await ask(subject))
    assert.equal(await room.settle(held.command.command_id), 'failed')
    accepted(await releaseHold(room.memory, ada, { workspaceId: room.workspaceId, holdId: hold.memory_hold_id }))

    const asked = accepted(await ask(subject))
    assert.equal(await room.settle(asked.command.command_id), 'waiting_for_approval')
    accepted(await placeHold(room.memory, ada, { workspaceId: room.workspaceId, subject, reason: 'case 2' }))
    assert.equal(await approve(asked.command.command_id), 'failed')
    const found = await room.rows('select status from concord.memory_records where subject_id = $1', [
      subject.subject_id,
    ])
    assert.deepEqual(found, [{ status: 'active' }])
    // The erasure of a failed command is dropped.
    await room.follow()
    const open = await room.rows(`select outcome from concord.memory_erasures where command_id = any ($1::uuid[])`, [
      [held.command.command_id, asked.command.command_id],
    ])
    assert.deepEqual(open, [{ outcome: 'dropped' }, { outcome: 'dropped' }])
  })

  test('a hold on the subject of a derived memory stops it too, even among many released holds', async () => {
    const { workspaceId } = room
    const source = aPreference()
    await room.consent(source)
    const memoryId = accepted(await room.propose(source)).candidate.memory_id ?? ''
    const derived = aPreference({ subject_type: 'team', memory_type: 'fact', derived_from: [memoryId] })
    await room.answer(accepted(await room.propose(derived)), 'approved')
    const hold = accepted(await placeHold(room.memory, ada, { workspaceId, subject: derived, reason: 'a case' }))
    await room.rows(
      `insert into concord.memory_holds (memory_hold_id, workspace_id, subject_type, subject_id, reason, placed_by, placed_at, released_at, released_by)
       select gen_random_uuid(), $1, $2, $3, 'over', 'user:ada', now() + interval '1 day', now() + interval '1 day', 'user:ada' from generate_series(1, 501)`,
      [workspaceId, derived.subject_type, derived.subject_id],
    )
    for (const subject of [source, derived]) {
      const preview = await previewForget(room.memory, workspaceId, subject)
      assert.notEqual(preview.hold_count, 0)
      assert.ok(preview.holds.some(({ memory_hold_id }) => memory_hold_id === hold.memory_hold_id))
      const asked = accepted(await ask(subject))
      assert.equal(await room.settle(asked.command.command_id), 'failed')
    }
    accepted(await releaseHold(room.memory, ada, { workspaceId, holdId: hold.memory_hold_id }))
    const { erasure, command } = accepted(await ask(source))
    accepted(await placeHold(room.memory, ada, { workspaceId, subject: derived, reason: 'another case' }))
    const ref = { workspaceId, erasureId: erasure.memory_erasure_id, commandId: command.command_id }
    const erased = await eraseSubject(room.memory, ada, ref)
    assert.ok(!erased.ok && erased.code === 'memory.forget.held')
  })

  for (const about of ['the subject', 'another subject, derived from this one'])
    test(`a memory about ${about} that is being written does not outlive the erasure`, async () => {
      const { workspaceId } = room
      const subject = aPreference({ content: { note: `zzracezz ${about}` } })
      await room.consent(subject)
      const memoryId = accepted(await room.propose(subject)).candidate.memory_id ?? ''
      const late = { memory_type: 'fact', content: { note: `zzlatezz ${about}` }, fact_key: 'late' } as const
      const proposed =
        about === 'the subject'
          ? { ...subject, ...late }
          : aPreference({ ...late, subject_type: 'team', derived_from: [memoryId] })
      const { candidate } = accepted(await room.propose(proposed))
      const { erasure, command } = accepted(await ask(subject))
      const written = Promise.withResolvers<null>()
      const goOn = Promise.withResolvers<null>()
      const slow = (store: MemoryStore): MemoryStore => ({
        ...store,
        async insert(memory, actor, at) {
          const inserted = await store.insert(memory, actor, at)
          written.resolve(null)
          await goOn.promise
          return inserted
        },
        ...(store.within ? { within: (tx) => slow(store.within?.(tx) ?? store) } : {}),
      })
      const writing = writeCandidate({ ...room.memory, store: slow(room.memory.store) }, ada, {
        workspaceId,
        candidateId: candidate.memory_candidate_id,
        commandId: candidate.command_id,
      })
      await written.promise
      const ref = { workspaceId, erasureId: erasure.memory_erasure_id, commandId: command.command_id }
      const erasing = eraseSubject(room.memory, ada, ref)
      await until(async () => (await room.rows(waitingHere)).length > 0, 'the erasure waiting for the writer')
      goOn.resolve(null)
      assert.equal((await writing).ok, true)
      accepted(await erasing)
      assert.doesNotMatch(await dumpDatabase(room.db), /zzracezz|zzlatezz/)
    })

  test('a rejection erases nothing; an unknown subject is refused; one key is one request', async () => {
    const preference = aPreference()
    await room.consent(preference)
    accepted(await room.propose(preference))
    const one = accepted(await ask(preference, `forget-${preference.subject_id}`))
    const other = accepted(await ask(preference, `forget-${preference.subject_id}`))
    assert.equal(one.erasure.memory_erasure_id, other.erasure.memory_erasure_id)
    const somebody = aPreference()
    await room.consent(somebody)
    const reused = await ask(somebody, `forget-${preference.subject_id}`)
    assert.ok(!reused.ok && reused.code === 'key_reused')
    await room.settle(one.command.command_id)
    assert.equal(await approve(one.command.command_id, 'rejected'), 'failed')
    const found = await room.rows('select status from concord.memory_records where subject_id = $1', [
      preference.subject_id,
    ])
    assert.deepEqual(found, [{ status: 'active' }])
    const unknown = await ask(accepted(parseSubject('customer:nobody')))
    assert.ok(!unknown.ok && unknown.code === 'memory.forget.nothing_known')
  })

  test('a room that fails to erase its data stops the whole erasure', async () => {
    const preference = aPreference()
    await room.consent(preference)
    accepted(await room.propose(preference))
    const { erasure, command } = accepted(await ask(preference))
    const stubborn = { ...reports, erase: () => Promise.reject(new Error('not now')) }
    const memory = { ...room.memory, forgettables: [...room.memory.forgettables, stubborn] }
    const ref = { workspaceId: room.workspaceId, erasureId: erasure.memory_erasure_id, commandId: command.command_id }
    await assert.rejects(eraseSubject(memory, ada, ref), /not now/)
    const found = await room.rows('select content from concord.memory_records where subject_id = $1', [
      preference.subject_id,
    ])
    assert.deepEqual(found, [{ content: { seat: 'aisle' } }])
  })

  test('a hold and an erasure of one subject at once: either it is kept, or it was erased before the hold', async () => {
    for (let round = 0; round < 10; round++) {
      const preference = aPreference()
      await room.consent(preference)
      accepted(await room.propose(preference))
      const { erasure, command } = accepted(await ask(preference))
      const ref = { workspaceId: room.workspaceId, erasureId: erasure.memory_erasure_id, commandId: command.command_id }
      const [hold, erased] = await Promise.all([
        placeHold(room.memory, ada, { workspaceId: room.workspaceId, subject: preference, reason: 'race' }),
        eraseSubject(room.memory, ada, ref),
      ])
      const [record] = await room.rows<{ status: string }>(
        'select status from concord.memory_records where memory_candidate_id = (select memory_candidate_id from concord.memory_candidates where memory_candidate_id = $1)',
        [await candidateFor(preference.subject_id, erasure.memory_erasure_id)],
      )
      assert.equal(hold.ok, true)
      assert.equal(record?.status, erased.ok ? 'deleted' : 'active')
    }
  })

  const candidateFor = async (subjectId: string, erasureId: string) => {
    const [row] = await room.rows<{ id: string }>(
      'select memory_candidate_id as id from concord.memory_candidates where subject_id in ($1, $2)',
      [subjectId, `erased:${erasureId}`],
    )
    return row?.id
  }

  test('a consent is granted once, and its event does not contain the subject', async () => {
    const to = { subject_type: 'customer', subject_id: 'consenting', memory_type: 'fact', scope: 'user' } as const
    const id = await room.consent(to)
    const twice = await grantConsent(room.memory, ada, { workspaceId: room.workspaceId, ...to })
    assert.ok(!twice.ok && twice.code === 'row.conflict')
    const events = await room.rows(
      `select event_type, payload ? 'subject_id' as has_subject from concord.domain_events where payload->>'target_id' = $1`,
      [id],
    )
    assert.deepEqual(events, [{ event_type: 'memory_consent_granted', has_subject: false }])
  })
})
