/** Writing memory as a governed command: at once, after an approval, refused, repeated, concurrent, undone. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import {
  assessCandidate,
  checkProposal,
  insertCandidate,
  openMemorySchemas,
  revokeConsent,
  unwriteMemory,
} from '#domains/memory'
import { accepted, TRACE } from '#test/tenant'
import { ada, aPreference, type MemoryRoom, openMemoryRoom, writeCandidate } from '#test/memory'
import { insertRow, rowsOf } from '#test/store-rows'
import { proposeMemory } from './memory-requests.ts'

const consented = {
  name: 'customer.seats',
  subject_type: 'customer',
  memory_types: ['preference'],
  visibility: ['user'],
  consent: { required: true },
  expiration: { after_days: 30 },
  supersession: 'supersede',
  retrieval: ['subject'],
  write_policy: 'approval',
} as const

describe('write_memory', () => {
  let room: MemoryRoom
  before(async () => {
    room = await openMemoryRoom()
  })
  after(() => room.close())

  const candidateOf = async (id: string) => {
    const [row] = await room.rows<{
      status: string
      memory_id: string | null
      approval_id: string | null
      supersedes: string | null
    }>(
      'select status, memory_id, approval_id, supersedes from concord.memory_candidates where memory_candidate_id = $1',
      [id],
    )
    assert.ok(row)
    return row
  }
  const recordsOf = (subjectId: string) =>
    room.rows<{ memory_id: string; status: string; content: object; superseded_by: string | null }>(
      'select memory_id, status, content, superseded_by from concord.memory_records where subject_id = $1 order by created_at, memory_id',
      [subjectId],
    )
  const statusOf = async (commandId: string) =>
    (await room.rows<{ status: string }>('select status from concord.commands where command_id = $1', [commandId]))[0]
      ?.status

  test('[MEM-21] a schema that requires consent stores nothing without it: no candidate, nothing by an approval, nothing after a withdrawal', async (t) => {
    const own = await openMemoryRoom({ schemas: [consented] })
    t.after(() => own.close())
    const preference = aPreference({ schema_name: consented.name })
    const refused = await own.propose(preference)
    assert.ok(!refused.ok && refused.code === 'memory.consent.missing')
    assert.match(refused.hint ?? '', /concord memory consent grant .*--type preference --scope user/)
    const counts = `select (select count(*) from concord.memory_candidates)::int as candidates,
      (select count(*) from concord.commands)::int as commands`
    assert.deepEqual(await own.rows(counts), [{ candidates: 0, commands: 0 }], 'nothing is written')
    const consentId = await own.consent(preference)
    const waiting = accepted(await own.propose(preference))
    assert.equal(await own.settle(waiting.command.command_id), 'waiting_for_approval')
    const revoked = { workspaceId: own.workspaceId, consentId }
    accepted(await revokeConsent(own.memory, ada, revoked))
    assert.equal(await own.answer(waiting, 'approved'), 'failed')
    const [command] = await own.rows<{ error: string }>('select error from concord.commands where command_id = $1', [
      waiting.command.command_id,
    ])
    assert.match(command?.error ?? '', /requires the consent of the subject/)
    assert.deepEqual(await own.rows('select 1 from concord.memory_records'), [])
    await own.consent(preference)
    const again = accepted(await own.propose({ ...preference, content: { seat: 'window' } }))
    assert.equal(await own.answer(again, 'approved'), 'succeeded')
  })

  test('[MEM-04] [MEM-12] [MEM-13] with consent, a certain preference is written within the request', async () => {
    const preference = aPreference()
    await room.consent(preference)
    const { candidate, command, isNew } = accepted(await room.propose(preference))
    assert.equal(isNew, true)
    assert.deepEqual([candidate.status, command.status], ['accepted', 'succeeded'])
    const [record] = await recordsOf(preference.subject_id)
    assert.deepEqual([record?.status, record?.content], ['active', { seat: 'aisle' }])
    assert.equal(candidate.memory_id, record?.memory_id)
    const events = await room.rows<{ event_type: string }>(
      `select event_type from concord.domain_events where command_id = $1 and event_type in ('memory_candidate_created', 'policy_evaluated', 'memory_written') order by seq`,
      [command.command_id],
    )
    // The effect writes the record; its commit precedes that of the events of the inline command.
    assert.deepEqual(events.map(({ event_type }) => event_type).sort(), [
      'memory_candidate_created',
      'memory_written',
      'policy_evaluated',
    ])
  })

  test('[MEM-04] without consent nothing is written until the data owner approves', async () => {
    const preference = aPreference()
    const proposal = accepted(await room.propose(preference))
    assert.equal(await statusOf(proposal.command.command_id), 'waiting_for_approval')
    assert.equal((await candidateOf(proposal.candidate.memory_candidate_id)).status, 'awaiting_approval')
    assert.deepEqual(await recordsOf(preference.subject_id), [])
    await room.follow()
    assert.ok((await candidateOf(proposal.candidate.memory_candidate_id)).approval_id)
    assert.equal(await room.answer(proposal, 'approved'), 'succeeded')
    assert.equal((await candidateOf(proposal.candidate.memory_candidate_id)).status, 'accepted')
    assert.equal((await recordsOf(preference.subject_id)).length, 1)
  })

  test('[MEM-05] sensitive or broad memory needs an approval even with consent; a rejection leaves no record', async () => {
    for (const change of [
      { content: { mail: 'ada@example.com' } },
      { scope: 'team' as const },
      { memory_type: 'business_rule' as const },
    ]) {
      const proposed = aPreference(change)
      await room.consent(proposed)
      const proposal = accepted(await room.propose(proposed))
      assert.equal(await statusOf(proposal.command.command_id), 'waiting_for_approval')
      assert.equal(await room.answer(proposal, 'rejected'), 'failed')
      assert.equal((await candidateOf(proposal.candidate.memory_candidate_id)).status, 'rejected')
      assert.deepEqual(await recordsOf(proposed.subject_id), [])
    }
  })

  test('[MEM-19] a secret is refused before anything is stored', async () => {
    const before = await room.rows('select count(*) from concord.commands')
    const refused = await room.propose(aPreference({ content: { note: 'password: opensesame' } }))
    assert.ok(!refused.ok && refused.code === 'memory.content.secret')
    assert.deepEqual(await room.rows('select count(*) from concord.commands'), before)
  })

  test('[MEM-06] [MEM-17] a named predecessor is superseded and linked; an unnamed one needs an approval for exactly that record', async () => {
    const preference = aPreference()
    await room.consent(preference)
    const first = accepted(await room.propose(preference)).candidate.memory_id ?? ''
    const asked = accepted(await room.propose({ ...preference, content: { seat: 'middle' } }))
    const waiting = await candidateOf(asked.candidate.memory_candidate_id)
    assert.deepEqual([waiting.status, waiting.memory_id, waiting.supersedes], ['awaiting_approval', null, first])
    const second = accepted(await room.propose({ ...preference, content: { seat: 'window' }, supersedes: first }))
    assert.equal(second.candidate.status, 'accepted')
    const [old, now] = await recordsOf(preference.subject_id)
    assert.deepEqual([old?.status, old?.superseded_by, now?.status], ['superseded', now?.memory_id, 'active'])
    // The approval was about the first record, which is gone, so it has no effect.
    assert.equal(await room.answer(asked, 'approved'), 'failed')
    assert.equal((await candidateOf(asked.candidate.memory_candidate_id)).status, 'rejected')
    assert.equal((await recordsOf(preference.subject_id)).filter(({ status }) => status === 'active').length, 1)
  })

  test('[MEM-06] an approval replaces the record that was shown', async () => {
    const preference = aPreference({ memory_type: 'fact' })
    const first = accepted(await room.propose(preference))
    assert.equal(await room.answer(first, 'approved'), 'succeeded')
    const next = accepted(await room.propose({ ...preference, content: { seat: 'window' } }))
    assert.equal(await room.answer(next, 'approved'), 'succeeded')
    assert.deepEqual(
      (await recordsOf(preference.subject_id)).map(({ status, content }) => [status, content]),
      [
        ['superseded', { seat: 'aisle' }],
        ['active', { seat: 'window' }],
      ],
    )
  })

  test('a known memory is confirmed, not written twice', async () => {
    const preference = aPreference()
    await room.consent(preference)
    const first = accepted(await room.propose(preference)).candidate
    room.clock.travel(60_000)
    const again = accepted(await room.propose(preference)).candidate
    assert.deepEqual([again.status, again.memory_id], ['accepted', first.memory_id])
    const rows = await room.rows<{ updated_at: Date; created_at: Date }>(
      'select updated_at, created_at from concord.memory_records where subject_id = $1',
      [preference.subject_id],
    )
    assert.equal(rows.length, 1)
    assert.equal((rows[0]?.updated_at.getTime() ?? 0) - (rows[0]?.created_at.getTime() ?? 0), 60_000)
  })

  test('[MEM-12] one key, one candidate, one command, one record; other content under the key is refused', async () => {
    const preference = aPreference()
    await room.consent(preference)
    const key = { idempotencyKey: `k-${preference.subject_id}` }
    const [one, other] = await Promise.all([room.propose(preference, key), room.propose(preference, key)])
    const again = await room.propose(preference, key)
    const ids = [one, other, again].map((each) => accepted(each).command.command_id)
    assert.equal(new Set(ids).size, 1)
    assert.equal((await recordsOf(preference.subject_id)).length, 1)
    const changed = await room.propose({ ...preference, content: { seat: 'window' } }, key)
    assert.ok(!changed.ok && changed.code === 'key_reused')
  })

  test('[MEM-13] repeating the effect any number of times, even concurrently, writes one record', async () => {
    const preference = aPreference()
    await room.consent(preference)
    const { candidate, command } = accepted(await room.propose(preference))
    const again = () =>
      writeCandidate(room.memory, ada, {
        workspaceId: room.workspaceId,
        candidateId: candidate.memory_candidate_id,
        commandId: command.command_id,
      })
    for (const written of await Promise.all([again(), again(), again()])) assert.equal(accepted(written).is_new, false)
    assert.equal((await recordsOf(preference.subject_id)).length, 1)
    const events = await room.rows(
      `select from concord.domain_events where command_id = $1 and event_type = 'memory_written'`,
      [command.command_id],
    )
    assert.equal(events.length, 1)
  })

  test('[MEM-13] a command cannot write the candidate of another', async () => {
    const { candidate } = accepted(await room.propose(aPreference()))
    const stranger = accepted(await room.propose(aPreference()))
    const stolen = await writeCandidate(room.memory, ada, {
      workspaceId: room.workspaceId,
      candidateId: candidate.memory_candidate_id,
      commandId: stranger.command.command_id,
    })
    assert.ok(!stolen.ok && stolen.code === 'memory.candidate.not_found')
  })

  test('[MEM-04] [OQ-06] consent that is withdrawn between policy and effect stops the write', async () => {
    const preference = aPreference()
    const consentId = await room.consent(preference)
    const { workspaceId, memory } = room
    const schemas = accepted(openMemorySchemas([]))
    const command = await insertRow(
      room.db,
      'concord.commands',
      rowsOf['concord.commands']({ workspace: workspaceId } as never),
    )
    const candidateId = room.clock.newId()
    await room.db.transaction((tx) =>
      insertCandidate(tx, memory, ada, {
        workspaceId,
        candidateId,
        commandId: command.command_id,
        memory: accepted(checkProposal(schemas, preference, room.clock.now())),
      }),
    )
    assert.equal(accepted(await assessCandidate(memory, ada, { workspaceId, candidateId })).decision, 'write')
    accepted(await revokeConsent(memory, ada, { workspaceId, consentId }))
    const written = await writeCandidate(memory, ada, { workspaceId, candidateId, commandId: command.command_id })
    assert.ok(!written.ok && written.code === 'memory.consent.missing')
    assert.equal((await candidateOf(candidateId)).status, 'rejected')
    assert.deepEqual(await recordsOf(preference.subject_id), [])
  })

  test('[PER-04] a consent that is revoked before the commit of the outcome rolls back both, and the repeat is rejected', async (t) => {
    let whileEmbedding = async () => {}
    const embed = async () => (await whileEmbedding(), [[1, 1]])
    const own = await openMemoryRoom({ schemas: [consented], embedder: { model: 'ones', embed } })
    t.after(() => own.close())
    const preference = aPreference({ schema_name: consented.name })
    const consentId = await own.consent(preference)
    const proposal = accepted(await own.propose(preference))
    whileEmbedding = async () => {
      whileEmbedding = async () => {}
      accepted(await revokeConsent(own.memory, ada, { workspaceId: own.workspaceId, consentId }))
    }
    assert.equal(await own.answer(proposal, 'approved'), 'running')
    assert.deepEqual(await own.rows('select from concord.memory_records'), [])
    own.clock.travel(3_600_000)
    assert.equal(await own.settle(proposal.command.command_id), 'failed')
    const effects = await own.rows(
      `select status, attempt, error_class from concord.domain_effects where effect_type = 'memory.write'`,
    )
    assert.deepEqual(effects, [{ status: 'failed', attempt: 2, error_class: 'policy_denied' }])
    assert.deepEqual(await own.rows('select status from concord.memory_candidates'), [{ status: 'rejected' }])
    assert.deepEqual(await own.rows('select from concord.memory_records'), [])
  })

  test('[MEM-06] of a thousand contradicting concurrent writes one wins and the others are refused', async () => {
    const preference = aPreference()
    await room.consent(preference)
    const { workspaceId, memory } = room
    const schemas = accepted(openMemorySchemas([]))
    const command = await insertRow(
      room.db,
      'concord.commands',
      rowsOf['concord.commands']({ workspace: workspaceId } as never),
    )
    const candidates = Array.from({ length: 1_000 }, () => room.clock.newId())
    await room.db.transaction(async (tx) => {
      for (const [seat, candidateId] of candidates.entries()) {
        const checked = accepted(checkProposal(schemas, { ...preference, content: { seat } }, room.clock.now()))
        accepted(
          await insertCandidate(tx, memory, ada, {
            workspaceId,
            candidateId,
            commandId: command.command_id,
            memory: checked,
          }),
        )
      }
    })
    const results = await Promise.all(
      candidates.map((candidateId) =>
        writeCandidate(memory, ada, { workspaceId, candidateId, commandId: command.command_id }),
      ),
    )
    assert.equal(results.filter(({ ok }) => ok).length, 1)
    const codes = new Set(results.flatMap((each) => (each.ok ? [] : [each.code])))
    assert.deepEqual([...codes], ['memory.fact.conflict'])
    assert.equal((await recordsOf(preference.subject_id)).length, 1)
    const states = await room.rows(
      'select status, count(*)::integer as n from concord.memory_candidates where command_id = $1 group by 1 order by 1',
      [command.command_id],
    )
    assert.deepEqual(states, [
      { status: 'accepted', n: 1 },
      { status: 'rejected', n: 999 },
    ])
  })

  test('[EFF-29] the undo of a memory write removes its own record once, and never an earlier one', async () => {
    const preference = aPreference()
    await room.consent(preference)
    const first = accepted(await room.propose(preference)).candidate
    const again = accepted(await room.propose(preference)).candidate
    const undo = (of: { memory_candidate_id: string }) =>
      unwriteMemory(room.memory, ada, { workspaceId: room.workspaceId, candidateId: of.memory_candidate_id })
    assert.equal(accepted(await undo(again)).memory_id, null)
    assert.equal((await recordsOf(preference.subject_id))[0]?.status, 'active')
    for (const undone of [await undo(first), await undo(first)])
      assert.equal(accepted(undone).memory_id, first.memory_id)
    const [record] = await recordsOf(preference.subject_id)
    assert.deepEqual([record?.status, record?.content], ['deleted', {}])
  })

  test('[MEM-04] [MEM-05] a candidate that waits for an approval is never written without it, whatever has changed', async () => {
    const preference = aPreference()
    const proposal = accepted(await room.propose(preference))
    await room.consent(preference)
    assert.equal(await room.settle(proposal.command.command_id), 'waiting_for_approval')
    const ref = { workspaceId: room.workspaceId, candidateId: proposal.candidate.memory_candidate_id }
    assert.equal(accepted(await assessCandidate(room.memory, ada, ref)).decision, 'ask')
    assert.deepEqual(await recordsOf(preference.subject_id), [])
  })

  test('[MEM-06] an approval of a contradiction always names the contradicted record', async () => {
    const preference = { ...aPreference(), fact_key: 'seat' }
    await room.consent(preference)
    const first = accepted(await room.propose(preference)).candidate
    const other = accepted(await room.propose({ ...preference, content: { seat: 'window, always' } }))
    assert.equal(await room.settle(other.command.command_id), 'waiting_for_approval')
    const ref = { workspaceId: room.workspaceId, candidateId: other.candidate.memory_candidate_id }
    const assessed = accepted(await assessCandidate(room.memory, ada, ref))
    assert.ok(first.memory_id)
    assert.deepEqual(assessed.reasons, [`It contradicts the memory ${encodeId('memory', first.memory_id)}.`])
  })

  test('a candidate of a cancelled or denied command is rejected', async () => {
    const denied = accepted(
      await proposeMemory(
        room.commands,
        room.memory,
        { id: 'user:reader', kind: 'user', traceId: TRACE, principal: room.tenant.people.reader.principal },
        { workspaceId: room.workspaceId, memory: aPreference(), requestId: 'r' },
      ),
    )
    assert.equal(await room.settle(denied.command.command_id), 'failed')
    await room.follow()
    assert.equal((await candidateOf(denied.candidate.memory_candidate_id)).status, 'rejected')
    assert.equal(await room.follow(), 0)
  })
})
