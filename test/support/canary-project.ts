/** A project for journeys: two hundred connectors, each with a secret of its own, to a provider that sends everything back. */
import { z } from 'zod'
import { defineCommandType, defineFunction, defineProject, defineTask, httpConnector } from '../../src/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'

const url = process.env['CANARY_API'] ?? 'http://127.0.0.1:1'
const count = Number(process.env['CANARY_COUNT'] ?? '0')
const modes = ['api_key', 'bearer', 'basic', 'hmac', 'oauth_client_credentials'] as const

const names = Array.from({ length: count }, (_, at) => `door_${at}`)

export default defineProject({
  connectors: names.map((name, at) =>
    httpConnector({
      name,
      description: 'Sends back what it gets.',
      base_url: url,
      auth: {
        mode: modes[at % modes.length] ?? 'bearer',
        secret_ref: at % 2 === 0 ? `env://CANARY_${at}` : `file://${process.env['CANARY_FOLDER']}/${at}`,
        token_url: `${url}/token`,
        client_id: 'concord',
      },
      reach: { allow_http: true, private_networks: ['127.0.0.1'] },
      operations: [
        {
          name: 'tell',
          description: 'Tells.',
          method: 'POST',
          path: '/tell',
          query: ['as'],
          input: z.strictObject({ as: z.string(), note: z.string().optional() }),
          output: z.looseObject({ id: z.string() }),
          side_effect_class: 'none',
          attempts_max: 1,
          timeout_ms: 5_000,
        },
      ],
    }),
  ),
  catalog: [
    defineFunction({
      name: 'tell',
      plan: ({ door, as, note }) => [
        {
          effect_type: `connector.door_${Number(door)}.tell`,
          payload: { as: as ?? 'echo', ...(note === undefined ? {} : { note }) },
        },
      ],
    }),
    defineCommandType({
      name: 'tell',
      description: 'Tells somebody outside.',
      payload: z.strictObject({
        door: z.int(),
        as: z.string(),
        note: z.string().optional(),
        pin: z.string().optional(),
      }),
      fields: { pin: 'secret' },
      side_effects: names.map((name) => `connector.${name}.tell`),
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated'],
    }),
    defineTask({
      name: 'Tell',
      description: 'Tells.',
      command_type: 'tell',
      function_name: 'tell',
      ingress_types: ['user_request'],
      async_required: true,
      connector_requirements: names,
      policy_checks: ['permission'],
    }),
  ],
})
