-- 0028 access_notice: a change of rights is announced to every server.
-- Why: the stream of a revoked key went on until its next heartbeat (up to 15 s). The notice is sent by the commit of the change, so a change
--   by hand is announced too. One transaction sends it once. Changes of rights are rare, so the lock of notifying commits costs nothing.
-- Locks: none. Reverse: the function of 0020.
create or replace function identity.raise_access_version() returns trigger
  language plpgsql as $$
begin
  update identity.access_version set version = version + 1 where only_row;
  perform pg_notify('concord_access', '');
  return null;
end
$$;

-- down
create or replace function identity.raise_access_version() returns trigger
  language plpgsql as $$
begin
  update identity.access_version set version = version + 1 where only_row;
  return null;
end
$$;
