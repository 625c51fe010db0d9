/** A project whose contracts stand in YAML files: code has what runs, files have what it is called and what it may do. */
import { defineProject } from '#app/project'
import { defineEffect, defineFunction } from '#domains/commands'

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
