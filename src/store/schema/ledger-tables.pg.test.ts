/** The tables as the requirements print them: every column with its type, nullness and default, and nothing unannounced. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { type Catalogue, readCatalogue } from '#test/schema/catalogue'

type Printed = {
  readonly rows: string
  readonly table: string
  /** As printed; `timestamptz` columns are written `at`. */
  readonly columns: string
  /** Additions, each explained in the head of its migration. */
  readonly added: string
  readonly indexes: readonly string[]
  readonly keys: readonly string[]
}

const turn = 'run_after, turn_token, turn_until'

const printed: readonly Printed[] = [
  {
    rows: '[CMD-01] [CAN-01] [SUP-07] [PER-06]',
    table: 'concord.commands',
    columns: `command_id uuid!, command_type text!, requested_by text!, ingress text!, payload jsonb!, context jsonb!, status text!,
      cancellation_mode text! = 'graceful'::text, idempotency_key text, runtime_workflow_id text, result jsonb, error text,
      created_at at! = now(), updated_at at! = now(), completed_at at, task_name text, plan jsonb,
      cancellation_requested boolean! = false, command_type_version_id uuid`,
    added: `workspace_id, contract_key, request_fingerprint, payload_hash, error_class, attempt, ${turn}`,
    indexes: [
      'UNIQUE INDEX commands_idempotency_key_uq ON concord.commands USING btree (idempotency_key, workspace_id) WHERE (idempotency_key IS NOT NULL)',
    ],
    keys: ['PRIMARY KEY (command_id)'],
  },
  {
    rows: '[DEP-01]',
    table: 'concord.command_dependencies',
    columns: `child_command_id uuid!, parent_command_id uuid!, required_status text! = 'succeeded'::text,
      propagate_cancellation boolean! = true, created_at at! = now()`,
    added: 'workspace_id',
    indexes: ['idx_command_deps_parent ON concord.command_dependencies USING btree (parent_command_id)'],
    keys: ['PRIMARY KEY (child_command_id, parent_command_id)'],
  },
  {
    rows: '[EFF-02] [OQ-02]',
    table: 'concord.domain_effects',
    columns: `domain_effect_id uuid!, command_id uuid!, effect_type text!, effect_payload jsonb!, idempotency_key text,
      status text! = 'planned'::text, executed_by_runtime_workflow_id text, result jsonb, error text, compensates_effect_id uuid,
      declared_compensation text, created_at at! = now(), completed_at at, declaration_order integer!`,
    added: 'workspace_id, attempt, max_attempts, error_class, run_after, turn_token, reversibility, read_back',
    indexes: [
      'idx_domain_effects_command ON concord.domain_effects USING btree (command_id, declaration_order)',
      'UNIQUE INDEX idx_domain_effects_idem ON concord.domain_effects USING btree (workspace_id, idempotency_key) WHERE (idempotency_key IS NOT NULL)',
    ],
    keys: ['PRIMARY KEY (domain_effect_id, workspace_id)'],
  },
  {
    rows: '[EVT-01]',
    // A view of the journal: a view has no defaults, and Postgres does not know which of its columns are never null.
    table: 'concord.domain_events',
    columns: `event_id uuid, command_id uuid, agent_run_id uuid, swarm_run_id uuid, purpose text, event_type text, payload jsonb,
      actor text, trace_id text, step_index integer, tool_name text, latency_ms integer, token_usage jsonb, cost_units numeric,
      created_at at`,
    added: 'workspace_id, seq, xid, entry_id, entry_seq',
    indexes: [],
    keys: [],
  },
  {
    rows: '[EVT-01]',
    table: 'concord.journal',
    columns: `entry_id uuid!, workspace_id uuid!, command_id uuid, agent_run_id uuid, swarm_run_id uuid, step_index integer, trace_id text!,
      created_at at! = now(), seq bigint! = generated always as identity (increment by 65536), xid xid8! = pg_current_xact_id(), audit_type text,
      events json!`,
    added: '',
    indexes: [
      'journal_command_ix ON concord.journal USING btree (command_id, seq)',
      'journal_workspace_ix ON concord.journal USING btree (workspace_id, xid, seq)',
      'journal_agent_ix ON concord.journal USING btree (agent_run_id, step_index) WHERE (agent_run_id IS NOT NULL)',
      'journal_audit_ix ON concord.journal USING btree (audit_type, workspace_id, xid, seq) WHERE (audit_type IS NOT NULL)',
      `journal_incidents_ix ON concord.journal USING btree (created_at) WHERE (audit_type = 'compensation_drift'::text)`,
    ],
    keys: ['PRIMARY KEY (entry_id)'],
  },
  {
    rows: '[APR-01]',
    table: 'concord.approvals',
    columns: `approval_id uuid!, command_id uuid!, requested_by text!, approver text!, approval_type text!, request_payload jsonb!,
      review_packet jsonb!, status text! = 'pending'::text, expires_at at, created_at at! = now(), decided_at at, decided_by text,
      decision_reason text, idempotency_key text, payload_hash text!`,
    added:
      'workspace_id, self_decision_allowed, superseded_by, approvals_required, approver_roles, approved_by, approved_for, domain_effect_id, vote_key_id, vote_key_is_agent',
    indexes: [],
    keys: ['PRIMARY KEY (approval_id)', 'UNIQUE (idempotency_key, workspace_id)'],
  },
  {
    rows: '[ART-01]',
    table: 'concord.artifacts',
    columns: `artifact_id uuid!, command_id uuid!, artifact_type text!, location text!, version integer! = 1, status text!,
      metadata jsonb! = '{}'::jsonb, lineage jsonb! = '{}'::jsonb, created_by text!, created_at at! = now(), agent_run_id uuid,
      swarm_run_id uuid, checksum text!, idempotency_key text`,
    added:
      'workspace_id, domain_effect_id, content_type, size_bytes, visibility, published_to, superseded_by, retain_until, hold_reason, publications',
    indexes: [],
    keys: ['PRIMARY KEY (artifact_id)', 'UNIQUE (idempotency_key, workspace_id)'],
  },
  {
    rows: '[CON-07] [CON-08]',
    table: 'concord.connector_invocations',
    columns: `connector_invocation_id uuid!, command_id uuid!, connector_name text!, operation text!, side_effect boolean! = false,
      idempotency_key text, status text!, request_payload jsonb!, response_payload jsonb, error text, created_at at! = now(),
      completed_at at, domain_effect_id uuid, trace_id text, latency_ms integer, attempt integer, error_class text`,
    added: 'workspace_id',
    indexes: [],
    keys: ['PRIMARY KEY (connector_invocation_id)'],
  },
  {
    rows: '[SWM-01]',
    table: 'concord.swarm_runs',
    columns: `swarm_run_id uuid!, command_id uuid!, workflow_run_id uuid, coordinator_agent_run_id uuid, status text!, objective text!,
      execution_mode text!, join_strategy text!, max_agents integer! = 5, max_depth integer! = 2, max_total_steps integer! = 100,
      max_cost_units numeric, metadata jsonb! = '{}'::jsonb, created_at at! = now(), started_at at, completed_at at, cancelled_at at`,
    added: `workspace_id, ${turn}`,
    indexes: [
      'idx_swarm_runs_command_id ON concord.swarm_runs USING btree (command_id)',
      'idx_swarm_runs_status ON concord.swarm_runs USING btree (status, workspace_id)',
    ],
    keys: ['PRIMARY KEY (swarm_run_id)'],
  },
  {
    rows: '[AGT-05]',
    table: 'concord.agent_runs',
    columns: `agent_run_id uuid!, command_id uuid!, swarm_run_id uuid, parent_agent_run_id uuid, agent_name text!, agent_role text!,
      agent_version text, status text!, goal text!, allowed_tools jsonb! = '[]'::jsonb, allowed_connectors jsonb! = '[]'::jsonb,
      memory_scope jsonb! = '{}'::jsonb, context_scope jsonb! = '{}'::jsonb, max_steps integer! = 20, step_count integer! = 0,
      spawn_depth integer! = 0, model_config jsonb! = '{}'::jsonb, runtime_config jsonb! = '{}'::jsonb, metadata jsonb! = '{}'::jsonb,
      created_at at! = now(), started_at at, completed_at at, cancelled_at at`,
    added: `workspace_id, ${turn}`,
    indexes: [
      'idx_agent_runs_swarm_run_id ON concord.agent_runs USING btree (swarm_run_id)',
      'idx_agent_runs_parent_agent_run_id ON concord.agent_runs USING btree (parent_agent_run_id)',
      'idx_agent_runs_status ON concord.agent_runs USING btree (status, workspace_id)',
    ],
    keys: ['PRIMARY KEY (agent_run_id)'],
  },
  {
    rows: '[FLOW-001]',
    table: 'identity.orgs',
    columns: `id uuid! = gen_random_uuid(), name text!, slug text!, settings jsonb! = '{}'::jsonb, created_at at! = now()`,
    added: '',
    indexes: [],
    keys: ['PRIMARY KEY (id)', 'UNIQUE (slug)'],
  },
  {
    rows: '[FLOW-002] [FLOW-004]',
    table: 'identity.users',
    columns: `id uuid! = gen_random_uuid(), org_id uuid!, external_id text!, email text, role text!, created_at at! = now()`,
    added: 'deactivated_at, issuers',
    indexes: [],
    keys: ['PRIMARY KEY (id)', 'UNIQUE (external_id)', 'FOREIGN KEY (org_id) REFERENCES identity.orgs(id)'],
  },
  {
    rows: '[FLOW-005]',
    table: 'identity.org_roles',
    columns: `id uuid! = gen_random_uuid(), org_id uuid!, slug text!, name text!, created_at at! = now()`,
    added: '',
    indexes: [],
    keys: ['PRIMARY KEY (id)', 'UNIQUE (slug, org_id)', 'FOREIGN KEY (org_id) REFERENCES identity.orgs(id)'],
  },
  {
    rows: '[FLOW-006] [FLOW-007]',
    table: 'identity.org_role_memberships',
    columns: `role_id uuid!, user_id uuid!, created_at at! = now()`,
    added: 'org_id, granted_by',
    indexes: ['idx_org_role_memberships_user ON identity.org_role_memberships USING btree (user_id)'],
    keys: [
      'PRIMARY KEY (role_id, user_id)',
      'FOREIGN KEY (org_id, role_id) REFERENCES identity.org_roles(org_id, id)',
      'FOREIGN KEY (org_id, user_id) REFERENCES identity.users(org_id, id)',
    ],
  },
  {
    rows: '[MEM-12]',
    table: 'concord.memory_records',
    columns: `memory_id uuid!, subject_type text!, subject_id text!, scope text!, memory_type text!, content jsonb!, confidence numeric,
      status text!, superseded_by uuid, expires_at at, command_id uuid, created_by text!, created_at at! = now(),
      updated_at at! = now()`,
    added: 'workspace_id, fact_key, sensitivity, schema_name, task_type, connector, memory_candidate_id',
    indexes: [],
    keys: ['PRIMARY KEY (memory_id)'],
  },
  {
    rows: '[MEM-12]',
    table: 'concord.memory_candidates',
    columns: `memory_candidate_id uuid!, command_id uuid!, agent_run_id uuid, subject_type text!, subject_id text!, scope text!,
      memory_type text!, content jsonb!, confidence numeric, expires_at at, created_by text!, sensitivity text!, status text!,
      approval_id uuid, memory_id uuid, created_at at! = now(), decided_at at`,
    added: 'workspace_id, fact_key, schema_name, task_type, connector, derived_from, supersedes, erased_at',
    indexes: [],
    keys: ['PRIMARY KEY (memory_candidate_id)'],
  },
]

