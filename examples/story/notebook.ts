/** Stores and reads the travel preferences of a person in a story. */
import { actingFor, type CommandDeps, type MemoryProposal, proposeMemory } from '#domains/commands'
import { grantConsent, type MemoryDeps, searchMemory, type StoredConsent } from '#domains/memory'
import type { Principal } from '#domains/identity'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision } from '#kernel/refusal'
import { type HotelPreferences, hotelPreferences, travelPreferences } from '../catalog/travel-preferences.ts'
import { TRACE } from './company.ts'

export type Notebook = {
  /** Becomes a record only with the person's consent; otherwise the data owner must approve. */
  remember(who: Principal, likes: JsonObject): Promise<Decision<MemoryProposal>>
  consent(who: Principal): Promise<Decision<StoredConsent>>
  /** Reads the memories about the person; the read is recorded. */
  recall(who: Principal): Promise<Decision<HotelPreferences>>
}

const about = ({ userId }: Principal) => ({ subject_type: 'user', subject_id: userId })
const kept = { memory_type: 'preference', scope: 'user' } as const
/** The person stated it directly. */
const CERTAIN = 1
const MEMORIES_MAX = 10

export function openNotebook(commands: CommandDeps, memory: MemoryDeps, workspaceId: string): Notebook {
  return {
    remember: (who, content) =>
      proposeMemory(commands, memory, actingFor(who, TRACE), {
        workspaceId,
        requestId: 'req_example',
        memory: {
          ...about(who),
          ...kept,
          content,
          confidence: CERTAIN,
          schema_name: travelPreferences.name,
          fact_key: 'travel.hotel',
          task_type: 'rank_hotels',
          connector: 'hotel_booking',
        },
      }),
    consent: (who) => grantConsent(memory, actingFor(who, TRACE), { workspaceId, ...about(who), ...kept }),
    async recall(who) {
      const asked = { workspaceId, subject: about(who), taskType: 'rank_hotels', limit: MEMORIES_MAX }
      const found = await searchMemory(memory, actingFor(who, TRACE), asked)
      return accept(hotelPreferences.parse(Object.assign({}, ...found.map(({ content }) => content))))
    },
  }
}
