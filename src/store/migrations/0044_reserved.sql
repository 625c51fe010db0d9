-- 0044 reserved: the number belongs to a branch that is merged before 0045. The merge replaces this file.
-- Why: migrations have no gap. Locks: none. Reverse: nothing.
select 1;

-- down
select 1;
