-- 0002 scheduler_guards: what never changes, what is written once, and which moves a state may make.
-- Why: these rules hold for every program that opens the file, a repair by hand included, not only for our own code.
-- A trigger on `update of <columns>` costs nothing for statements that name other columns.
-- Locks: the whole file while it runs. Reverse: drop the triggers; rows are untouched.

create trigger jobs_created_tg before insert on jobs
  when new.status <> 'QUEUED'
begin select raise(abort, 'jobs: a job is created QUEUED'); end;

create trigger jobs_identity_tg before update of job_id, template_id, schedule_id, group_id, job_type, retry_of, created_at,
    queued_at, group_order, reservation_id, not_before on jobs
  when new.job_id is not old.job_id or new.template_id is not old.template_id or new.schedule_id is not old.schedule_id
    or new.group_id is not old.group_id or new.job_type is not old.job_type or new.retry_of is not old.retry_of
    or new.created_at is not old.created_at or new.queued_at is not old.queued_at or new.group_order is not old.group_order
    or new.reservation_id is not old.reservation_id or new.not_before is not old.not_before
begin select raise(abort, 'jobs: where a job comes from never changes'); end;

create trigger jobs_moves_tg before update of status on jobs
  when not (old.status = 'QUEUED' and new.status in ('RUNNING', 'CANCELLED'))
begin select raise(abort, 'jobs: only QUEUED moves, to RUNNING or CANCELLED'); end;

create trigger jobs_queued_only_tg before update of params, priority, position, hold on jobs
  when (old.status <> 'QUEUED' or new.status <> 'QUEUED')
    and (new.params is not old.params or new.priority is not old.priority or new.position is not old.position
      or new.hold is not old.hold)
begin select raise(abort, 'jobs: params, priority, position and hold change only while QUEUED'); end;

create trigger jobs_write_once_tg before update of started_at, finished_at, cancelled_at, worker_id on jobs
  when (old.started_at is not null and new.started_at is not old.started_at)
    or (old.finished_at is not null and new.finished_at is not old.finished_at)
    or (old.cancelled_at is not null and new.cancelled_at is not old.cancelled_at)
    or (old.worker_id is not null and new.worker_id is not old.worker_id)
begin select raise(abort, 'jobs: times and worker_id are written once'); end;

create trigger jobs_kept_tg before delete on jobs
begin select raise(abort, 'jobs: rows are kept'); end;

create trigger job_runs_created_tg before insert on job_runs
  when new.status is not null
    or not exists (select 1 from jobs where jobs.job_id = new.job_id and jobs.status = 'RUNNING'
                   and jobs.params = new.params_snapshot and jobs.template_id is new.template_id)
begin select raise(abort, 'job_runs: a run starts open, for a RUNNING job, with the params of that job'); end;

create trigger job_runs_identity_tg before update of run_id, job_id, template_id, params_snapshot, started_at on job_runs
  when new.run_id is not old.run_id or new.job_id is not old.job_id or new.template_id is not old.template_id
    or new.params_snapshot is not old.params_snapshot or new.started_at is not old.started_at
begin select raise(abort, 'job_runs: where a run comes from never changes'); end;

create trigger job_runs_outcome_tg before update of status on job_runs
  when old.status is not null or new.status is null
begin select raise(abort, 'job_runs: an open run gets one outcome, once'); end;

create trigger job_runs_write_once_tg before update of finished_at, exit_code, error, log_path, error_class, retry_decided,
    process_pid, process_started_at, process_boot_id on job_runs
  when (old.finished_at is not null and new.finished_at is not old.finished_at)
    or (old.exit_code is not null and new.exit_code is not old.exit_code)
    or (old.error is not null and new.error is not old.error)
    or (old.log_path is not null and new.log_path is not old.log_path)
    or (old.error_class is not null and new.error_class is not old.error_class)
    or (old.retry_decided is not null and new.retry_decided is not old.retry_decided)
    or (old.process_pid is not null and (new.process_pid is not old.process_pid
      or new.process_started_at is not old.process_started_at or new.process_boot_id is not old.process_boot_id))
begin select raise(abort, 'job_runs: the facts of a run are written once'); end;

create trigger job_runs_closed_tg before update of log_path, process_pid, error_class on job_runs
  when old.status is not null and (new.log_path is not old.log_path or new.process_pid is not old.process_pid
    or new.error_class is not old.error_class)
begin select raise(abort, 'job_runs: log_path, process and error_class are not set after the outcome'); end;

create trigger job_runs_artifacts_created_tg before insert on job_runs
  when new.artifacts <> '[]' and exists (select 1 from json_each(new.artifacts) where type <> 'text')
begin select raise(abort, 'job_runs: artifacts is a list of paths'); end;

create trigger job_runs_artifacts_tg before update of artifacts on job_runs
  when new.artifacts is not old.artifacts
    and (exists (select 1 from json_each(new.artifacts) where type <> 'text')
      or exists (select 1 from json_each(old.artifacts) was
                 where was.value is not (select now.value from json_each(new.artifacts) now where now.key = was.key)))
