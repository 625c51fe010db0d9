/**
 * The row of every table as the driver returns it, by the table's name. Numbers that do not fit a double (`numeric`, `bigint`, `xid8`) are text.
 * Written by scripts/schema.ts from the catalogue of a migrated database; change a migration, not this file.
 */
import type { JsonValue } from '#kernel/json-value'

/** A row whose room knows more about some columns than the catalogue does, such as the shape of a document. */
export type RowOf<Table extends keyof Rows, Known extends Partial<Rows[Table]>> = Omit<Rows[Table], keyof Known> & Known

export type Rows = {
  'concord.agent_invocations': {
    readonly invocation_id: string
    readonly swarm_run_id: string
    readonly parent_agent_run_id: string
    readonly child_agent_run_id: string
    readonly invocation_type: 'spawn' | 'delegate' | 'review' | 'evaluate'
    readonly delegated_goal: string
    readonly constraints: JsonValue
    readonly allowed_tools: JsonValue
    readonly allowed_connectors: JsonValue
    readonly memory_scope: JsonValue
    readonly status: 'created' | 'running' | 'succeeded' | 'failed' | 'cancelled' | 'expired'
    readonly created_at: Date
    readonly completed_at: Date | null
    readonly workspace_id: string
    readonly command_id: string
    readonly context_scope: JsonValue
    readonly max_steps: number
    readonly spawn_depth: number
  }
  'concord.agent_messages': {
    readonly agent_message_id: string
    readonly workspace_id: string
    readonly agent_run_id: string
    readonly swarm_run_id: string | null
    readonly parent_agent_run_id: string | null
    readonly position: number
    readonly turn: number
    readonly step_index: number | null
    readonly message_role: 'system' | 'user' | 'assistant' | 'tool' | 'agent'
    readonly message_type: 'instruction' | 'question' | 'answer' | 'observation' | 'critique' | 'result'
    readonly content: string
    readonly digest: string
    readonly size_bytes: number
    readonly labels: JsonValue
    readonly metadata: JsonValue
    readonly created_at: Date
    readonly erased_at: Date | null
  }
  'concord.agent_runs': {
    readonly agent_run_id: string
    readonly command_id: string
    readonly swarm_run_id: string | null
    readonly parent_agent_run_id: string | null
    readonly agent_name: string
    readonly agent_role: string
    readonly agent_version: string | null
    readonly status:
      | 'running'
      | 'succeeded'
      | 'failed'
      | 'cancelled'
      | 'expired'
      | 'created'
      | 'queued'
      | 'waiting_for_tool'
      | 'waiting_for_approval'
      | 'waiting_for_input'
      | 'waiting_for_children'
      | 'cancelling'
    readonly goal: string
    readonly allowed_tools: JsonValue
    readonly allowed_connectors: JsonValue
    readonly memory_scope: JsonValue
    readonly context_scope: JsonValue
    readonly max_steps: number
    readonly step_count: number
    readonly spawn_depth: number
    readonly model_config: JsonValue
    readonly runtime_config: JsonValue
    readonly metadata: JsonValue
    readonly created_at: Date
    readonly started_at: Date | null
    readonly completed_at: Date | null
    readonly cancelled_at: Date | null
    readonly workspace_id: string
    readonly run_after: Date | null
    readonly turn_token: string | null
    readonly turn_until: Date | null
    readonly manifest: JsonValue
    readonly manifest_hash: string | null
    readonly authority_hash: string | null
    readonly parent_authority_hash: string | null
    readonly forbidden_tools: JsonValue
    readonly delegable_tools: JsonValue
    readonly termination: JsonValue
    readonly labels: JsonValue
    readonly end_reason:
      | 'final_answer_created'
      | 'human_cancelled'
      | 'max_steps_reached'
      | 'policy_denied'
      | 'budget_exhausted'
      | 'deadline_passed'
      | 'loop_detected'
      | 'stopped'
      | 'failed'
      | 'parent_ended'
      | 'join_decided'
      | null
    readonly cost_units: string
    readonly deadline_at: Date | null
    readonly budget_account_id: string | null
    readonly invocation_id: string | null
    readonly erasures: number
  }
  'concord.approvals': {
    readonly approval_id: string
    readonly command_id: string
    readonly requested_by: string
    readonly approver: string
    readonly approval_type: string
    readonly request_payload: JsonValue
    readonly review_packet: JsonValue
    readonly status: 'pending' | 'approved' | 'rejected' | 'changes_requested' | 'expired' | 'cancelled'
    readonly expires_at: Date | null
    readonly created_at: Date
    readonly decided_at: Date | null
    readonly workspace_id: string
    readonly decided_by: string | null
    readonly decision_reason: string | null
    readonly idempotency_key: string | null
    readonly payload_hash: string
    readonly self_decision_allowed: boolean
    readonly superseded_by: string | null
    readonly approvals_required: number
    readonly approver_roles: readonly string[]
    readonly approved_by: readonly string[]
    readonly domain_effect_id: string | null
    readonly vote_key_id: string | null
    readonly vote_key_is_agent: boolean
    readonly approved_for: readonly string[]
  }
  'concord.artifacts': {
    readonly artifact_id: string
    readonly command_id: string
    readonly artifact_type: string
    readonly location: string
    readonly version: number
    readonly status: 'draft' | 'ready' | 'published' | 'unpublished' | 'superseded' | 'cancelled' | 'archived'
    readonly metadata: JsonValue
    readonly lineage: JsonValue
    readonly created_by: string
    readonly created_at: Date
    readonly agent_run_id: string | null
    readonly swarm_run_id: string | null
    readonly checksum: string
    readonly idempotency_key: string | null
    readonly workspace_id: string
    readonly domain_effect_id: string | null
    readonly content_type: string
    readonly size_bytes: number
    readonly visibility: 'private' | 'workspace'
    readonly published_to: string | null
    readonly superseded_by: string | null
    readonly retain_until: Date | null
    readonly hold_reason: string | null
    readonly publications: JsonValue
    readonly labels: JsonValue
  }
  'concord.budget_accounts': {
    readonly account_id: string
    readonly workspace_id: string
    readonly command_id: string
    readonly parent_account_id: string | null
    readonly limit_units: string
    readonly reserved_units: string
    readonly spent_units: string
    readonly carved_units: string
    readonly excess_units: string
    readonly created_at: Date
    readonly closed_at: Date | null
  }
  'concord.budget_entries': {
    readonly account_id: string
    readonly workspace_id: string
    readonly kind: 'opened' | 'carved' | 'reserved' | 'settled' | 'raised' | 'closed' | 'returned'
    readonly key: string
    readonly limit_change: string
    readonly reserved_change: string
    readonly spent_change: string
    readonly carved_change: string
    readonly excess_change: string
    readonly created_at: Date
  }
  'concord.command_dependencies': {
    readonly child_command_id: string
    readonly parent_command_id: string
    readonly required_status:
      | 'created'
      | 'validated'
      | 'waiting_for_input'
      | 'waiting_for_approval'
      | 'approved'
      | 'queued'
      | 'running'
      | 'blocked'
      | 'succeeded'
      | 'failed'
      | 'cancelled'
      | 'expired'
      | 'compensating'
      | 'compensated'
      | 'cancelling'
    readonly propagate_cancellation: boolean
    readonly created_at: Date
    readonly workspace_id: string
  }
  'concord.commands': {
    readonly command_id: string
    readonly command_type: string
    readonly requested_by: string
    readonly ingress:
      | 'user_request'
      | 'scheduled_trigger'
      | 'webhook'
      | 'system_event'
      | 'agent_action'
      | 'connector_event'
      | 'human_decision'
    readonly payload: JsonValue
    readonly context: JsonValue
    readonly status:
      | 'created'
      | 'validated'
      | 'waiting_for_input'
      | 'waiting_for_approval'
      | 'approved'
      | 'queued'
      | 'running'
      | 'blocked'
      | 'succeeded'
      | 'failed'
      | 'cancelled'
      | 'expired'
      | 'compensating'
      | 'compensated'
      | 'cancelling'
    readonly cancellation_mode: 'graceful' | 'compensate_then_stop'
    readonly idempotency_key: string | null
    readonly runtime_workflow_id: string | null
    readonly result: JsonValue | null
    readonly error: string | null
    readonly created_at: Date
    readonly updated_at: Date
    readonly completed_at: Date | null
    readonly workspace_id: string
    readonly request_fingerprint: string | null
    readonly payload_hash: string
    readonly task_name: string | null
    readonly plan: JsonValue | null
    readonly cancellation_requested: boolean
    readonly command_type_version_id: string | null
    readonly error_class:
      | 'transient_connector_error'
      | 'rate_limited'
      | 'timeout'
      | 'temporary_database_error'
      | 'validation_error'
      | 'policy_denied'
      | 'approval_rejected'
      | 'permission_denied'
      | 'malformed_payload'
      | 'internal_error'
      | null
    readonly attempt: number
    readonly run_after: Date | null
    readonly turn_token: string | null
    readonly turn_until: Date | null
    readonly contract_key: string | null
    readonly agent_run_id: string | null
    readonly labels: JsonValue
  }
  'concord.connector_definitions': {
    readonly workspace_id: string
    readonly connector_name: string
    readonly operation: string
    readonly seen_definition: JsonValue
    readonly seen_hash: string
    readonly seen_at: Date
    readonly approved_definition: JsonValue | null
    readonly approved_hash: string | null
    readonly approved_by: string | null
    readonly approved_at: Date | null
  }
  'concord.connector_invocations': {
    readonly connector_invocation_id: string
    readonly command_id: string
    readonly connector_name: string
    readonly operation: string
    readonly side_effect: boolean
    readonly idempotency_key: string | null
    readonly status: 'started' | 'succeeded' | 'failed'
    readonly request_payload: JsonValue
    readonly response_payload: JsonValue | null
    readonly error: string | null
    readonly created_at: Date
    readonly completed_at: Date | null
    readonly domain_effect_id: string | null
    readonly trace_id: string | null
    readonly latency_ms: number | null
    readonly attempt: number | null
    readonly error_class:
      | 'transient_connector_error'
      | 'rate_limited'
      | 'timeout'
      | 'temporary_database_error'
      | 'validation_error'
      | 'policy_denied'
      | 'approval_rejected'
      | 'permission_denied'
      | 'malformed_payload'
      | 'internal_error'
      | null
    readonly workspace_id: string
  }
  'concord.domain_effects': {
    readonly domain_effect_id: string
    readonly command_id: string
    readonly effect_type: string
    readonly effect_payload: JsonValue
    readonly idempotency_key: string | null
    readonly status: 'planned' | 'executing' | 'succeeded' | 'failed'
    readonly executed_by_runtime_workflow_id: string | null
    readonly result: JsonValue | null
    readonly error: string | null
    readonly compensates_effect_id: string | null
    readonly declared_compensation: string | null
    readonly created_at: Date
    readonly completed_at: Date | null
    readonly workspace_id: string
    readonly declaration_order: number
    readonly attempt: number
    readonly max_attempts: number
    readonly error_class:
      | 'transient_connector_error'
      | 'rate_limited'
      | 'timeout'
      | 'temporary_database_error'
      | 'validation_error'
      | 'policy_denied'
      | 'approval_rejected'
      | 'permission_denied'
      | 'malformed_payload'
      | 'internal_error'
      | null
    readonly run_after: Date | null
    readonly turn_token: string | null
    readonly reversibility: 'reversible' | 'compensatable' | 'irreversible' | null
    readonly read_back: JsonValue | null
  }
  'concord.domain_event_seals': {
    readonly workspace_id: string
    readonly seal_no: string
    readonly xid_from: string
    readonly xid_to: string
    readonly first_seq: string
    readonly last_seq: string
    readonly row_count: number
    readonly root_hash: Uint8Array
    readonly previous_seal_no: string | null
    readonly previous_hash: Uint8Array
    readonly seal_hash: Uint8Array
    readonly sealed_at: Date
  }
  'concord.envelope_calls': {
    readonly envelope_id: string
    readonly workspace_id: string
    readonly task_name: string
    readonly calls_used: number
    readonly calls_max: number
  }
  'concord.history_archives': {
    readonly history_archive_id: string
    readonly workspace_id: string
    readonly file: string
    readonly content_hash: Uint8Array
    readonly event_count: number
    readonly command_ids: readonly string[]
    readonly first_xid: string
    readonly first_seq: string
    readonly last_xid: string
    readonly last_seq: string
    readonly ended_before: Date
    readonly archived_at: Date
  }
  'concord.journal': {
    readonly entry_id: string
    readonly workspace_id: string
    readonly command_id: string | null
    readonly agent_run_id: string | null
    readonly swarm_run_id: string | null
    readonly step_index: number | null
    readonly trace_id: string
    readonly created_at: Date
    readonly seq: string
    readonly xid: string
    readonly events: JsonValue
    readonly audit_type: string | null
  }
  'concord.memory_candidates': {
    readonly memory_candidate_id: string
    readonly command_id: string
    readonly agent_run_id: string | null
    readonly subject_type: string
    readonly subject_id: string
    readonly scope: 'user' | 'team' | 'project' | 'workspace' | 'tenant' | 'agent_role' | 'workflow_type' | 'global'
    readonly memory_type:
      | 'preference'
      | 'workflow_preference'
      | 'business_rule'
      | 'safety_rule'
      | 'connector_hint'
      | 'approval_routing'
      | 'fact'
    readonly content: JsonValue
    readonly confidence: string | null
    readonly expires_at: Date | null
    readonly created_by: string
    readonly sensitivity: 'public' | 'internal' | 'confidential' | 'pii' | 'payment'
    readonly status: 'proposed' | 'awaiting_approval' | 'accepted' | 'rejected' | 'expired'
    readonly approval_id: string | null
    readonly memory_id: string | null
    readonly created_at: Date
    readonly decided_at: Date | null
    readonly workspace_id: string
    readonly fact_key: string
    readonly schema_name: string | null
    readonly task_type: string | null
    readonly connector: string | null
    readonly derived_from: readonly string[]
    readonly supersedes: string | null
    readonly erased_at: Date | null
    readonly labels: JsonValue
  }
  'concord.memory_consents': {
    readonly memory_consent_id: string
    readonly workspace_id: string
    readonly subject_type: string
    readonly subject_id: string
    readonly memory_type:
      | 'preference'
      | 'workflow_preference'
      | 'business_rule'
      | 'safety_rule'
      | 'connector_hint'
      | 'approval_routing'
      | 'fact'
    readonly scope: 'user' | 'team' | 'project' | 'workspace' | 'tenant' | 'agent_role' | 'workflow_type' | 'global'
    readonly granted_by: string
    readonly granted_at: Date
    readonly expires_at: Date | null
    readonly revoked_at: Date | null
    readonly revoked_by: string | null
  }
  'concord.memory_derivations': {
    readonly workspace_id: string
    readonly memory_id: string
    readonly source_memory_id: string
    readonly created_at: Date
  }
  'concord.memory_embeddings': {
    readonly workspace_id: string
    readonly memory_id: string
    readonly model: string
    readonly embedding: readonly number[] | null
    readonly created_at: Date
  }
  'concord.memory_erasures': {
    readonly memory_erasure_id: string
    readonly workspace_id: string
    readonly command_id: string
    readonly subject_type: string
    readonly subject_id: string | null
    readonly subject_digest: string
    readonly requested_by: string
    readonly requested_at: Date
    readonly outcome: 'erased' | 'dropped' | null
    readonly closed_at: Date | null
    readonly certificate: JsonValue | null
    readonly certificate_hash: string | null
  }
  'concord.memory_holds': {
    readonly memory_hold_id: string
    readonly workspace_id: string
    readonly subject_type: string
    readonly subject_id: string
    readonly reason: string
    readonly placed_by: string
    readonly placed_at: Date
    readonly released_at: Date | null
    readonly released_by: string | null
  }
  'concord.memory_reads': {
    readonly memory_read_id: string
    readonly workspace_id: string
    readonly reader: string
    readonly agent_run_id: string | null
    readonly query_kind: 'id' | 'subject' | 'task_type' | 'connector' | 'semantic'
    readonly memory_ids: readonly string[]
    readonly trace_id: string
    readonly read_at: Date
  }
  'concord.memory_records': {
    readonly memory_id: string
    readonly subject_type: string
    readonly subject_id: string
    readonly scope: 'user' | 'team' | 'project' | 'workspace' | 'tenant' | 'agent_role' | 'workflow_type' | 'global'
    readonly memory_type:
      | 'preference'
      | 'workflow_preference'
      | 'business_rule'
      | 'safety_rule'
      | 'connector_hint'
      | 'approval_routing'
      | 'fact'
    readonly content: JsonValue
    readonly confidence: string | null
    readonly status: 'active' | 'superseded' | 'expired' | 'deleted'
    readonly superseded_by: string | null
    readonly expires_at: Date | null
    readonly command_id: string | null
    readonly created_by: string
    readonly created_at: Date
    readonly updated_at: Date
    readonly workspace_id: string
    readonly fact_key: string
    readonly sensitivity: 'public' | 'internal' | 'confidential' | 'pii' | 'payment'
    readonly schema_name: string | null
    readonly task_type: string | null
    readonly connector: string | null
    readonly memory_candidate_id: string | null
    readonly labels: JsonValue
  }
  'concord.model_quarantines': {
    readonly quarantine_id: string
    readonly workspace_id: string
    readonly model: string
    readonly command_id: string
    readonly account_id: string
    readonly key: string
    readonly excess_units: string
    readonly created_at: Date
    readonly lifted_at: Date | null
    readonly lifted_by: string | null
    readonly lift_reason: string | null
  }
  'concord.notification_reads': {
    readonly connector_invocation_id: string
    readonly user_id: string
    readonly read_at: Date
    readonly workspace_id: string
  }
  'concord.signal_waits': {
    readonly domain_effect_id: string
    readonly workspace_id: string
    readonly command_id: string
    readonly name: string
    readonly key: string
    readonly sent_by: string | null
    readonly signal_id: string | null
    readonly created_at: Date
  }
  'concord.signals': {
    readonly signal_id: string
    readonly workspace_id: string
    readonly name: string
    readonly key: string
    readonly payload: JsonValue
    readonly sent_id: string
    readonly content_hash: string
    readonly sent_by: string
    readonly created_at: Date
    readonly taken_at: Date | null
  }
  'concord.stops': {
    readonly stop_id: string
    readonly workspace_id: string
    readonly command_id: string
    readonly scope: 'all' | 'agent' | 'run' | 'swarm'
    readonly target: string | null
    readonly ends_runs: boolean
    readonly reason: string
    readonly stopped_by: string
    readonly created_at: Date
    readonly lifted_at: Date | null
    readonly lifted_by: string | null
    readonly lift_reason: string | null
    readonly lift_command_id: string | null
  }
  'concord.swarm_runs': {
    readonly swarm_run_id: string
    readonly command_id: string
    readonly workflow_run_id: string | null
    readonly coordinator_agent_run_id: string | null
    readonly status:
      | 'created'
      | 'running'
      | 'joining'
      | 'succeeded'
      | 'failed'
      | 'cancelled'
      | 'partially_succeeded'
      | 'expired'
      | 'waiting_for_approval'
      | 'cancelling'
    readonly objective: string
    readonly execution_mode: 'sequential' | 'parallel' | 'competitive' | 'review_driven' | 'hierarchical'
    readonly join_strategy:
      | 'all_success'
      | 'first_success'
      | 'quorum'
      | 'coordinator_synthesis'
      | 'evaluator_selection'
      | 'human_review'
      | 'best_of_n'
      | 'map_reduce'
      | 'consensus'
      | 'ranked_review'
    readonly max_agents: number
    readonly max_depth: number
    readonly max_total_steps: number
    readonly max_cost_units: string | null
    readonly metadata: JsonValue
    readonly created_at: Date
    readonly started_at: Date | null
    readonly completed_at: Date | null
    readonly cancelled_at: Date | null
    readonly workspace_id: string
    readonly run_after: Date | null
    readonly turn_token: string | null
    readonly turn_until: Date | null
    readonly definition: JsonValue
    readonly plan: JsonValue | null
    readonly joined: JsonValue | null
    readonly end_reason:
      | 'joined'
      | 'human_cancelled'
      | 'max_agents'
      | 'max_depth'
      | 'max_total_steps'
      | 'max_cost_units'
      | 'deadline_passed'
      | 'spawn_denied'
      | 'child_failed'
      | 'plan_refused'
      | 'stopped'
      | null
    readonly deadline_at: Date | null
    readonly max_parallel: number | null
  }
  'flow.column_lineage': {
    readonly output_dataset_uuid: string
    readonly output_column: string
    readonly input_dataset_uuid: string
    readonly input_column: string
    readonly job_id: string | null
  }
  'flow.dag_current_versions': {
    readonly org_id: string
    readonly dag_name: string
    readonly dag_version_id: string
    readonly updated_at: Date
  }
  'flow.dag_version_datasets': {
    readonly dag_version_id: string
    readonly dataset_uuid: string
    readonly dataset_version: string
  }
  'flow.dag_versions': {
    readonly id: string
    readonly org_id: string
    readonly dag_name: string
    readonly yaml_hash: string
    readonly created_at: Date
    readonly workspace_id: string
    readonly command_id: string | null
  }
  'flow.dataset_partitions': {
    readonly dataset_version: string
    readonly partition_key: string
    readonly materialized_at: Date
    readonly generation: number
    readonly task_id: string
    readonly rows: string | null
    readonly metrics: JsonValue
  }
  'flow.dataset_versions': {
    readonly id: string
    readonly dataset_uuid: string
    readonly created_at: Date
    readonly storage_location: string
    readonly config_hash: string
    readonly schema_hash: string | null
    readonly range_start: string | null
    readonly range_end: string | null
  }
  'flow.datasets': {
    readonly id: string
    readonly org_id: string
    readonly name: string
    readonly producer_dag_name: string
    readonly producer_job_name: string
    readonly producer_output_index: number
    readonly storage: JsonValue
    readonly read_roles: readonly string[]
    readonly created_at: Date
    readonly updated_at: Date
  }
  'flow.jobs': {
    readonly id: string
    readonly org_id: string
    readonly name: string
    readonly dag_name: string
    readonly dag_version_id: string
    readonly activation: 'source' | 'reactive'
    readonly runtime: 'lambda' | 'ecs_platform' | 'ecs_udf' | 'dispatcher'
    readonly operator: string
    readonly source: JsonValue | null
    readonly bootstrap: JsonValue | null
    readonly execution_strategy: 'PerUpdate' | 'PerPartition' | null
    readonly idle_timeout: string | null
    readonly config: JsonValue
    readonly config_hash: string
    readonly input_datasets: readonly string[] | null
    readonly output_datasets: readonly string[] | null
    readonly update_strategy: 'append' | 'replace'
    readonly unique_key: readonly string[] | null
    readonly scaling: JsonValue | null
    readonly timeout_seconds: number | null
    readonly heartbeat_timeout_seconds: number | null
    readonly max_attempts: number
    readonly created_at: Date
    readonly updated_at: Date
    readonly inputs_when: 'any' | 'all'
    readonly output_versions: readonly string[]
  }
  'flow.operator_state': {
    readonly org_id: string
    readonly job_id: string
    readonly state_key: string
    readonly state: JsonValue
    readonly updated_at: Date
  }
  'flow.outbox': {
    readonly id: string
    readonly kind: 'enqueue_task' | 'route_event' | 'emit_lineage'
    readonly payload: JsonValue
    readonly status: 'Pending' | 'Processing' | 'Done' | 'Failed'
    readonly available_at: Date
    readonly attempts: number
    readonly last_error: string | null
    readonly created_at: Date
    readonly processed_at: Date | null
  }
  'flow.task_inputs': {
    readonly task_id: string
    readonly input_dataset_uuid: string
    readonly input_partition_key: string
    readonly input_version: Date
  }
  'flow.tasks': {
    readonly id: string
    readonly job_id: string
    readonly dedupe_key: string | null
    readonly status: 'Queued' | 'Running' | 'Completed' | 'Failed' | 'Canceled'
    readonly attempt: number
    readonly partitions: readonly string[] | null
    readonly input_versions: JsonValue | null
    readonly outputs: JsonValue | null
    readonly worker_id: string | null
    readonly lease_token: string | null
    readonly lease_expires_at: Date | null
    readonly last_heartbeat: Date | null
    readonly started_at: Date | null
    readonly completed_at: Date | null
    readonly next_retry_at: Date | null
    readonly error_message: string | null
    readonly created_at: Date
    readonly caused_by: JsonValue | null
    readonly memo_of: string | null
    readonly command_id: string | null
  }
  'identity.access_version': {
    readonly only_row: boolean
    readonly version: string
  }
  'identity.api_keys': {
    readonly id: string
    readonly org_id: string
    readonly user_id: string
    readonly workspace_id: string | null
    readonly name: string
    readonly prefix: string
    readonly key_hash: Uint8Array
    readonly role: 'reader' | 'writer' | 'admin'
    readonly created_at: Date
    readonly expires_at: Date | null
    readonly revoked_at: Date | null
    readonly last_used_at: Date | null
    readonly is_invitation: boolean
    readonly agent: string | null
    readonly tools: readonly string[] | null
    readonly is_agent: boolean
    readonly issuers: readonly string[]
    readonly is_held: boolean
  }
  'identity.delegations': {
    readonly id: string
    readonly org_id: string
    readonly from_user_id: string
    readonly to_user_id: string
    readonly until: Date
    readonly made_by: readonly string[]
    readonly created_at: Date
    readonly ended_at: Date | null
  }
  'identity.installation': {
    readonly only_row: boolean
    readonly secret: string
  }
  'identity.messages': {
    readonly id: string
    readonly org_id: string
    readonly user_id: string
    readonly subject: string
    readonly text: string
    readonly created_at: Date
    readonly read_at: Date | null
  }
  'identity.org_role_memberships': {
    readonly role_id: string
    readonly user_id: string
    readonly created_at: Date
    readonly org_id: string
    readonly granted_by: readonly string[]
  }
  'identity.org_roles': {
    readonly id: string
    readonly org_id: string
    readonly slug: string
    readonly name: string
    readonly created_at: Date
  }
  'identity.orgs': {
    readonly id: string
    readonly name: string
    readonly slug: string
    readonly settings: JsonValue
    readonly created_at: Date
  }
  'identity.users': {
    readonly id: string
    readonly org_id: string
    readonly external_id: string
    readonly email: string | null
    readonly role: 'reader' | 'writer' | 'admin'
    readonly created_at: Date
    readonly deactivated_at: Date | null
    readonly issuers: readonly string[]
  }
  'identity.workspaces': {
    readonly id: string
    readonly org_id: string
    readonly slug: string
    readonly name: string
    readonly owner_user_id: string | null
    readonly access_role_id: string | null
    readonly created_at: Date
    readonly archived_at: Date | null
  }
  'missions.agent_reports': {
    readonly id: number
    readonly workspace_id: string
    readonly agent_id: number | null
    readonly report_type: 'standup' | 'research' | 'incident' | 'summary' | 'delivery' | 'audit'
    readonly title: string
    readonly artifact_id: string | null
    readonly heartbeat_result_id: number | null
    readonly created_at: Date
    readonly orchestration_task_id: string | null
  }
  'missions.agents': {
    readonly id: number
    readonly workspace_id: string
    readonly name: string
    readonly adapter: string
    readonly manifest_name: string | null
    readonly created_at: Date
  }
  'missions.board_tasks': {
    readonly id: number
    readonly workspace_id: string
    readonly title: string
    readonly description: string | null
    readonly status: 'inbox' | 'assigned' | 'in_progress' | 'review' | 'done'
    readonly priority: string
    readonly review_mode: 'manual' | 'auto'
    readonly assigned_agent_id: number | null
    readonly created_by_type: string
    readonly created_by_id: string
    readonly parent_task_id: number | null
    readonly source_type: string
    readonly source_id: string | null
    readonly tags: JsonValue
    readonly planning_data: JsonValue
    readonly result: string | null
    readonly error_message: string | null
    readonly started_at: Date | null
    readonly completed_at: Date | null
    readonly created_at: Date
    readonly updated_at: Date
  }
  'missions.orchestration_auxiliaries': {
    readonly key: string
    readonly run_id: string
    readonly workspace_id: string
    readonly kind: 'planner' | 'before_run' | 'after_run' | 'verifier'
    readonly task_id: string | null
    readonly attempt: number | null
    readonly command_id: string | null
    readonly cost: string
    readonly tokens: number
    readonly error: string | null
    readonly settled_at: Date | null
  }
  'missions.orchestration_events': {
    readonly id: string
    readonly run_id: string
    readonly task_id: string | null
    readonly event_type:
      | 'run_created'
      | 'run_planning_started'
      | 'run_plan_ready'
      | 'run_approved'
      | 'run_rejected'
      | 'run_started'
      | 'run_paused'
      | 'run_resumed'
      | 'run_budget_warning'
      | 'run_budget_exceeded'
      | 'run_budget_increased'
      | 'run_completed'
      | 'run_failed'
      | 'run_cancelled'
      | 'task_created'
      | 'task_queued'
      | 'task_assigned'
      | 'task_started'
      | 'task_continuing'
      | 'task_resumed'
      | 'task_output_submitted'
      | 'task_verification_started'
      | 'task_verification_passed'
      | 'task_verification_failed'
      | 'task_human_review_requested'
      | 'task_human_approved'
      | 'task_human_rejected'
      | 'task_retrying'
      | 'task_crashed'
      | 'task_failed'
      | 'task_skipped'
      | 'task_cancelled'
      | 'stall_detected'
      | 'model_fallback'
      | 'cost_snapshot'
      | 'plan_change_rejected'
    readonly payload: JsonValue
    readonly actor_type: 'system' | 'coordinator' | 'agent' | 'verifier' | 'human' | 'reconciler'
    readonly actor_id: string | null
    readonly created_at: Date
    readonly xid: string
  }
  'missions.orchestration_events_archive': {
    readonly id: string
    readonly run_id: string
    readonly task_id: string | null
    readonly event_type:
      | 'run_created'
      | 'run_planning_started'
      | 'run_plan_ready'
      | 'run_approved'
      | 'run_rejected'
      | 'run_started'
      | 'run_paused'
      | 'run_resumed'
      | 'run_budget_warning'
      | 'run_budget_exceeded'
      | 'run_budget_increased'
      | 'run_completed'
      | 'run_failed'
      | 'run_cancelled'
      | 'task_created'
      | 'task_queued'
      | 'task_assigned'
      | 'task_started'
      | 'task_continuing'
      | 'task_resumed'
      | 'task_output_submitted'
      | 'task_verification_started'
      | 'task_verification_passed'
      | 'task_verification_failed'
      | 'task_human_review_requested'
      | 'task_human_approved'
      | 'task_human_rejected'
      | 'task_retrying'
      | 'task_crashed'
      | 'task_failed'
      | 'task_skipped'
      | 'task_cancelled'
      | 'stall_detected'
      | 'model_fallback'
      | 'cost_snapshot'
      | 'plan_change_rejected'
    readonly payload: JsonValue
    readonly actor_type: 'system' | 'coordinator' | 'agent' | 'verifier' | 'human' | 'reconciler'
    readonly actor_id: string | null
    readonly created_at: Date
  }
  'missions.orchestration_runs': {
    readonly id: string
    readonly workspace_id: string
    readonly title: string
    readonly description: string | null
    readonly goal: string
    readonly state:
      | 'pending'
      | 'planning'
      | 'awaiting_approval'
      | 'running'
      | 'paused'
      | 'budget_exceeded'
      | 'completed'
      | 'failed'
      | 'cancelled'
    readonly state_type: 'pending' | 'running' | 'paused' | 'terminal'
    readonly plan: JsonValue | null
    readonly config: JsonValue
    readonly result_summary: string | null
    readonly error_message: string | null
    readonly created_by: string
    readonly coordinator_agent_id: number | null
    readonly total_tokens: number
    readonly total_cost: string
    readonly task_count: number
    readonly tasks_completed: number
    readonly tasks_failed: number
    readonly started_at: Date | null
    readonly completed_at: Date | null
    readonly duration_ms: string | null
    readonly version_id: number
    readonly created_at: Date
    readonly updated_at: Date
    readonly tags: JsonValue
    readonly command_id: string
    readonly gate_command_id: string | null
    readonly run_after: Date | null
    readonly account_id: string | null
    readonly forked_from_id: string | null
    readonly report_id: number | null
  }
  'missions.orchestration_task_dependencies': {
    readonly task_id: string
    readonly depends_on_id: string
    readonly dependency_type: 'data' | 'ordering'
    readonly created_at: Date
    readonly run_id: string
  }
  'missions.orchestration_tasks': {
    readonly id: string
    readonly run_id: string
    readonly workspace_id: string
    readonly sequence_number: number
    readonly title: string
    readonly description: string | null
    readonly task_type:
      | 'research'
      | 'analysis'
      | 'writing'
      | 'coding'
      | 'verification'
      | 'review'
      | 'synthesis'
      | 'other'
    readonly state:
      | 'pending'
      | 'queued'
      | 'awaiting_retry'
      | 'assigned'
      | 'running'
      | 'continuing'
      | 'verifying'
      | 'awaiting_human'
      | 'completed'
      | 'failed'
      | 'cancelled'
      | 'skipped'
    readonly state_type: 'pending' | 'running' | 'paused' | 'terminal'
    readonly trigger_rule: 'all_success' | 'all_done' | 'none_failed' | 'always'
    readonly agent_id: number | null
    readonly agent_type: 'roster' | 'contractor' | null
    readonly model_override: string | null
    readonly tools_requested: JsonValue | null
    readonly success_criteria: string | null
    readonly output_summary: string | null
    readonly output_ref: string | null
    readonly verifier_score: string | null
    readonly verified_by: string | null
    readonly error_message: string | null
    readonly attempt_number: number
    readonly continuation_count: number
    readonly tokens_used: number
    readonly cost: string
    readonly board_task_id: number | null
    readonly started_at: Date | null
    readonly completed_at: Date | null
    readonly duration_ms: string | null
    readonly version_id: number
    readonly created_at: Date
    readonly updated_at: Date
    readonly due_at: Date | null
    readonly last_heartbeat_at: Date | null
    readonly spec: JsonValue
    readonly remaining: number
    readonly command_id: string | null
    readonly review_command_id: string | null
    readonly output_checksum: string | null
    readonly checks_passed: number
    readonly lease_token: string | null
    readonly lease_until: Date | null
    readonly worker_id: string | null
    readonly submission: JsonValue | null
    readonly carried_from_id: string | null
    readonly returns: number
    readonly attempt_started_at: Date | null
    readonly failure_type: 'infrastructure' | 'quality' | null
    readonly receipt: JsonValue | null
  }
  'missions.workflow_recipes': {
    readonly id: number
    readonly workspace_id: string
    readonly name: string
    readonly description: string | null
    readonly steps: JsonValue
    readonly execution_config: JsonValue
    readonly template_definition: JsonValue
    readonly template_id: string | null
    readonly owner_type: string
    readonly tags: JsonValue
    readonly created_by: string
    readonly created_at: Date
  }
  'schedules.command_schedules': {
    readonly schedule_id: string
    readonly workspace_id: string
    readonly name: string
    readonly origin: 'catalog' | 'person'
    readonly command_type: string
    readonly payload: JsonValue
    readonly cron: string
    readonly time_zone: string
    readonly queue: string
    readonly overlap: 'skip' | 'queue' | 'allow'
    readonly misfire: 'skip' | 'last' | 'all'
    readonly jitter_ms: number
    readonly enabled: boolean
    readonly created_by: string
    readonly created_role: 'system' | 'writer' | 'admin'
    readonly created_at: Date
    readonly updated_at: Date
    readonly removed_at: Date | null
    readonly last_due_at: Date | null
    readonly last_command_id: string | null
    readonly last_refusal: string | null
  }
}
