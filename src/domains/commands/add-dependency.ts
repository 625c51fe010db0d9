/** Makes a command wait for another one. Refuses a cycle, even if its two halves arrive at the same moment. */
import type { Actor } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import type { CommandState } from '#kernel/machines/command'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { statement } from '#store'
import { composeWrite, releaseTurn, emitEvent } from './change.ts'
import type { StoredCommand } from './command-table.ts'
import { type CommandDeps, lockAllowed } from './deps.ts'

type AddDependency = Omit<DependsOn, 'commandId'> & {
  readonly workspaceId: string
  readonly childId: string
  readonly parentId: string
}

/** States in which a command has begun nothing. From all of them it checks its dependencies before it runs. */
const WAITS: ReadonlySet<CommandState> = new Set([
  'created',
  'validated',
  'waiting_for_input',
  'waiting_for_approval',
  'approved',
  'queued',
])

/** Serializes per workspace: two inserts that cannot see each other could close a cycle together. */
const lockEdges = statement<{ readonly locked: string }>(
  'commands_lock_edges',
  `select pg_advisory_xact_lock(hashtextextended('concord.command_dependencies:' || $1::text, 0))::text as locked`,
)

/**
 * The edges from the parent to everything it waits for, each once. Following paths instead would be exponential: 20
 * layers of two nodes have a million paths. Empty if the child is not among them.
 */
const listAncestry = statement<{ readonly id: string; readonly via: string | null }>(
  'commands_list_ancestry',
  `with recursive walk(id, via) as (
  select $1::uuid, null::uuid
  union
  select d.parent_command_id, w.id
  from walk as w join concord.command_dependencies as d on d.child_command_id = w.id
  where w.id <> $2::uuid
)
select id, via from walk where exists (select from walk where id = $2::uuid)`,
)

/** The shortest path from the parent to the child. It visits each command once, so it ends on a graph with a cycle too. */
function pathOf(
  edges: readonly { readonly id: string; readonly via: string | null }[],
  parentId: string,
  childId: string,
): string[] {
  const edgesFrom = Map.groupBy(edges, ({ via }) => via)
  const viaOf = new Map<string, string | null>([[parentId, null]])
  // The iteration includes the keys that it adds.
  for (const at of viaOf.keys()) for (const { id } of edgesFrom.get(at) ?? []) if (!viaOf.has(id)) viaOf.set(id, at)
  const path: string[] = []
  for (let at: string | null = childId; at !== null; at = viaOf.get(at) ?? null) path.unshift(at)
  return path
}

export type DependsOn = {
  readonly commandId: string
  readonly requiredStatus?: CommandState | undefined
  readonly propagateCancellation?: boolean | undefined
}

/** Inserts nothing when the parent is not of this workspace. */
export const insertDependency = statement<{ readonly parent_command_id: string }>(
  'commands_insert_dependency',
  `insert into concord.command_dependencies (child_command_id, parent_command_id, workspace_id, required_status, propagate_cancellation, created_at)
select $1::uuid, p.command_id, p.workspace_id, $4::text, $5::boolean, $6::timestamptz
from concord.commands as p where p.command_id = $2::uuid and p.workspace_id = $3::uuid
on conflict (child_command_id, parent_command_id) do nothing
returning parent_command_id`,
)

export async function addDependency(
  deps: CommandDeps,
  by: Actor,
  input: AddDependency,
): Promise<Decision<StoredCommand>> {
  const { workspaceId, childId, parentId, requiredStatus = 'succeeded', propagateCancellation = true } = input
  if (childId === parentId) return refuse('dag_cycle', 'A command cannot wait for itself.', { path: 'command_id' })
  return deps.db.transaction(async (tx): Promise<Decision<StoredCommand>> => {
    await tx.run(lockEdges, [workspaceId])
    const locked = await lockAllowed(tx, by, workspaceId, childId)
    if (!locked.ok) return locked
    const { value: child } = locked
    const { status } = child.command
    if (!WAITS.has(status))
      return refuse('commands.command.moved', `It ${sayState(status)}; a dependency can be added only before it runs.`)
    const edges = await tx.run(listAncestry, [parentId, childId])
    if (edges.length > 0) {
      const names = [childId, ...pathOf(edges, parentId, childId)].map((id) => encodeId('command', id))
      return refuse('dag_cycle', `This would close a cycle: ${names.join(' → ')}.`, {
        path: 'command_id',
        facts: { path: names },
      })
    }
    const at = deps.now()
    const [edge] = await tx.run(insertDependency, [
      childId,
      parentId,
      workspaceId,
      requiredStatus,
      propagateCancellation,
      at,
    ])
    if (!edge) return refuseParent(parentId, 'command_id')
    // A turn that has already read the dependencies must not act on them: it loses the row and reads again.
    const dependency = {
      parent_command_id: parentId,
      required_status: requiredStatus,
      propagate_cancellation: propagateCancellation,
    }
    const changes = [releaseTurn(child.command.run_after), emitEvent('dependency_added', by, dependency)]
    const written = await deps.writes.commitIn(tx, composeWrite(child, 'any', changes, at))
    return written.ok ? accept(written.value.command) : written
  })
}

export function refuseParent(commandId: string, path = 'depends_on'): Decision<never> {
  return refuse(
    'commands.dependency.not_found',
    'A command that it depends on does not exist in this workspace, or is named twice.',
    { path, facts: { command_id: encodeId('command', commandId) } },
  )
}
