-- 0004 scheduler_requesters: who asked for a job or a schedule over HTTP.
-- Why: a job runs a program on this machine, so the row says who is responsible for it. Null: a local program, which has the file anyway.
-- Locks: the whole file while it runs. Reverse: drop the columns.

alter table jobs add column requested_by text;
-- A job that a schedule creates has the requester of the schedule.
alter table schedules add column requested_by text;

create trigger jobs_requester_tg before update of requested_by on jobs
  when new.requested_by is not old.requested_by
begin select raise(abort, 'jobs: who asked for a job never changes'); end;

-- down

drop trigger jobs_requester_tg;
alter table schedules drop column requested_by;
alter table jobs drop column requested_by;
