/** How a command enters its table: once per key, with its event, and with the commands it depends on. */
import { encodeId } from '#kernel/ids'
import type { CommandState } from '#kernel/machines/command'
import { type Decision, refuse } from '#kernel/refusal'
import { type EventDraft, insertOnce, type Once, onceTable, refuseInProgress, statement, type Tx } from '#store'
import { commandColumns, type StoredCommand } from './command-row.ts'
import { type CommandEventType, commandLog } from './events.ts'
import type { CommandDeps } from './deps.ts'

export const newCommands = onceTable<StoredCommand>({
  table: 'concord.commands',
  id: 'command_id',
  columns: {
    command_id: 'uuid',
    workspace_id: 'uuid',
    command_type: 'text',
    task_name: 'text',
    requested_by: 'text',
    ingress: 'text',
    payload: 'jsonb',
    payload_hash: 'text',
    context: 'jsonb',
    status: 'text',
    cancellation_mode: 'text',
    idempotency_key: 'text',
    request_fingerprint: 'text',
    created_at: 'timestamptz',
    updated_at: 'timestamptz',
    run_after: 'timestamptz',
    turn_token: 'uuid',
    turn_until: 'ms_from_now',
  },
  key: ['workspace_id', 'idempotency_key'],
  content: ['request_fingerprint'],
  returning: commandColumns,
  log: { log: commandLog, links: { workspace_id: 'workspace_id', command_id: 'command_id' } },
})

export type DependsOn = {
  readonly commandId: string
  readonly requiredStatus?: CommandState | undefined
  readonly propagateCancellation?: boolean | undefined
}

/** Nothing when the parent is not of this workspace. */
const insertDependency = statement<{ readonly parent_command_id: string }>(
  'commands_insert_dependency',
  `insert into concord.command_dependencies (child_command_id, parent_command_id, workspace_id, required_status, propagate_cancellation, created_at)
select $1::uuid, p.command_id, p.workspace_id, $4::text, $5::boolean, $6::timestamptz
from concord.commands as p where p.command_id = $2::uuid and p.workspace_id = $3::uuid
on conflict (child_command_id, parent_command_id) do nothing
returning parent_command_id`,
)

/** What enters together with a command. */
export type More = {
  readonly dependsOn?: readonly DependsOn[] | undefined
  readonly alongside?: ((tx: Tx, command: StoredCommand) => Promise<Decision<unknown>>) | undefined
}

/** A new command depends on commands that exist, so it cannot close a circle. */
export async function insertWithMore(
  deps: Pick<CommandDeps, 'db'>,
  row: Readonly<Record<string, unknown>> & { readonly command_id: string; readonly workspace_id: string },
  event: EventDraft<CommandEventType>,
  { dependsOn: parents = [], alongside }: More,
): Promise<Decision<Once<StoredCommand>>> {
  return deps.db.transaction(async (tx) => {
    await tx.query("set local lock_timeout = '500ms'")
    const opened = await insertOnce(tx, newCommands, row, [event]).catch((error: unknown) => {
      const refusal = row['idempotency_key'] === null ? undefined : refuseInProgress(error)
      if (refusal) return refusal
      throw error
    })
    if (!opened.ok) return opened
    await tx.query('set local lock_timeout = 0')
    if (!opened.value.inserted) return opened
    for (const { commandId, requiredStatus = 'succeeded', propagateCancellation = true } of parents) {
      const values = [row.command_id, commandId, row.workspace_id, requiredStatus, propagateCancellation, event.at]
      const [inserted] = await tx.run(insertDependency, values)
      if (!inserted) return refuseParent(commandId)
    }
    const more = await alongside?.(tx, opened.value.row)
    return more?.ok === false ? more : opened
  })
}

export function refuseParent(commandId: string): Decision<never> {
  return refuse(
    'commands.dependency.not_found',
    'A command it shall depend on does not exist here, or is named twice.',
    {
      path: 'depends_on',
      facts: { command_id: encodeId('command', commandId) },
    },
  )
}
