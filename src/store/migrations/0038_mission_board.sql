-- 0038 mission_board: the roster of agents, the board, the reports and the recipes that missions use.
-- Why: missions show their work on a board, leave reports and become recipes. These tables come first, so that the tables of missions can be added to
--   an installation whose board, reports and recipes have rows already.
-- Cascades: only in the schemas of missions and of the colony. A deleted workspace takes its rows along; a deleted card or agent leaves a null.
-- Indexes: one per foreign key that is looked up from its other side; board_tasks_top_ix for the board, which shows cards without a card above. No index
--   has the status: each move of a task writes it, and an update of no indexed column writes no index.
-- Locks: none (new tables). Reverse: drop schema missions.
create schema missions;
grant usage on schema missions to concord_engine, concord_app;

create domain missions.card_status as varchar(20) constraint card_status_ck check (value in ('inbox', 'assigned', 'in_progress', 'review', 'done'));
create domain missions.review_mode as varchar(20) constraint review_mode_ck check (value in ('manual', 'auto'));
create domain missions.report_type as varchar(20) constraint report_type_ck check (value in (
  'standup', 'research', 'incident', 'summary', 'delivery', 'audit'));

create table if not exists missions.agents (
  id            integer             generated always as identity,
  workspace_id  uuid                not null,
  name          varchar(255)        not null,
  adapter       varchar(50)         not null,
  manifest_name varchar(255),
  created_at    concord.finite_time not null default now(),
  constraint agents_pk primary key (id),
  constraint agents_workspace_uq unique (workspace_id, id),
  constraint agents_name_uq unique (workspace_id, name),
  constraint agents_workspace_fk foreign key (workspace_id) references identity.workspaces (id) on delete cascade
);
comment on table missions.agents is 'The roster: agents that missions may assign work to.';

create table if not exists missions.board_tasks (
  id                integer              generated always as identity,
  workspace_id      uuid                 not null,
  title             varchar(600)         not null,
  description       text,
  status            missions.card_status not null default 'inbox',
  priority          varchar(20)          not null default 'medium',
  review_mode       missions.review_mode not null default 'auto',
  assigned_agent_id integer,
  created_by_type   varchar(30)          not null default 'user',
  created_by_id     varchar(255)         not null,
  parent_task_id    integer,
  source_type       varchar(30)          not null default 'user',
  source_id         varchar(255),
  tags              concord.list_json    not null default '[]',
  planning_data     concord.object_json  not null default '{}',
  result            varchar(4000),
  error_message     text,
  started_at        concord.finite_time,
  completed_at      concord.finite_time,
  created_at        concord.finite_time  not null default now(),
  updated_at        concord.finite_time  not null default now(),
  constraint board_tasks_pk primary key (id),
  constraint board_tasks_workspace_uq unique (workspace_id, id),
  constraint board_tasks_workspace_fk foreign key (workspace_id) references identity.workspaces (id) on delete cascade,
  constraint board_tasks_agent_fk foreign key (workspace_id, assigned_agent_id)
    references missions.agents (workspace_id, id) on delete set null (assigned_agent_id),
  constraint board_tasks_parent_fk foreign key (workspace_id, parent_task_id)
    references missions.board_tasks (workspace_id, id) on delete set null (parent_task_id)
) with (fillfactor = 80);
create index if not exists board_tasks_parent_ix on missions.board_tasks (parent_task_id) where parent_task_id is not null;
create index if not exists board_tasks_top_ix on missions.board_tasks (workspace_id, id) where parent_task_id is null;
create index if not exists board_tasks_agent_ix on missions.board_tasks (assigned_agent_id) where assigned_agent_id is not null;
comment on table missions.board_tasks is 'The cards of the board. The cards of a mission follow its rows and never steer them.';

create table if not exists missions.agent_reports (
  id                  integer              generated always as identity,
  workspace_id        uuid                 not null,
  agent_id            integer,
  report_type         missions.report_type not null,
  title               varchar(500)         not null,
  artifact_id         uuid,
  heartbeat_result_id integer,
  created_at          concord.finite_time  not null default now(),
  constraint agent_reports_pk primary key (id),
  constraint agent_reports_workspace_uq unique (workspace_id, id),
  constraint agent_reports_workspace_fk foreign key (workspace_id) references identity.workspaces (id) on delete cascade,
  constraint agent_reports_agent_fk foreign key (workspace_id, agent_id)
    references missions.agents (workspace_id, id) on delete set null (agent_id)
);
create index if not exists agent_reports_agent_ix on missions.agent_reports (agent_id) where agent_id is not null;
comment on table missions.agent_reports is 'What agents and missions report. The content of a report is an artifact.';

create table if not exists missions.workflow_recipes (
  id                  integer             generated always as identity,
  workspace_id        uuid                not null,
  name                varchar(500)        not null,
  description         text,
  steps               concord.list_json   not null default '[]',
  execution_config    concord.object_json not null default '{}',
  template_definition concord.object_json not null default '{}',
  template_id         varchar(255),
  owner_type          varchar(30)         not null default 'user',
  tags                concord.list_json   not null default '[]',
  created_by          varchar(255)        not null,
  created_at          concord.finite_time not null default now(),
  constraint workflow_recipes_pk primary key (id),
  constraint workflow_recipes_template_uq unique (workspace_id, template_id),
  constraint workflow_recipes_workspace_fk foreign key (workspace_id) references identity.workspaces (id) on delete cascade
);
comment on table missions.workflow_recipes is 'Plans that can be run again.';

alter table missions.agents enable row level security, force row level security;
alter table missions.board_tasks enable row level security, force row level security;
alter table missions.agent_reports enable row level security, force row level security;
alter table missions.workflow_recipes enable row level security, force row level security;
create policy agents_engine on missions.agents to concord_engine using (true) with check (true);
create policy board_tasks_engine on missions.board_tasks to concord_engine using (true) with check (true);
create policy agent_reports_engine on missions.agent_reports to concord_engine using (true) with check (true);
create policy workflow_recipes_engine on missions.workflow_recipes to concord_engine using (true) with check (true);
create policy agents_app on missions.agents to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy board_tasks_app on missions.board_tasks to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy agent_reports_app on missions.agent_reports to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
create policy workflow_recipes_app on missions.workflow_recipes to concord_app
  using (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid)
  with check (workspace_id = nullif(current_setting('concord.workspace_id', true), '')::uuid);
grant select, insert, update on missions.agents to concord_engine, concord_app;
grant select, insert, update on missions.board_tasks to concord_engine, concord_app;
grant select, insert, update on missions.agent_reports to concord_engine, concord_app;
grant select, insert, update on missions.workflow_recipes to concord_engine, concord_app;

-- down
drop schema missions cascade;
