/** The API shapes of signals. */
import { z } from 'zod'
import { idView, textField, visibleLine } from '#contract'
import { KEY_CHARACTERS_MAX } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { SIGNAL_NAME } from '#kernel/signal'
import type { SentSignal } from './signals.ts'

export const signalBody = z
  .strictObject({
    name: textField(100, { charsMin: 1 }).meta({
      pattern: SIGNAL_NAME.source,
      example: 'carrier.delivered',
      description: 'What happened.',
    }),
    key: z.string().meta({
      ...visibleLine,
      minLength: 1,
      maxLength: KEY_CHARACTERS_MAX,
      example: 'order-7',
      description: 'To which thing it happened; the wait names the same.',
    }),
    payload: z
      .record(z.string(), z.unknown())
      .transform((value) => value as JsonObject)
      .default({})
      .meta({ example: { signed_by: 'Dora' }, description: 'The result of the wait.' }),
    id: z
      .string()
      .optional()
      .meta({
        ...visibleLine,
        minLength: 1,
        maxLength: KEY_CHARACTERS_MAX,
        example: 'evt-4711',
        description: 'Of the sender. The same signal with the same id is received once.',
      }),
  })
  .meta({ id: 'SendSignal', description: 'An event from outside.' })

export const signalView = z
  .object({
    signal_id: idView('signal'),
    woken: z
      .int()
      .meta({ example: 1, description: 'How many commands it has woken. 0: it is kept for the first that waits.' }),
  })
  .meta({ id: 'Signal', description: 'A signal that was received.' })

export const toSignalView = ({ signalId, woken }: Omit<SentSignal, 'isNew'>): z.infer<typeof signalView> => ({
  signal_id: encodeId('signal', signalId),
  woken,
})
