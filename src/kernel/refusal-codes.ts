/**
 * Every refusal code of Concord, with its kind. The API turns a kind into an HTTP status, the CLI into an exit code;
 * a code never changes its meaning and is never reused.
 */
export type RefusalKind =
  | 'malformed' // 400, exit 65: the bytes make no sense
  | 'unauthenticated' // 401, exit 77
  | 'forbidden' // 403, exit 77
  | 'not_found' // 404, exit 65: also what a foreign id answers
  | 'method' // 405, exit 64
  | 'timeout' // 408, exit 75
  | 'conflict' // 409, exit 75: not in this state, or not now
  | 'too_large' // 413, exit 65
  | 'unsupported' // 415, exit 65
  | 'invalid' // 422, exit 65: well-formed but not allowed
  | 'rate' // 429, exit 75
  | 'headers_too_large' // 431, exit 65
  | 'unavailable' // 503, exit 69
  | 'usage' // CLI only, exit 64
  | 'configuration' // start-up only, exit 78
  | 'internal' // 500, exit 70: a fault of ours

export const refusalCodes = {
  // machines and rows
  'machine.state.unknown': 'invalid',
  'machine.move.illegal': 'conflict',
  'machine.actor.not_allowed': 'forbidden',
  'row.not_found': 'not_found',
  'row.conflict': 'conflict',
  'lease.lost': 'conflict',
  'event.type.unknown': 'internal',

  // the store's mechanisms
  overloaded: 'unavailable',
  key_reused: 'invalid',
  'store.lane.closed': 'unavailable',

  // Postgres: the embedded server and the checks of any server
  'store.home.not_writable': 'configuration',
  'store.home.not_reachable': 'configuration',
  'store.home.network_mount': 'configuration',
  'store.home.not_ours': 'configuration',
  'store.home.wrong_version': 'configuration',
  'store.home.busy': 'conflict',
  'store.home.foreign_server': 'conflict',
  'store.root.no_user': 'configuration',
  'store.binaries.missing': 'configuration',
  'store.initdb.failed': 'unavailable',
  'store.port.invalid': 'configuration',
  'store.port.taken': 'configuration',
  'store.server.start_failed': 'unavailable',
  'store.server.unreachable': 'unavailable',
  'store.server.login_refused': 'configuration',
  'store.server.version_unsupported': 'configuration',
  'store.server.unsafe_settings': 'configuration',
  'store.server.read_only': 'unavailable',
  'store.url.invalid': 'configuration',
  storage_full: 'unavailable',

  // migrations
  'store.schema.newer': 'configuration',
  'store.migration.changed': 'configuration',
  'store.migration.gap': 'configuration',
  'store.migration.malformed': 'configuration',
  'store.migration.target': 'usage',
  'store.migration.locked': 'unavailable',
  'store.migration.blocked': 'unavailable',
  // app and command line
  'app.setting.invalid': 'configuration',
  'app.setting.unknown': 'configuration',
  'app.home.not_writable': 'configuration',
  'app.unhealthy': 'configuration',
  'app.port.taken': 'configuration',
  'app.project.invalid': 'configuration',
  'app.server.unreachable': 'unavailable',
  'app.server.version': 'unavailable',
  'cli.usage': 'usage',
  'cli.confirmation_missing': 'usage',
  'cli.file.unreadable': 'forbidden',
  'cli.file.invalid': 'malformed',
  'cli.key.missing': 'unauthenticated',
  // command line: waiting for a command
  'cli.wait.ended': 'timeout',
  'cli.command.waiting': 'conflict',
  'cli.command.not_succeeded': 'invalid',

  // values: JSON bodies, keys, ids, money, times, cron
  body_missing: 'malformed',
  body_too_large: 'too_large',
  json_syntax: 'malformed',
  json_not_object: 'malformed',
  json_too_deep: 'malformed',
  json_too_many_keys: 'malformed',
  json_duplicate_key: 'malformed',
  key_forbidden: 'malformed',
  nul_character: 'malformed',
  invalid_unicode: 'malformed',
  number_out_of_range: 'malformed',
  id_format: 'malformed',
  key_too_long: 'invalid',
  key_characters: 'invalid',
  'idempotency.key.required': 'invalid',
  'idempotency.template.invalid': 'invalid',
  'idempotency.field.missing': 'invalid',
  limit_range: 'invalid',
  date_invalid: 'invalid',
  time_range: 'invalid',
  duration: 'invalid',
  cron_fields: 'invalid',
  cron_value: 'invalid',
  cron_never: 'invalid',
  timezone_unknown: 'invalid',
  'money.format': 'invalid',
  'money.range': 'invalid',
  'lease.held': 'conflict',

  // identity and the HTTP API
  unauthenticated: 'unauthenticated',
  workspace_unknown: 'not_found',
  'identity.role.insufficient': 'forbidden',
  'identity.provider.unavailable': 'unavailable',
  'identity.org.slug_taken': 'conflict',
  'identity.org.not_found': 'not_found',
  'identity.workspace.slug_taken': 'conflict',
  'identity.user.external_id_taken': 'conflict',
  'identity.user.not_found': 'not_found',
  'identity.org_role.slug_taken': 'conflict',
  'identity.org_role.not_found': 'not_found',
  'identity.key.not_found': 'not_found',
  'identity.key.role_too_high': 'forbidden',
  'identity.key.workspace_bound': 'forbidden',
  unknown_field: 'invalid',
  field_not_allowed: 'invalid',
  cursor_invalid: 'malformed',
  media_type: 'unsupported',
  encoding_unsupported: 'unsupported',
  request_timeout: 'timeout',
  'api.field.missing': 'invalid',
  'api.field.type': 'invalid',
  'api.field.value': 'invalid',
  'api.route.not_found': 'not_found',
  'api.method.not_allowed': 'method',
  'api.request.malformed': 'malformed',
  'api.headers.too_large': 'headers_too_large',
  'api.host.not_allowed': 'forbidden',
  'api.origin.not_allowed': 'forbidden',
  'api.rate.exceeded': 'rate',
  'api.streams.exceeded': 'rate',
  database_unavailable: 'unavailable',
  database_read_only: 'unavailable',
  database_busy: 'unavailable',
  database_conflict: 'unavailable',
  database_timeout: 'unavailable',
  internal_error: 'internal',

  // graphs, retries, policies, compensation
  dag_cycle: 'invalid',
  dag_unknown_ref: 'invalid',
  dag_edge: 'invalid',
  dag_size: 'invalid',
  'dag.node.duplicate': 'invalid',
  'retry.policy.unknown': 'configuration',
  'retry.policy.duplicate': 'configuration',
  'retry.policy.invalid': 'invalid',
  'retry.key.missing': 'invalid',
  'retry.chain.cycle': 'internal',
  'retry.chain.missing_parent': 'internal',
  'policy.rule.unknown': 'invalid',
  'policy.rule.duplicate': 'invalid',
  'policy.rule.invalid': 'invalid',
  'saga.catalog.invalid': 'configuration',
  // the runtime
  'runtime.capability.missing': 'configuration',
  'runtime.queue.unknown': 'configuration',
  'runtime.queue.invalid': 'configuration',
  'runtime.kind.unknown': 'configuration',
  'runtime.engine.unavailable': 'unavailable',
  'runtime.schedule.invalid': 'invalid',
  'runtime.process.not_stuck': 'conflict',
  // approvals
  approval_expired: 'conflict',
  approval_decided: 'conflict',
  self_approval: 'forbidden',
  agents_cannot_decide: 'forbidden',
  decision_value: 'invalid',
  payload_changed: 'conflict',
  'approvals.approval.cancelled': 'conflict',
  'approvals.approval.missing': 'conflict',
  'approvals.approver.not_asked': 'forbidden',
  'approvals.approver.unresolved': 'invalid',
  'approvals.quorum.unreachable': 'invalid',
  'approvals.vote.repeated': 'conflict',
  'approvals.reason.missing': 'invalid',
  'approvals.edits.not_allowed': 'invalid',
  'approvals.type.unknown': 'invalid',
  'approvals.field.missing': 'invalid',
  'approvals.packet.incomplete': 'invalid',

  // scheduler
  'scheduler.file.locked': 'conflict',
  'scheduler.file.malformed': 'malformed',
  'scheduler.file.network_mount': 'configuration',
  'scheduler.file.read_only': 'configuration',
  'scheduler.file.foreign': 'configuration',
  'scheduler.file.newer': 'configuration',
  'scheduler.file.older': 'configuration',
  'scheduler.file.changed': 'configuration',
  'scheduler.file.io': 'unavailable',
  'scheduler.setting.invalid': 'configuration',
  'scheduler.not_owner': 'conflict',
  'scheduler.not_recovered': 'conflict',
  'scheduler.job.not_found': 'not_found',
  'scheduler.job.not_queued': 'conflict',
  'scheduler.job_type.unknown': 'invalid',
  'scheduler.queue.other_priority': 'conflict',
  'scheduler.run.not_found': 'not_found',
  'scheduler.run.finished': 'conflict',
  'scheduler.template.not_found': 'not_found',
  'scheduler.template.name_taken': 'conflict',
  'scheduler.template.in_use': 'conflict',
  'scheduler.params.invalid': 'invalid',
  'scheduler.schema.keyword': 'invalid',
  'scheduler.group.not_found': 'not_found',
  'scheduler.group.halted': 'conflict',
  'scheduler.schedule.not_found': 'not_found',
  'scheduler.schedule.name_taken': 'conflict',
  'scheduler.schedule.not_due': 'conflict',
  'scheduler.reservation.busy': 'conflict',
  'scheduler.reservation.not_found': 'not_found',
  'scheduler.reservation.ended': 'conflict',
  'scheduler.reservation.slot_taken': 'conflict',
  'scheduler.reservation.job_in_flight': 'conflict',
  'scheduler.notification.not_found': 'not_found',
  'scheduler.notification.undelivered': 'unavailable',
  'scheduler.runner.invalid': 'invalid',
  'scheduler.job.not_running': 'conflict',
  'scheduler.job.not_failed': 'conflict',
  'scheduler.job.failed': 'invalid',
  'scheduler.log.not_found': 'not_found',
  schema_limits: 'invalid',

  // commands: the catalog, submit, life, webhooks, YAML forms
  task_unknown: 'not_found',
  ingress_not_allowed: 'forbidden',
  mode_reserved: 'invalid',
  signature: 'unauthenticated',
  timestamp: 'unauthenticated',
  encoding: 'malformed',
  yaml_syntax: 'malformed',
  yaml_duplicate_key: 'malformed',
  yaml_aliases: 'malformed',
  yaml_too_deep: 'malformed',
  yaml_tag: 'malformed',
  yaml_version: 'malformed',
  yaml_one_document: 'malformed',
  'commands.catalog.invalid': 'configuration',
  'commands.definition.invalid': 'invalid',
  'commands.payload.malformed': 'invalid',
  'commands.payload.secret': 'invalid',
  'commands.command.not_found': 'not_found',
  'commands.command.not_waiting': 'conflict',
  'commands.command.not_failed': 'conflict',
  'commands.command.moved': 'conflict',
  'commands.retry.exhausted': 'conflict',
  'commands.action.not_allowed': 'forbidden',
  'commands.effect.key_taken': 'conflict',
  'commands.plan.invalid': 'invalid',
  'commands.dependency.not_found': 'not_found',
  'commands.webhook.source_unknown': 'not_found',

  // connectors: declarations, secret references, the list of calls
  secret_in_manifest: 'invalid',
  'connectors.declaration.invalid': 'configuration',
  'connectors.template.unfilled': 'invalid',
  'connectors.secret.reference': 'invalid',
  'connectors.secret.no_source': 'configuration',
  'connectors.secret.missing': 'configuration',
  'connectors.secret.unavailable': 'unavailable',
  'connectors.connector.not_found': 'not_found',
  'connectors.address.not_allowed': 'forbidden',
  'connectors.path.not_allowed': 'forbidden',
} as const satisfies Record<string, RefusalKind>

export type RefusalCode = keyof typeof refusalCodes

export function kindOf(code: RefusalCode): RefusalKind {
  return refusalCodes[code]
}

/** For codes that come from outside, such as an answer of another server. */
export function isRefusalCode(code: string): code is RefusalCode {
  return Object.hasOwn(refusalCodes, code)
}