const words = (list: string) => list.split(/,\s+/).filter((word) => word !== '')

describe('tables as printed', () => {
  let opened: TestDb
  let catalogue: Catalogue

  before(async () => {
    opened = await openTestDb()
    catalogue = await readCatalogue(opened.db)
  })
  after(() => opened.close())

  for (const { rows, table, columns, added, indexes, keys } of printed) {
    test(`${rows} ${table}`, () => {
      const real = catalogue.columns.filter((column) => column.table === table)
      const additions = words(added)
      const drawn = real
        .filter(({ column }) => !additions.includes(column))
        .map(({ column, baseType, notNull, default: value }) => {
          const kind = baseType === 'timestamp with time zone' ? 'at' : baseType
          return `${column} ${kind}${notNull ? '!' : ''}${value === null ? '' : ` = ${value}`}`
        })
      assert.deepEqual(drawn.sort(), words(columns).sort())
      assert.equal(real.length, drawn.length + additions.length, 'an addition is not announced')
      const owned = (lines: Catalogue['indexes']) =>
        lines.filter(({ owner }) => owner === table).map(({ text }) => text)
      for (const index of indexes)
        assert.ok(
          owned(catalogue.indexes).some((text) => text.endsWith(index)),
          index,
        )
      for (const key of keys)
        assert.ok(
          owned(catalogue.constraints).some((text) => text.endsWith(key)),
          key,
        )
    })
  }
})
