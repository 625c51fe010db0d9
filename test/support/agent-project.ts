/** A project whose tools carry notes to another company: by a call, a sync, a webhook and a mail, all of it on loopback. */
import { z } from 'zod'
import type { Project } from '../../src/app/project.ts'
import { defineArtifactType } from '../../src/domains/artifacts/index.ts'
import { defineCommandType, type Definition, defineFunction, defineTask } from '../../src/domains/commands/index.ts'
import { httpConnector, notificationConnector } from '../../src/domains/connectors/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import { testSecrets } from './connectors.ts'

/** A tool of agents that carries a note, and perhaps a customer, to where its payload says. */
function tool(name: string, effect: string, input: (payload: JsonObject) => JsonObject): readonly Definition[] {
  return [
    defineFunction({ name, plan: (payload) => [{ effect_type: effect, payload: input(payload) }] }),
    defineCommandType({
      name,
      description: `Does ${name}.`,
      payload: z.strictObject({ note: z.string(), customer: z.string().optional(), destination: z.string() }),
      side_effects: [effect],
      fields: { note: 'internal', customer: 'pii', destination: 'public' },
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated'],
    }),
    defineTask({
      name,
      description: `Does ${name}.`,
      command_type: name,
      function_name: name,
      ingress_types: ['agent_action'],
      async_required: true,
      connector_requirements: [effect.split('.')[1] ?? ''],
      policy_checks: ['permission', 'data_safety'],
      risk_level: 'medium',
    }),
  ]
}

const carried = ({ note = null, customer }: JsonObject) => ({ note, ...(customer === undefined ? {} : { customer }) })
const told = ({ note = null, customer = null, destination = null }: JsonObject) => ({
  recipient: destination,
  subject: 'News',
  text: customer ?? note,
})

export const mailLogin = { user: 'concord', pass: 'canary-mail-0123456789' }

export function agentProject(apiUrl: string, mailPort: number): Project {
  const reach = { allow_http: true, private_networks: ['127.0.0.1'] }
  const operation = (name: string) => ({
    name,
    description: `Does ${name}.`,
    method: 'POST' as const,
    path: `/${name}`,
    input: z.strictObject({ note: z.string(), customer: z.string().optional() }),
    output: z.looseObject({ id: z.string() }),
    side_effect_class: 'keyed' as const,
    input_classes: { note: 'internal', customer: 'pii' } as const,
  })
  return {
    connectors: [
      httpConnector({
        name: 'partner',
        description: 'Another company; what is personal is not theirs.',
        base_url: apiUrl,
        reach,
        data_class_max: 'pii',
        operations: [operation('tell'), operation('sync')],
      }),
      notificationConnector({
        webhook: { url: `${apiUrl}/notify`, secret_ref: 'vault://notify', reach },
        email: {
          host: '127.0.0.1',
          port: mailPort,
          from: 'concord@example.com',
          secret_ref: 'vault://mail',
          allow_plain: true,
          private_networks: ['127.0.0.1'],
        },
      }),
    ],
    catalog: [
      ...tool('call_partner', 'connector.partner.tell', carried),
      ...tool('sync_partner', 'connector.partner.sync', carried),
      ...tool('notify_partner', 'connector.notification.send_webhook', told),
      ...tool('send_notification', 'connector.notification.send_email', told),
    ],
    artifactTypes: [
      defineArtifactType({ name: 'customer_list', description: 'Who buys.', data_class: 'pii' }),
      defineArtifactType({ name: 'price_list', description: 'What it costs.', data_class: 'internal' }),
    ],
    secrets: testSecrets({ notify: '0123456789abcdef0123456789abcdef', mail: `${mailLogin.user}:${mailLogin.pass}` }),
  }
}