begin select raise(abort, 'job_runs: artifacts are only appended'); end;

create trigger job_runs_kept_tg before delete on job_runs
begin select raise(abort, 'job_runs: rows are kept'); end;

create trigger direct_reservations_created_tg before insert on direct_reservations
  when new.status <> 'ACTIVE'
begin select raise(abort, 'direct_reservations: a reservation is created ACTIVE'); end;

create trigger direct_reservations_identity_tg before update of reservation_id, reserved_at, reserved_by on direct_reservations
  when new.reservation_id is not old.reservation_id or new.reserved_at is not old.reserved_at
    or new.reserved_by is not old.reserved_by
begin select raise(abort, 'direct_reservations: whose reservation it is never changes'); end;

create trigger direct_reservations_moves_tg before update of status on direct_reservations
  when not (old.status = 'ACTIVE' and new.status in ('RELEASED', 'EXPIRED'))
begin select raise(abort, 'direct_reservations: only ACTIVE moves, to RELEASED or EXPIRED'); end;

create trigger direct_reservations_renewal_tg before update of expires_at, renewed_at, ended_at on direct_reservations
  when old.status <> 'ACTIVE' or new.expires_at < old.expires_at
begin select raise(abort, 'direct_reservations: an ACTIVE reservation is only made longer'); end;

create trigger direct_reservations_kept_tg before delete on direct_reservations
begin select raise(abort, 'direct_reservations: rows are kept'); end;

create trigger schedules_identity_tg before update of schedule_id, created_at on schedules
  when new.schedule_id is not old.schedule_id or new.created_at is not old.created_at
begin select raise(abort, 'schedules: schedule_id and created_at never change'); end;

create trigger schedules_due_tg before update of last_due_at, deleted_at on schedules
  when (old.last_due_at is not null and (new.last_due_at is null or new.last_due_at < old.last_due_at))
    or (old.deleted_at is not null and new.deleted_at is not old.deleted_at)
begin select raise(abort, 'schedules: what is decided stays decided'); end;

create trigger schedules_kept_tg before delete on schedules
begin select raise(abort, 'schedules: rows are kept'); end;

create trigger job_templates_identity_tg before update of template_id, created_at on job_templates
  when new.template_id is not old.template_id or new.created_at is not old.created_at
begin select raise(abort, 'job_templates: template_id and created_at never change'); end;

create trigger job_groups_identity_tg before update of group_id, mode, on_failure, created_at, halted_at on job_groups
  when new.group_id is not old.group_id or new.mode is not old.mode or new.on_failure is not old.on_failure
    or new.created_at is not old.created_at or (old.halted_at is not null and new.halted_at is not old.halted_at)
begin select raise(abort, 'job_groups: a group keeps its rules'); end;

create trigger schedule_firings_final_tg before update on schedule_firings
begin select raise(abort, 'schedule_firings: a due time is decided once'); end;

create trigger schedule_firings_kept_tg before delete on schedule_firings
begin select raise(abort, 'schedule_firings: rows are kept'); end;

create trigger notifications_identity_tg before update of seq, notification_id, kind, job_id, payload, created_at on notifications
  when new.seq is not old.seq or new.notification_id is not old.notification_id or new.kind is not old.kind
    or new.job_id is not old.job_id or new.payload is not old.payload or new.created_at is not old.created_at
begin select raise(abort, 'notifications: what is told never changes'); end;

create trigger notifications_moves_tg before update of status on notifications
  when old.status <> 'PENDING' and new.status is not old.status
begin select raise(abort, 'notifications: only PENDING moves'); end;
-- down
drop trigger notifications_moves_tg;
drop trigger notifications_identity_tg;
drop trigger schedule_firings_kept_tg;
drop trigger schedule_firings_final_tg;
drop trigger job_groups_identity_tg;
drop trigger job_templates_identity_tg;
drop trigger schedules_kept_tg;
drop trigger schedules_due_tg;
drop trigger schedules_identity_tg;
drop trigger direct_reservations_kept_tg;
drop trigger direct_reservations_renewal_tg;
drop trigger direct_reservations_moves_tg;
drop trigger direct_reservations_identity_tg;
drop trigger direct_reservations_created_tg;
drop trigger job_runs_kept_tg;
drop trigger job_runs_artifacts_tg;
drop trigger job_runs_artifacts_created_tg;
drop trigger job_runs_closed_tg;
drop trigger job_runs_write_once_tg;
drop trigger job_runs_outcome_tg;
drop trigger job_runs_identity_tg;
drop trigger job_runs_created_tg;
drop trigger jobs_kept_tg;
drop trigger jobs_write_once_tg;
drop trigger jobs_queued_only_tg;
drop trigger jobs_moves_tg;
drop trigger jobs_identity_tg;
drop trigger jobs_created_tg;
