/** The SQL schema that the files of the command family share. */
import { pgSchema } from 'drizzle-orm/pg-core'

export const concord = pgSchema('concord')
