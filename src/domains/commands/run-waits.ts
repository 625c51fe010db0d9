/**
 * A command whose effect waits for the run of an agent is `running`. It is `blocked` only while a call of that run waits for a person: no call of a model
 * begins for a blocked command.
 */
import { encodeId } from '#kernel/ids'
import { type Db, scoped, statement, type Tx } from '#store'
import { composeWrite, move, set, systemActor } from './change.ts'
import type { Catalog } from './catalog/open-catalog.ts'
import { type HeldCommand, isOfAgent, lockCommand, type StoredCommand } from './command-table.ts'
import type { CommandDeps } from './deps.ts'
import { PROCESS_AGAIN_MS } from './pending.ts'
import { readBackOf, taskOf } from './tasks.ts'

type WaitingRun = {
  readonly workspaceId: string
  /** The command of the run itself. */
  readonly commandId: string
  readonly agentRunId: string
  readonly waitsForPeople: boolean
}

/** Joins the commit that changes what the run waits for. Changes nothing if the command is in that state already, is being cancelled or has ended. */
export async function showRunWait(
  tx: Tx,
  deps: Pick<CommandDeps, 'writes' | 'now'>,
  { workspaceId, commandId, agentRunId, waitsForPeople }: WaitingRun,
): Promise<void> {
  const found = await lockCommand(tx, workspaceId, commandId)
  if (!found || !(waitsForPeople ? found.command.status === 'running' : isBlockedByRun(found))) return
  const at = deps.now()
  const about = { reason: 'agent_run', agent_run_id: agentRunId }
  const changes = waitsForPeople
    ? [move('blocked', systemActor, about)]
    : [set({ run_after: new Date(at.getTime() + PROCESS_AGAIN_MS) }), move('running', systemActor, about)]
  await deps.writes.commitIn(tx, composeWrite(found, 'any', changes, at))
}

/** Not because of another command, or of a question about an effect of its own. */
function isBlockedByRun({ command, effects }: HeldCommand): boolean {
  const open = effects.filter(({ status }) => status === 'executing').map(readBackOf)
  const isOther = open.some(({ asked, command_id }) => asked === true || command_id !== undefined)
  return command.status === 'blocked' && open.length > 0 && !isOther
}

/** The newest run that a command waits for or waited for, the stop for whose lift either waits, and the calls that wait for people. */
export type RunStanding = {
  readonly command_id: string
  readonly run: {
    readonly agent_run_id: string
    readonly agent_name: string
    readonly step_count: number
    readonly end_reason: string | null
  } | null
  readonly stop: { readonly stop_id: string; readonly reason: string } | null
  readonly calls: readonly RunCall[]
}

type RunCall = {
  readonly command_id: string
  readonly task_name: string
  readonly status: string
  readonly approval_id: string | null
  readonly approver: string | null
}

/** $1 workspace, $2 commands. */
const listStandings = statement<RunStanding>(
  'commands_list_run_standings',
  `select c.command_id, to_jsonb(r) as run,
  case when c.completed_at is null and exists (select from concord.stops as s where s.workspace_id = c.workspace_id and s.lifted_at is null) then
    (select jsonb_build_object('stop_id', s.stop_id, 'reason', s.reason)
      from concord.find_stops(c.workspace_id, c.context->>'agent', coalesce(r.agent_run_id, c.agent_run_id)) as s
      where not (s.ends_runs and r.agent_run_id is not null) limit 1)
  end as stop,
  coalesce((select jsonb_agg(jsonb_build_object('command_id', k.command_id, 'task_name', coalesce(k.task_name, k.command_type), 'status', k.status,
      'approval_id', a.approval_id, 'approver', a.approver) order by k.command_id)
    from concord.commands as k left join concord.approvals as a
      on a.workspace_id = k.workspace_id and a.command_id = k.command_id and a.status = 'pending' and a.superseded_by is null
    where k.workspace_id = c.workspace_id and k.agent_run_id = r.agent_run_id and c.completed_at is null
      and k.context ? 'follower' and k.status in ('waiting_for_approval', 'waiting_for_input', 'blocked')), '[]') as calls
from concord.commands as c
left join lateral (select r.agent_run_id, r.agent_name, r.step_count, r.end_reason from concord.agent_runs as r
  where r.workspace_id = c.workspace_id and r.command_id = c.command_id order by r.created_at desc limit 1) as r on true
where c.workspace_id = $1::uuid and c.command_id = any($2::uuid[])
  and (r.agent_run_id is not null or c.context->>'run_as' = 'agent')`,
)

/** The effects of a command that has agents at work. */
const agentEffects: readonly string[] = ['agent.run', 'swarm.run']

/** By the id of the command. Nothing for a command without an agent, and no query for a list without one. */
export async function listRunStandings(
  { db, catalog }: { readonly db: Db; readonly catalog: Catalog },
  workspaceId: string,
  commands: readonly StoredCommand[],
): Promise<ReadonlyMap<string, RunStanding>> {
  const commandIds = commands.flatMap((command) => {
    const task = taskOf(catalog, command)
    const hasAgents = !task || task.type.side_effects.some((effect) => agentEffects.includes(effect))
    return isOfAgent(command) || hasAgents ? [command.command_id] : []
  })
  if (commandIds.length === 0) return new Map()
  const rows = await scoped(db, workspaceId).read((tx) => tx.run(listStandings, [workspaceId, commandIds]))
  return new Map(rows.map((row) => [row.command_id, row]))
}

export const sayCall = ({ task_name, command_id }: RunCall) => `${task_name} (${encodeId('command', command_id)})`
export const sayStop = ({ stop_id, reason }: NonNullable<RunStanding['stop']>) =>
  `the stop ${encodeId('stop', stop_id)} of its agent (${reason.replace(/\.$/, '')})`
