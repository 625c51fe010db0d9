/** Every rule of the memory tables, broken once; and the two things that no update may do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { breakEveryRule } from '#test/broken-rows'
import { openTestDb } from '#test/database'
import { insertStoreRows } from '#test/store-rows'

const forever = 'infinity'
const empty = ''
const when = '2026-05-01Z'
const same = '00000000-0000-7000-8000-000000000001'
const blank = (...columns: string[]) => columns.map((column) => ({ [column]: empty }))
const endless = (...columns: string[]) => columns.map((column) => ({ [column]: forever }))
const [records, candidates] = ['concord.memory_records', 'concord.memory_candidates'] as const
const fact = { fact_key: 'k', subject_id: 's' }

breakEveryRule(
  [records],
  [
    {
      constraint: 'memory_records_fact_uq',
      table: records,
      rows: '[MEM-06]',
      given: fact,
      by: [fact, { ...fact, memory_type: 'fact' }],
    },
    {
      constraint: 'memory_records_candidate_uq',
      table: records,
      given: ({ here }) => ({ memory_candidate_id: here.candidate }),
      by: ({ here }) => ({ memory_candidate_id: here.candidate }),
    },
    {
      constraint: 'memory_records_candidate_fk',
      table: records,
      by: ({ elsewhere }) => ({ memory_candidate_id: elsewhere.candidate }),
    },
    {
      constraint: 'memory_records_command_fk',
      table: records,
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'memory_records_superseded_by_fk',
      table: records,
      by: ({ elsewhere }) => ({ status: 'superseded', superseded_by: elsewhere.memory }),
    },
    {
      constraint: 'memory_records_superseded_ck',
      table: records,
      rows: '[MEM-17]',
      by: ({ here }) => [{ status: 'superseded' }, { superseded_by: here.memory }],
    },
    {
      constraint: 'memory_records_superseded_by_ck',
      table: records,
      by: { memory_id: same, superseded_by: same, status: 'superseded' },
    },
    { constraint: 'memory_records_erased_ck', table: records, by: [{ status: 'deleted' }, { content: {} }] },
    { constraint: 'memory_record_status_ck', table: records, by: { status: 'forgotten' } },
    { constraint: 'memory_scope_ck', table: records, rows: '[MEM-02]', by: { scope: 'planet' } },
    { constraint: 'memory_type_ck', table: records, rows: '[MEM-03]', by: { memory_type: 'rumour' } },
    { constraint: 'memory_sensitivity_ck', table: records, by: { sensitivity: 'secret' } },
    {
      constraint: 'confidence_ck',
      table: records,
      by: [{ confidence: 1.1 }, { confidence: -0.1 }, { confidence: 'NaN' }],
    },
    {
      constraint: 'filled_text_ck',
      table: records,
      by: blank('subject_type', 'subject_id', 'created_by', 'fact_key', 'schema_name', 'task_type', 'connector'),
    },
    { constraint: 'object_json_ck', table: records, by: { content: '[]' } },
    { constraint: 'finite_time_ck', table: records, by: endless('expires_at', 'created_at', 'updated_at') },
  ],
)

breakEveryRule(
  [candidates],
  [
    {
      constraint: 'memory_candidates_command_fk',
      table: candidates,
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'memory_candidates_agent_run_fk',
      table: candidates,
      by: ({ elsewhere }) => ({ agent_run_id: elsewhere.agent }),
    },
    {
      constraint: 'memory_candidates_approval_fk',
      table: candidates,
      by: ({ elsewhere }) => ({ approval_id: elsewhere.approval }),
    },
    {
      constraint: 'memory_candidates_decided_at_ck',
      table: candidates,
      by: [{ status: 'rejected' }, { decided_at: when }],
    },
    {
      constraint: 'memory_candidates_accepted_ck',
      table: candidates,
      rows: '[MEM-12]',
      by: ({ here }) => [{ status: 'accepted', decided_at: when }, { memory_id: here.memory }],
    },
    { constraint: 'memory_candidates_erased_ck', table: candidates, by: [{ content: {} }, { erased_at: when }] },
    { constraint: 'memory_candidate_status_ck', table: candidates, by: { status: 'approved' } },
    { constraint: 'memory_scope_ck', table: candidates, by: { scope: 'planet' } },
    { constraint: 'memory_type_ck', table: candidates, by: { memory_type: 'rumour' } },
    { constraint: 'memory_sensitivity_ck', table: candidates, by: { sensitivity: 'secret' } },
    { constraint: 'confidence_ck', table: candidates, by: { confidence: 2 } },
    {
      constraint: 'filled_text_ck',
      table: candidates,
      by: blank('subject_type', 'subject_id', 'created_by', 'fact_key', 'schema_name', 'task_type', 'connector'),
    },
    { constraint: 'object_json_ck', table: candidates, by: { content: '[]' } },
    {
      constraint: 'finite_time_ck',
      table: candidates,
      by: [...endless('expires_at', 'created_at', 'erased_at'), { status: 'rejected', decided_at: forever }],
    },
  ],
)

breakEveryRule(
  ['concord.memory_derivations', 'concord.memory_embeddings', 'concord.memory_consents'],
  [
    {
      constraint: 'memory_derivations_memory_fk',
      table: 'concord.memory_derivations',
      by: ({ elsewhere }) => ({ memory_id: elsewhere.memory }),
    },
    {
      constraint: 'memory_derivations_source_fk',
      table: 'concord.memory_derivations',
      by: ({ elsewhere }) => ({ source_memory_id: elsewhere.memory }),
    },
    {
      constraint: 'memory_derivations_self_ck',
      table: 'concord.memory_derivations',
      by: ({ here }) => ({ memory_id: here.memory, source_memory_id: here.memory }),
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.memory_derivations',
      by: ({ here }) => ({ memory_id: here.memory, source_memory_id: here.summary, created_at: forever }),
    },
    {
      constraint: 'memory_embeddings_memory_fk',
      table: 'concord.memory_embeddings',
      by: ({ elsewhere }) => ({ memory_id: elsewhere.memory }),
    },
    { constraint: 'memory_embeddings_embedding_ck', table: 'concord.memory_embeddings', by: { embedding: [] } },
    { constraint: 'filled_text_ck', table: 'concord.memory_embeddings', by: { model: empty } },
    { constraint: 'finite_time_ck', table: 'concord.memory_embeddings', by: { created_at: forever } },
    {
      constraint: 'memory_consents_standing_uq',
      table: 'concord.memory_consents',
      given: { subject_id: 's' },
      by: { subject_id: 's' },
    },
    {
      constraint: 'memory_consents_revoked_ck',
      table: 'concord.memory_consents',
      by: [{ revoked_at: when }, { revoked_by: 'user:ada' }],
    },
    { constraint: 'memory_scope_ck', table: 'concord.memory_consents', by: { scope: 'planet' } },
    { constraint: 'memory_type_ck', table: 'concord.memory_consents', by: { memory_type: 'rumour' } },
    {
      constraint: 'filled_text_ck',
      table: 'concord.memory_consents',
      by: [...blank('subject_type', 'subject_id', 'granted_by'), { revoked_at: when, revoked_by: empty }],
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.memory_consents',
      by: [...endless('granted_at', 'expires_at'), { revoked_at: forever, revoked_by: 'user:ada' }],
    },
  ],
)

breakEveryRule(
  ['concord.memory_reads', 'concord.memory_holds', 'concord.memory_erasures'],
  [
    {
      constraint: 'memory_reads_agent_run_fk',
      table: 'concord.memory_reads',
      by: ({ elsewhere }) => ({ agent_run_id: elsewhere.agent }),
    },
    { constraint: 'memory_query_kind_ck', table: 'concord.memory_reads', by: { query_kind: 'guess' } },
    { constraint: 'filled_text_ck', table: 'concord.memory_reads', by: blank('reader', 'trace_id') },
    { constraint: 'finite_time_ck', table: 'concord.memory_reads', by: { read_at: forever } },
    {
      constraint: 'memory_holds_released_ck',
      table: 'concord.memory_holds',
      by: [{ released_at: when }, { released_by: 'user:bob' }],
    },
    {
      constraint: 'filled_text_ck',
      table: 'concord.memory_holds',
      by: [...blank('subject_type', 'subject_id', 'reason', 'placed_by'), { released_at: when, released_by: empty }],
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.memory_holds',
      by: [{ placed_at: forever }, { released_at: forever, released_by: 'user:bob' }],
    },
    {
      constraint: 'memory_erasures_command_fk',
      table: 'concord.memory_erasures',
      by: ({ elsewhere }) => ({ command_id: elsewhere.command }),
    },
    {
      constraint: 'memory_erasures_closed_ck',
      table: 'concord.memory_erasures',
      by: [{ outcome: 'dropped', closed_at: when }, { outcome: 'dropped', subject_id: null }, { subject_id: null }],
    },
    {
      constraint: 'memory_erasures_certificate_ck',
      table: 'concord.memory_erasures',
      by: [
        { outcome: 'erased', closed_at: when, subject_id: null },
        { certificate: {}, certificate_hash: 'h' },
        { certificate_hash: 'h' },
      ],
    },
    {
      constraint: 'memory_erasure_outcome_ck',
      table: 'concord.memory_erasures',
      by: { outcome: 'lost', closed_at: when, subject_id: null },
    },
    {
      constraint: 'filled_text_ck',
      table: 'concord.memory_erasures',
      by: [
        ...blank('subject_type', 'subject_id', 'subject_digest', 'requested_by'),
        { outcome: 'erased', closed_at: when, subject_id: null, certificate: {}, certificate_hash: empty },
      ],
    },
    {
      constraint: 'object_json_ck',
      table: 'concord.memory_erasures',
      by: { outcome: 'erased', closed_at: when, subject_id: null, certificate: '[]', certificate_hash: 'h' },
    },
    {
      constraint: 'finite_time_ck',
      table: 'concord.memory_erasures',
      by: [{ requested_at: forever }, { outcome: 'dropped', subject_id: null, closed_at: forever }],
    },
  ],
)

test('[MEM-15] a run keeps the memory scope it was spawned with, and content is written once: the database refuses', async () => {
  const opened = await openTestDb()
  try {
    await insertStoreRows(opened.db)
    const refused = { code: '42501' }
    await assert.rejects(
      opened.db.query(`update concord.agent_runs set memory_scope = '{"subject_type":"user"}'`),
      refused,
    )
    await opened.db.query(`update concord.agent_runs set memory_scope = memory_scope, step_count = 1`)
    await assert.rejects(opened.db.query(`update concord.memory_records set content = '{"seat":"window"}'`), refused)
    await assert.rejects(opened.db.query(`update concord.memory_candidates set content = '{"seat":"window"}'`), refused)
    await opened.db.query(`update concord.memory_records set content = '{}', status = 'deleted'`)
  } finally {
    await opened.close()
  }
})

test('[MEM-01] memory is kept apart from the outputs of work: no column of theirs, no key to them', async () => {
  const opened = await openTestDb()
  try {
    const columns = await opened.db.query<{ table_name: string; column_name: string }>(
      `select table_name, column_name from information_schema.columns where table_schema = 'concord' and table_name like 'memory\\_%'`,
    )
    assert.ok(new Set(columns.map(({ table_name }) => table_name)).size >= 8)
    const ofArtifacts = /artifact|^(location|checksum|version|lineage|metadata)$/
    assert.deepEqual(
      columns.filter(({ column_name }) => ofArtifacts.test(column_name)),
      [],
    )
    const keys = await opened.db.query(
      `select conname from pg_constraint where contype = 'f' and conrelid::regclass::text like '%memory\\_%' and confrelid::regclass::text like '%artifact%'`,
    )
    assert.deepEqual(keys, [])
  } finally {
    await opened.close()
  }
})
