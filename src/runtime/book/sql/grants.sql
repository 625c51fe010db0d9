-- The service acts as concord_engine, a request as concord_app. Neither has access to the engine's tables or to this schema's. Both may call
-- wake inside their own transaction: the function runs with the owner's rights and does only that. An operator's abort and resume are
-- recorded in the transaction that calls them, so the service may call these two, and a request may not. Everything else uses the
-- adapter's own connections.
revoke all on all functions in schema runtime from public;
do $grants$
declare
  v_role text;
begin
  for v_role in select rolname from pg_roles where rolname in ('concord_engine', 'concord_app') loop
    execute format('grant usage on schema runtime to %I', v_role);
    execute format('grant execute on function runtime.wake to %I', v_role);
    if v_role = 'concord_engine' then
      execute format('grant execute on function runtime.abort, runtime.resume to %I', v_role);
    end if;
  end loop;
end
$grants$;
