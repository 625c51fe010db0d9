/** Column kinds that Drizzle has no word for, and the one spelling of those that repeat. */
import { customType, timestamp } from 'drizzle-orm/pg-core'

export const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })

export const bytea = customType<{ data: Buffer; driverData: Buffer }>({ dataType: () => 'bytea' })

/** A transaction number, 64 bits, as decimal digits: it does not fit a double. */
export const xid8 = customType<{ data: string; driverData: string }>({ dataType: () => 'xid8' })

export type { JsonObject } from '#kernel/json-value'
