-- 0017 incident_index: finds the incidents that operators must hear of.
-- Why: a compensation that drifted or failed is an event that is committed with its cause; whatever process is alive looks for those
--   that nobody was alerted of. Without an index that look would read every event.
-- Indexes: partial, over a handful of rows; an event of another type costs the comparison of its name.
-- Locks: domain_events, for as long as one pass takes. Reverse: drop it.
create index domain_events_incidents_ix on concord.domain_events (created_at) where event_type = 'compensation_drift';

-- down
drop index concord.domain_events_incidents_ix;
