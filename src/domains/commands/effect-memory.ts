/** What an effect may read of memory: as the requester, with the requester's present rights. Every read is on record. */
import { type MemoryDeps, type MemoryReader, readMemory, searchMemory, type SearchMemory } from '#domains/memory'
import { decodeId, encodeId } from '#kernel/ids'
import type { StoredCommand } from './command-table.ts'
import { type EffectMemory, EffectFailure } from './catalog/effect-definition.ts'
import type { CommandDeps } from './deps.ts'
import { withPresentRights } from './requester.ts'

export function openEffectMemory(
  deps: Pick<CommandDeps, 'db' | 'now' | 'memory'>,
  command: StoredCommand,
): EffectMemory {
  const { workspace_id: workspaceId } = command
  const open = async (): Promise<readonly [MemoryDeps, MemoryReader]> => {
    if (!deps.memory) throw new EffectFailure('internal_error', 'This process has no memory store.', 'no')
    return [deps.memory, readerOf(await withPresentRights(deps, command))]
  }
  return {
    async find(query) {
      const [memory, reader] = await open()
      const asked: SearchMemory = { ...query, limit: query.limit ?? FOUND_DEFAULT, workspaceId }
      return (await searchMemory(memory, reader, asked)).map(({ memory_id }) => encodeId('memory', memory_id))
    },
    async read(memoryId) {
      const [memory, reader] = await open()
      const id = decodeId('memory', memoryId)
      const found = id.ok ? await readMemory(memory, reader, { workspaceId, memoryId: id.value }) : id
      if (!found.ok) throw new EffectFailure('validation_error', found.reason, 'no')
      const { memory_type, content, confidence } = found.value
      return { memory_type, content, confidence }
    },
  }
}

const FOUND_DEFAULT = 20

/** A command of Concord itself sees no private memory: a webhook or a schedule is nobody. */
function readerOf({ requested_by, context: { user_id, trace_id, metadata } }: StoredCommand): MemoryReader {
  const { role, org_roles: orgRoles } = metadata
  const principal = {
    userId: user_id,
    role: role === 'admin' ? ('admin' as const) : ('reader' as const),
    orgRoles: Array.isArray(orgRoles) ? orgRoles.map(String) : [],
  }
  return { id: requested_by, traceId: trace_id, principal }
}
