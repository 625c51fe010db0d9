/** A web whose pages give orders, a post office that counts letters, and the tools of agents for both. */
import { z } from 'zod'
import { connectorDefinitions, type Definition } from '../../src/domains/commands/index.ts'
import {
  type ConnectorDefinition,
  defineConnector,
  openConnectors,
  openSecrets,
  succeeded,
} from '../../src/domains/connectors/index.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import type { TestRoom } from './commands.ts'
import { realSleep } from './connectors.ts'
import { defineWork } from './projects/define-work.ts'
import { accepted } from './tenant.ts'

export class PoisonedWeb {
  readonly pages = new Map<string, JsonObject>()
  /** What has left, by the key of the call. */
  readonly letters: string[] = []
}

const page = z.strictObject({ url: z.string() })
const letter = z.strictObject({ to: z.string(), text: z.string() })

function connectorsOf(web: PoisonedWeb): readonly ConnectorDefinition[] {
  const read = (url: unknown) => succeeded(web.pages.get(String(url)) ?? { text: '' })
  return [
    defineConnector({
      name: 'web',
      description: 'Pages of strangers.',
      connector_type: 'test',
      operations: [
        { name: 'fetch', description: 'Reads a page.', input: page, output: z.json(), side_effect_class: 'none' },
        {
          name: 'own_page',
          description: 'Reads a page that we wrote.',
          input: page,
          output: z.json(),
          side_effect_class: 'none',
          output_trust: 'trusted',
        },
      ],
      open: () => ({
        name: 'web',
        connector_type: 'test',
        capabilities: () => ['fetch', 'own_page'],
        call: async ({ input }) => read(input['url']),
      }),
    }),
    defineConnector({
      name: 'post',
      description: 'Letters.',
      connector_type: 'test',
      operations: [
        {
          name: 'send',
          description: 'Sends a letter.',
          input: letter,
          output: z.json(),
          side_effect_class: 'opaque',
          output_trust: 'trusted',
        },
      ],
      open: () => ({
        name: 'post',
        connector_type: 'test',
        capabilities: () => ['send'],
        call: async ({ input }) => {
          web.letters.push(JSON.stringify(input))
          return succeeded({ sent: true })
        },
      }),
    }),
  ]
}

/** `room` is asked at the first call. */
export function poisonedTools(web: PoisonedWeb, room: () => TestRoom): readonly Definition[] {
  const world = {
    get db() {
      return room().db
    },
    now: () => room().clock.now(),
    newId: () => room().clock.newId(),
    sleep: realSleep,
    secrets: openSecrets({}),
  }
  const connectors = accepted(openConnectors(connectorsOf(web), world))
  const open = (connector: string) => ({
    ingress_types: ['user_request', 'agent_action'] as const,
    connector_requirements: [connector],
    policy_checks: ['permission', 'data_safety'],
  })
  const one = (name: string, connector: string, operation: string, payload: z.ZodType) => {
    const effect = `connector.${connector}.${operation}`
    const plan = (given: JsonObject) => [{ effect_type: effect, payload: given }]
    return defineWork({ name, payload, plan, result: ([first]) => first, effects: [effect], task: open(connector) })
  }
  return [
    ...connectorDefinitions(connectors),
    ...one('Fetch Page', 'web', 'fetch', page),
    ...one('Own Page', 'web', 'own_page', page),
    ...one('Send Letter', 'post', 'send', letter),
    ...defineWork({
      name: 'Forward Page',
      payload: page,
      plan: ({ url = null }) => [
        { effect_type: 'connector.web.fetch', payload: { url } },
        {
          effect_type: 'connector.post.send',
          payload: { to: 'internal', text: 'of the first' },
          inputs: [{ path: ['text'], step: 0, field: 'text' }],
        },
      ],
      effects: ['connector.web.fetch', 'connector.post.send'],
      task: { ...open('web'), connector_requirements: ['web', 'post'] },
    }),
  ]
}
