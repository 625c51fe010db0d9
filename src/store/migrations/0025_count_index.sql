-- 0025 count_index: the counts of a workspace are read from the index of states alone.
-- Why: GET /stats counted by state and by error class and read every command of 30 days for it (450 ms at 200,000 commands).
-- The index carries the error class, which only a command that failed has. An update that changes the class changes the state too, or ends the run,
--   so no further update stops being heap-only.
-- Locks: commands, for as long as the index takes (1 s for a million commands). Reverse: the index of 0018.
drop index concord.commands_status_ix;
create index commands_status_ix on concord.commands (status, workspace_id, command_id) include (error_class);

-- down
drop index concord.commands_status_ix;
create index commands_status_ix on concord.commands (status, workspace_id, command_id);
