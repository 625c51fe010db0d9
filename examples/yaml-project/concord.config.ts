/** A project with its contracts in YAML files. The code has the effects and functions; the files have the names and rules. */
import { defineEffect, defineFunction, defineProject } from '@concordhq/concord'

export default defineProject({
  definitions: './concord/*.yaml',
  catalog: [
    defineEffect({
      effect_type: 'artifact.greeting_card',
      class: 'keyed',
      do: ({ payload }) => Promise.resolve({ greeting: `Hello, ${payload['name'] as string}.` }),
    }),
    defineFunction({ name: 'greet', plan: (payload) => [{ effect_type: 'artifact.greeting_card', payload }] }),
  ],
})
