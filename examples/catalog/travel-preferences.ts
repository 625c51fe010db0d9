/** Travel preferences in memory: stored with the person's consent, visible only to that person, kept for a year. */
import type { MemorySchema } from '@concordhq/concord'
import { z } from 'zod'

export const travelPreferences: MemorySchema = {
  name: 'user.travel_preferences',
  subject_type: 'user',
  memory_types: ['preference'],
  visibility: ['user'],
  consent: { required: true },
  confidence: { direct_from: 0.8 },
  expiration: { after_days: 365 },
  supersession: 'supersede',
  retrieval: ['subject', 'task_type', 'connector'],
  write_policy: 'direct',
  sensitivity: 'internal',
}

export const hotelPreferences = z.strictObject({
  quiet: z.boolean().optional(),
  breakfast: z.boolean().optional(),
  price_max_usd: z.number().nonnegative().max(100_000).optional(),
})
export type HotelPreferences = z.infer<typeof hotelPreferences>
