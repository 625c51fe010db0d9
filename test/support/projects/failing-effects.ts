/** Effects that fail: one plainly, and two that may have acted outside before Concord refuses what they made. */
import { defineEffect, EffectFailure } from '../../../src/domains/commands/index.ts'

export const failingEffects = [
  defineEffect({
    effect_type: 'outside.large',
    class: 'opaque',
    do: async ({ artifacts }) => ({
      ...(await artifacts.write({ type: 'report', title: 'Large', content: { text: 'x'.repeat(70_000_000) } })),
    }),
  }),
  defineEffect({
    effect_type: 'outside.result',
    class: 'opaque',
    do: () => Promise.resolve({ text: 'x'.repeat(5_000_000) }),
  }),
  defineEffect({
    effect_type: 'work.fail',
    class: 'read',
    do: () => Promise.reject(new EffectFailure('validation_error', 'it fails after the note')),
  }),
]
