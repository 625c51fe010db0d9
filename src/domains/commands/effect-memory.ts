/** What an effect may read of memory: as the requester, with the requester's present rights. Every read is on record. */
import type { Principal } from '#domains/identity'
import { type MemoryDeps, type MemoryReader, readMemory, searchMemory, type SearchMemory } from '#domains/memory'
import { decodeId, encodeId } from '#kernel/ids'
import type { StoredCommand } from './command-table.ts'
import { type EffectMemory, EffectFailure } from './catalog/effect-definition.ts'
import type { CommandDeps } from './deps.ts'
import { labelReader } from './labels.ts'
import { findPresentRights } from './requester.ts'

export function openEffectMemory(deps: Pick<CommandDeps, 'db' | 'memory'>, command: StoredCommand): EffectMemory {
  const { workspace_id: workspaceId } = command
  const open = async (): Promise<readonly [MemoryDeps, MemoryReader]> => {
    if (!deps.memory) throw new EffectFailure('internal_error', 'This process has no memory store.', 'no')
    return [deps.memory, readerOf(command, (await findPresentRights(deps, command)) ?? NO_RIGHTS)]
  }
  return {
    async find(query) {
      const [memory, reader] = await open()
      const asked: SearchMemory = { ...query, limit: query.limit ?? FOUND_DEFAULT, workspaceId }
      const found = (await searchMemory(memory, reader, asked)).map(({ memory_id }) => memory_id)
      await labelReader(deps, command, 'memory', found)
      return found.map((id) => encodeId('memory', id))
    },
    async read(memoryId) {
      const [memory, reader] = await open()
      const id = decodeId('memory', memoryId)
      if (!id.ok) throw new EffectFailure('validation_error', id.reason, 'no')
      const found = await readMemory(memory, reader, { workspaceId, memoryId: id.value, activeOnly: true })
      if (!found.ok) return undefined
      await labelReader(deps, command, 'memory', [id.value])
      const { memory_type, content, confidence } = found.value
      return { memory_type, content, confidence }
    },
  }
}

const FOUND_DEFAULT = 20

/** A webhook, a schedule, and a person who may no longer act see no private memory of others. */
const NO_RIGHTS = { role: 'reader', orgRoles: [] } as const

function readerOf(
  { requested_by, context: { user_id: userId, trace_id } }: StoredCommand,
  { role, orgRoles }: Pick<Principal, 'role' | 'orgRoles'>,
): MemoryReader {
  return { id: requested_by, traceId: trace_id, principal: { userId, role, orgRoles } }
}
