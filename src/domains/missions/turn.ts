/** What every step of a turn uses: the rows that it reads first, its transaction, its wait, and for whom it acts. */
import { actingFor, type CommandDeps, labelReader, type StoredCommand, submitCommand } from '#domains/commands'
import { findMember, platformRoles } from '#domains/identity'
import type { Actor } from '#kernel/actor'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Next } from '#runtime'
import { failpoint, statement, type Tx } from '#store'
import type { Rows } from '#store/rows'
import { Batch } from './batch.ts'
import type { MissionConfig } from './config.ts'
import { MISSION_KIND, type MissionDeps } from './deps.ts'
import { lockMission, setDue, type StoredMission } from './mission.ts'

export type Origin = Pick<
  Rows['concord.commands'],
  'command_id' | 'requested_by' | 'ingress' | 'cancellation_requested' | 'completed_at' | 'status' | 'error'
> & {
  readonly context: {
    readonly trace_id: string
    readonly request_id: string
    readonly metadata: Readonly<Record<string, unknown>>
  }
  /** An effect of the command has begun: nothing holds it any more. */
  readonly is_begun: boolean
  /** Who cancelled the command that asked for it, or else its gate. */
  readonly cancelled_by: string | null
  readonly gate_status: string | null
  readonly gate_error: string | null
  /** A person has changed the plan since its start was asked for. */
  readonly is_gate_stale: boolean
  /** A planner, a hook or a verifier has ended, and its cost is not counted. */
  readonly has_auxiliary: boolean
  /** The command that made the plan, or that of the mission that is forked with its plan, if it read untrusted content. */
  readonly labelled_plan_id: string | null
}

/** $1 mission. The command that asked for it, and its gate. */
export const findOrigin = statement<Origin>(
  'missions.find_origin',
  `select c.command_id, c.requested_by, c.ingress, c.cancellation_requested, c.completed_at, c.status, c.error, c.context, g.status as gate_status, g.error as gate_error,
  coalesce(case when r.state_type = 'pending' then g.payload->>'plan_version' <> r.plan->>'version' end, false) as is_gate_stale,
  (with recursive up (id, origin_id) as (
    select r.id, case when c.payload ?| array['plan', 'plan_hash'] then null else r.forked_from_id end
    union all
    select u.id, case when o.payload ?| array['plan', 'plan_hash'] then null else u.forked_from_id end
    from up join missions.orchestration_runs as u on u.id = up.origin_id join concord.commands as o on o.command_id = u.command_id)
  select p.command_id from up join concord.commands as p on p.workspace_id = r.workspace_id and p.idempotency_key = 'mission:' || up.id || ':plan'
  where p.labels <> '[]' limit 1) as labelled_plan_id,
  exists (select from missions.orchestration_auxiliaries as x join concord.commands as k on k.command_id = x.command_id
    where x.run_id = r.id and x.settled_at is null and k.completed_at is not null) as has_auxiliary,
  exists (select from concord.domain_effects as f where f.command_id = c.command_id and f.status <> 'planned') as is_begun,
  case when c.cancellation_requested or g.status = 'cancelled' then (select e.actor from concord.domain_events as e
    where e.command_id = case when c.cancellation_requested then c.command_id else g.command_id end
      and e.payload->>'cancelled_by' is not null order by e.seq limit 1) end as cancelled_by
from missions.orchestration_runs as r join concord.commands as c on c.command_id = r.command_id
  left join concord.commands as g on g.command_id = r.gate_command_id
where r.id = $1::uuid`,
)

export type Found = { readonly run: StoredMission; readonly origin: Origin; readonly config: MissionConfig }
export type Taken = Next | undefined

/** One transaction under the lock of the mission. Nothing is written if another turn has moved it meanwhile. */
export async function write(
  { commands: { db, now } }: MissionDeps,
  run: Pick<StoredMission, 'id' | 'state'>,
  work: (batch: Batch, at: Date, tx: Tx) => Promise<unknown> | void,
): Promise<undefined> {
  await db.transaction(async (tx) => {
    const locked = await lockMission(tx, run.id)
    if (locked?.state !== run.state) return
    const batch = new Batch(locked)
    await work(batch, now(), tx)
    await batch.commit(tx)
    await failpoint('missions.batch_written')
  })
}

/**
 * For every command that a mission submits: a mission that this command asks for is one level deeper. What an attempt without an account may cost is what the
 * command of its mission may.
 */
export const oneDeeper = ({ context: { metadata } }: Origin): JsonObject => ({
  mission_depth: Number(metadata['mission_depth'] ?? 0) + 1,
  ...(typeof metadata['max_cost'] === 'string' && { max_cost: metadata['max_cost'] }),
})

export type FollowedCommand = Pick<
  Parameters<typeof submitCommand>[2],
  'taskName' | 'payload' | 'idempotencyKey' | 'metadata'
> & {
  readonly ingress?: Origin['ingress']
  /** The commands whose content it takes: it has their labels from its insert. */
  readonly labelled?: readonly (string | null)[]
  /** Written with the command. */
  readonly alongside?: (tx: Tx, command: StoredCommand) => Promise<Decision<unknown>>
}

/** Submits a command that the mission follows. */
export async function submitFollowed(
  { commands }: MissionDeps,
  by: Actor,
  { run, origin }: Pick<Found, 'run' | 'origin'>,
  { labelled = [], ingress = origin.ingress, alongside, ...asked }: FollowedCommand,
): Promise<Decision<string>> {
  const sources = labelled.filter((id) => id !== null)
  const submitted = await submitCommand(commands, by, {
    ...asked,
    ingress,
    workspaceId: run.workspace_id,
    requestId: origin.context.request_id,
    follower: { kind: MISSION_KIND, id: run.id },
    ...((sources.length > 0 || alongside) && {
      alongside: async (tx: Tx, command: StoredCommand) => {
        if (sources.length > 0) await labelReader({ db: tx }, command, 'command', sources)
        return alongside ? alongside(tx, command) : accept(null)
      },
    }),
  })
  return submitted.ok ? accept(submitted.value.command.command_id) : submitted
}

/** A mission that waits has no turn: the end of a command, a decision or the due time brings the next. */
export async function restUntil(
  { commands: { db } }: MissionDeps,
  { id }: StoredMission,
  until: Date | null,
): Promise<Next> {
  await setDue(db, id, until)
  return { t: 'wait', until }
}

/**
 * A person's mission acts with the rights that the person has today, and never more than at the request. One of the catalog's schedules acts for the
 * installation.
 */
export async function actAsRequester(
  { db }: Pick<CommandDeps, 'db'>,
  run: StoredMission,
  { requested_by, context }: Origin,
): Promise<Decision<Actor>> {
  const traceId = context.trace_id
  if (!requested_by.startsWith('user:')) return accept({ id: requested_by, kind: 'system', traceId })
  const roleMax = platformRoles.find((role) => role === context.metadata['role'])
  const userId = requested_by.slice('user:'.length)
  const member = roleMax && (await findMember(db, { userId, workspaceId: run.workspace_id, roleMax }))
  if (member) return accept(actingFor(member, traceId))
  return refuse('workspace_unknown', 'The requester of the mission may no longer act in its workspace.')
}
