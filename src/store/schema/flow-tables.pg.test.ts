/** The tables of flow as the requirements print them, and the marked additions. */
import { describePrinted, type Printed } from '#test/schema/printed'

const version = 'FOREIGN KEY (org_id, dag_name, dag_version_id) REFERENCES flow.dag_versions(org_id, dag_name, id)'
const org = 'FOREIGN KEY (org_id) REFERENCES identity.orgs(id)'

const printed: readonly Printed[] = [
  {
    rows: '[FLOW-010]',
    table: 'flow.dag_versions',
    columns: `id uuid! = gen_random_uuid(), org_id uuid!, dag_name text!, yaml_hash text!, created_at at! = now()`,
    added: 'workspace_id, command_id',
    indexes: [],
    keys: ['PRIMARY KEY (id)', 'UNIQUE (org_id, dag_name, yaml_hash)', org],
  },
  {
    rows: '[FLOW-012] [FLOW-014]',
    table: 'flow.dag_current_versions',
    columns: `org_id uuid!, dag_name text!, dag_version_id uuid!, updated_at at! = now()`,
    added: '',
    indexes: [],
    keys: ['PRIMARY KEY (org_id, dag_name)', org, version],
  },
  {
    rows: '[FLOW-016] [FLOW-029]',
    table: 'flow.jobs',
    columns: `id uuid! = gen_random_uuid(), org_id uuid!, name text!, dag_name text!, dag_version_id uuid!, activation text!, runtime text!, operator text!,
      source jsonb, bootstrap jsonb, execution_strategy text, idle_timeout text, config jsonb! = '{}'::jsonb, config_hash text!, input_datasets text[],
      output_datasets text[], update_strategy text!, unique_key text[], scaling jsonb, timeout_seconds integer, heartbeat_timeout_seconds integer,
      max_attempts integer! = 3, created_at at! = now(), updated_at at! = now()`,
    added: 'inputs_when, output_versions',
    indexes: ['INDEX idx_jobs_dag_version ON flow.jobs USING btree (dag_version_id)'],
    keys: ['PRIMARY KEY (id)', 'UNIQUE (dag_version_id, name)', org, version],
  },
  {
    rows: '[FLOW-032] [FLOW-033] [FLOW-034]',
    table: 'flow.datasets',
    columns: `id uuid! = gen_random_uuid(), org_id uuid!, name text!, producer_dag_name text!, producer_job_name text!, producer_output_index integer!,
      storage jsonb! = '{}'::jsonb, read_roles text[]! = '{}'::text[], created_at at! = now(), updated_at at! = now()`,
    added: '',
    indexes: [],
    keys: [
      'PRIMARY KEY (id)',
      'UNIQUE (org_id, name)',
      'UNIQUE (org_id, producer_dag_name, producer_job_name, producer_output_index)',
      org,
    ],
  },
  {
    rows: '[FLOW-037] [FLOW-038]',
    table: 'flow.dataset_versions',
    columns: `id uuid! = gen_random_uuid(), dataset_uuid uuid!, created_at at! = now(), storage_location text!, config_hash text!, schema_hash text,
      range_start bigint, range_end bigint`,
    added: '',
    indexes: [],
    keys: [
      'PRIMARY KEY (id)',
      'UNIQUE NULLS NOT DISTINCT (dataset_uuid, config_hash, range_start, range_end)',
      'FOREIGN KEY (dataset_uuid) REFERENCES flow.datasets(id)',
    ],
  },
  {
    rows: '[FLOW-042] [FLOW-043]',
    table: 'flow.dag_version_datasets',
    columns: 'dag_version_id uuid!, dataset_uuid uuid!, dataset_version uuid!',
    added: '',
    indexes: [],
    keys: [
      'PRIMARY KEY (dag_version_id, dataset_uuid)',
      'FOREIGN KEY (dag_version_id) REFERENCES flow.dag_versions(id)',
      'FOREIGN KEY (dataset_uuid) REFERENCES flow.datasets(id)',
      'FOREIGN KEY (dataset_uuid, dataset_version) REFERENCES flow.dataset_versions(dataset_uuid, id)',
    ],
  },
  {
    rows: '[FLOW-052] [FLOW-055] [FLOW-056] [FLOW-057] [FLOW-058] [FLOW-059] [FLOW-060] [FLOW-061] [FLOW-062]',
    table: 'flow.tasks',
    columns: `id uuid! = gen_random_uuid(), job_id uuid!, dedupe_key text, status text! = 'Queued'::text, attempt integer! = 1, partitions text[],
      input_versions jsonb, outputs jsonb, worker_id text, lease_token uuid, lease_expires_at at, last_heartbeat at, started_at at, completed_at at,
      next_retry_at at, error_message text, created_at at! = now()`,
    added: 'caused_by, memo_of, command_id',
    indexes: [
      'UNIQUE INDEX idx_tasks_job_dedupe ON flow.tasks USING btree (job_id, dedupe_key) WHERE (dedupe_key IS NOT NULL)',
      `INDEX idx_tasks_status ON flow.tasks USING btree (status) WHERE ((status)::text = ANY (ARRAY['Queued'::text, 'Running'::text]))`,
      `INDEX idx_tasks_next_retry ON flow.tasks USING btree (next_retry_at) WHERE ((status)::text = 'Failed'::text)`,
      `INDEX idx_tasks_lease_expiry ON flow.tasks USING btree (lease_expires_at) WHERE ((status)::text = 'Running'::text)`,
    ],
    keys: ['PRIMARY KEY (id)', 'FOREIGN KEY (job_id) REFERENCES flow.jobs(id)'],
  },
  {
    rows: '[FLOW-080] [FLOW-081]',
    table: 'flow.outbox',
    columns: `id bigint! = nextval('flow.outbox_id_seq'::regclass), kind text!, payload jsonb!, status text! = 'Pending'::text, available_at at! = now(),
      attempts integer! = 0, last_error text, created_at at! = now(), processed_at at`,
    added: '',
    indexes: [
      `INDEX idx_outbox_pending ON flow.outbox USING btree (status, available_at) WHERE ((status)::text = 'Pending'::text)`,
    ],
    keys: ['PRIMARY KEY (id)'],
  },
  {
    rows: '[FLOW-091]',
    table: 'flow.task_inputs',
    columns: 'task_id uuid!, input_dataset_uuid uuid!, input_partition_key text!, input_version at!',
    added: '',
    indexes: [],
    keys: [
      'PRIMARY KEY (task_id, input_dataset_uuid, input_partition_key)',
      'FOREIGN KEY (task_id) REFERENCES flow.tasks(id)',
      'FOREIGN KEY (input_dataset_uuid) REFERENCES flow.datasets(id)',
    ],
  },
  {
    rows: '[FLOW-093]',
    table: 'flow.column_lineage',
    columns:
      'output_dataset_uuid uuid!, output_column text!, input_dataset_uuid uuid!, input_column text!, job_id uuid',
    added: '',
    indexes: ['column_lineage_input_ix ON flow.column_lineage USING btree (input_dataset_uuid, input_column)'],
    keys: [
      'PRIMARY KEY (output_dataset_uuid, output_column, input_dataset_uuid, input_column)',
      'FOREIGN KEY (output_dataset_uuid) REFERENCES flow.datasets(id)',
      'FOREIGN KEY (input_dataset_uuid) REFERENCES flow.datasets(id)',
      'FOREIGN KEY (job_id) REFERENCES flow.jobs(id)',
    ],
  },
  {
    rows: '[FLOW-095]',
    table: 'flow.operator_state',
    columns: `org_id uuid!, job_id uuid!, state_key text! = 'default'::text, state jsonb! = '{}'::jsonb, updated_at at! = now()`,
    added: '',
    indexes: [],
    keys: [
      'PRIMARY KEY (org_id, job_id, state_key)',
      org,
      'FOREIGN KEY (org_id, job_id) REFERENCES flow.jobs(org_id, id)',
    ],
  },
]

describePrinted('tables of flow as printed', printed)
