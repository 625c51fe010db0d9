/** Makes a command wait for another one; a circle is refused, also when two halves of it arrive at the same moment. */
import { encodeId } from '#kernel/ids'
import type { CommandState } from '#kernel/machines/command'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { statement } from '#store'
import { lockCase, refuseMissing } from './command-repository.ts'
import { draftWrite } from './draft-write.ts'
import { refuseParent } from './insert-command.ts'
import type { Acting, CommandWorld } from './world.ts'
import { commitWrite } from './write-lane.ts'

export type AddDependency = {
  readonly workspaceId: string
  readonly childId: string
  readonly parentId: string
  readonly requiredStatus?: CommandState
  readonly propagateCancellation?: boolean
}

/** The states in which a command has begun nothing: from all of them it goes through the question whether its parents are there. */
const WAITS: ReadonlySet<CommandState> = new Set([
  'created',
  'validated',
  'waiting_for_input',
  'waiting_for_approval',
  'approved',
  'queued',
])

/** One at a time per workspace: two inserts that cannot see each other could close a circle together. */
const lockEdges = statement<{ readonly locked: string }>(
  'commands_lock_edges',
  `select pg_advisory_xact_lock(hashtextextended('concord.command_dependencies:' || $1::text, 0))::text as locked`,
)

/** Breadth first from the parent to everything it waits for; the path back to the child, if there is one. */
const findPath = statement<{ readonly path: readonly string[] }>(
  'commands_find_path',
  `with recursive walk(id, path) as (
  select $1::uuid, array[$1::uuid]
  union all
  select d.parent_command_id, w.path || d.parent_command_id
  from walk as w join concord.command_dependencies as d on d.child_command_id = w.id
  where d.parent_command_id <> all(w.path) and w.id <> $2::uuid
)
select path from walk where id = $2::uuid order by cardinality(path) limit 1`,
)

const insertEdge = statement<{ readonly parent_command_id: string }>(
  'commands_insert_edge',
  `insert into concord.command_dependencies (child_command_id, parent_command_id, workspace_id, required_status, propagate_cancellation, created_at)
select $1::uuid, p.command_id, p.workspace_id, $4::text, $5::boolean, $6::timestamptz
from concord.commands as p where p.command_id = $2::uuid and p.workspace_id = $3::uuid
on conflict (child_command_id, parent_command_id) do nothing
returning parent_command_id`,
)

export async function addDependency(world: CommandWorld, by: Acting, input: AddDependency): Promise<Decision<null>> {
  const { workspaceId, childId, parentId, requiredStatus = 'succeeded', propagateCancellation = true } = input
  if (childId === parentId) return refuse('dag_cycle', 'A command cannot wait for itself.', { path: 'depends_on' })
  return world.db.transaction(async (tx): Promise<Decision<null>> => {
    await tx.run(lockEdges, [workspaceId])
    const child = await lockCase(tx, workspaceId, childId)
    if (!child) return refuseMissing()
    if (!WAITS.has(child.command.status)) {
      return refuse('commands.command.moved', `It is ${child.command.status}; it waits for nothing any more.`)
    }
    const [back] = await tx.run(findPath, [parentId, childId])
    if (back) {
      const names = [childId, ...back.path].map((id) => encodeId('command', id))
      return refuse('dag_cycle', `That would close a circle: ${names.join(' → ')}`, {
        path: 'depends_on',
        facts: { path: names },
      })
    }
    const [edge] = await tx.run(insertEdge, [
      childId,
      parentId,
      workspaceId,
      requiredStatus,
      propagateCancellation,
      world.now(),
    ])
    if (!edge) return refuseParent(parentId)
    // A turn that has read its parents already must not begin on what it read: it loses the row, and reads again.
    const draft = draftWrite(child.command, 'any', { at: world.now(), newId: world.newId })
      .stay()
      .release(child.command.run_after)
    draft.tell('dependency_added', by, {
      parent_command_id: parentId,
      required_status: requiredStatus,
      propagate_cancellation: propagateCancellation,
    })
    const written = await commitWrite(tx, draft.done())
    return written.ok ? accept(null) : written
  })
}
