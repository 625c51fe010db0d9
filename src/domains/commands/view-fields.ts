/** Fields that several views of this room share. */
import { z } from 'zod'

export const time = (description: string) =>
  z.string().meta({ format: 'date-time', example: '2026-05-01T10:00:00.000Z', description })

export const name = (description: string) => z.string().nullable().meta({ example: 'local:dora', description })
