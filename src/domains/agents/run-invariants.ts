/** What must hold for every agent run, as one query each, for `concord doctor --deep`. */
import type { Invariant } from '#domains/commands'

const LOOK = '`concord agents show` and `concord agents steps` show the run.'
const RESTORE = 'Restore the rows from a backup, and ask who can write to the database beside Concord.'

export const runInvariants: readonly Invariant[] = [
  {
    code: 'G01',
    name: 'a child may do no more than its parent',
    meaning: 'A run may use a tool or a connector that the run above it may neither use nor pass on.',
    next: `Stop it: \`concord stop --run\`. ${LOOK}`,
    sql: `select c.agent_run_id as id from concord.agent_runs as c join concord.agent_runs as p on p.agent_run_id = c.parent_agent_run_id
where not c.allowed_tools <@ (p.allowed_tools || p.delegable_tools) or not c.allowed_connectors <@ p.allowed_connectors`,
  },
  {
    code: 'G02',
    name: 'a child is one level below its parent',
    meaning: 'The depth of a run does not follow from that of the run above it.',
    next: RESTORE,
    sql: `select c.agent_run_id as id from concord.agent_runs as c left join concord.agent_runs as p on p.agent_run_id = c.parent_agent_run_id
where c.spawn_depth <> coalesce(p.spawn_depth + 1, 0)`,
  },
  {
    code: 'G03',
    name: 'a swarm stays within its limits',
    meaning: 'A swarm has more agents, levels or steps than its limits allow.',
    next: 'Stop it: `concord stop --swarm`.',
    sql: `select s.swarm_run_id as id from concord.swarm_runs as s join concord.agent_runs as a on a.swarm_run_id = s.swarm_run_id
group by s.swarm_run_id, s.max_agents, s.max_depth, s.max_total_steps
having count(*) > s.max_agents or max(a.spawn_depth) > s.max_depth or sum(a.step_count) > s.max_total_steps`,
  },
  {
    code: 'G04',
    name: 'the steps of a run have no gap',
    meaning: 'The journal lacks a step of a run, has one twice, or has another number of steps than the row.',
    next: RESTORE,
    sql: `select r.agent_run_id as id from concord.agent_runs as r
left join lateral (select count(*) as steps, count(distinct e.step_index) as different, max(e.step_index) as last
  from concord.domain_events as e where e.agent_run_id = r.agent_run_id and e.purpose = 'agent_step') as s on true
where s.steps <> s.different or coalesce(s.last + 1, 0) <> s.steps
  or (s.steps <> r.step_count and not exists (select from concord.history_archives as h
    where h.workspace_id = r.workspace_id and h.command_ids @> array[r.command_id]))`,
  },
  {
    code: 'G05',
    name: 'a swarm stays within its cost',
    meaning: 'The runs of a swarm have cost more than the limit of its account, with all that people have added to it.',
    next: '`concord budgets show` shows what was reserved and spent.',
    sql: `select s.swarm_run_id as id from concord.swarm_runs as s join concord.agent_runs as a on a.swarm_run_id = s.swarm_run_id
join concord.budget_accounts as b on b.account_id = s.swarm_run_id and b.workspace_id = s.workspace_id
group by s.swarm_run_id, b.limit_units having sum(a.cost_units) > b.limit_units`,
  },
  {
    code: 'G06',
    name: 'a run uses the tools of its manifest alone',
    meaning: 'A step of a run used a tool that its row does not allow, or forbids.',
    next: `Undo what it did: \`concord undo\`. ${LOOK}`,
    sql: `select e.event_id as id from concord.domain_events as e join concord.agent_runs as a on a.agent_run_id = e.agent_run_id
where e.purpose = 'agent_step' and e.payload->>'decision' in ('allowed', 'pending') and e.tool_name is not null and e.payload ? 'created_command_id'
  and (a.forbidden_tools ? e.tool_name or not (a.allowed_tools ? e.tool_name
    or exists (select from concord.commands as c where c.command_id = (e.payload->>'created_command_id')::uuid
      and a.allowed_tools ? c.command_type)))`,
  },
]
