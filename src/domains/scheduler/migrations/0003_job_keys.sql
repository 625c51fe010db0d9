-- 0003 job_keys: the keys by which callers repeat a submit.
-- Why: a caller whose answer was lost could only submit the job again, and it ran twice.
-- A table of its own: most jobs have no key, and the columns of a job say what it does. The row is written with its job, or not at all.
-- Locks: none (new table). Reverse: drop it.
create table job_keys (
  idempotency_key text not null,
  fingerprint     text not null,
  job_id          text not null,
  constraint job_keys_pk primary key (idempotency_key),
  constraint job_keys_job_fk foreign key (job_id) references jobs (job_id),
  constraint job_keys_idempotency_key_ck check (idempotency_key <> ''),
  constraint job_keys_fingerprint_ck check (length(fingerprint) = 64)
) strict, without rowid;

-- down
drop table job_keys;
