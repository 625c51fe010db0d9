-- 0027 undo_index: finds the undos of an effect.
-- Why: the undo of a command that succeeded belongs to another command. The statement commands_list_foreign_undos reads the undos of all effects of a command, for the
--   plan of an undo and for the field `undo` of a command. Without an index it would read the whole table.
-- Index: partial, so an effect that undoes nothing has no entry.
-- Locks: domain_effects, for as long as the index takes to build. Reverse: drop the index.
create index domain_effects_compensates_ix on concord.domain_effects (compensates_effect_id) where compensates_effect_id is not null;

-- down
drop index concord.domain_effects_compensates_ix;
