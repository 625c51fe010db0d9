/** Effects that may have acted outside before Concord refuses what they made. */
import { defineEffect } from '../../../src/domains/commands/index.ts'

export const refusedContent = [
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
]
