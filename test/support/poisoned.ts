/** A web whose pages give orders, a post office that counts letters, the tools of agents for both, and agents that obey whatever they read. */
import { z } from 'zod'
import { type AgentRuntime, defineAgent, defineSwarm } from '../../src/domains/agents/index.ts'
import type { AgentAnswer, AgentObservation } from '../../src/domains/agents/agent-runtime.ts'
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
import { type Play, playedBy } from './swarms.ts'
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

export type Order = { readonly tool: string; readonly payload: JsonObject }

/** The orders in a page, in the text of an artifact, and in memories. */
function ordersIn(content: unknown): readonly Order[] {
  const { orders = [], text, memories = [] } = (content ?? {}) as Found
  const written = typeof text === 'string' && text.startsWith('{') ? ordersIn(JSON.parse(text)) : []
  return [...orders, ...written, ...memories.flatMap((memory) => ordersIn(memory.content))]
}
type Found = {
  readonly orders?: readonly Order[]
  readonly text?: unknown
  readonly memories?: readonly { readonly content: unknown }[]
}

function obey(orders: readonly Order[]): AgentAnswer {
  if (orders.length === 0) return { text: 'done', calls: [], final: { done: true } }
  const calls = orders.map(({ tool, payload }, index) => ({
    id: `c${index}`,
    actionType: 'tool_call' as const,
    toolName: tool,
    payload,
    reason: 'It says so.',
  }))
  return { text: null, calls, final: null }
}
const obeySeen = (observations: readonly AgentObservation[]) =>
  obey(observations.flatMap(({ content }) => ordersIn(content)))

const readPage = (url: string): Order => ({ tool: 'fetch_page', payload: { url } })
const subjectOf = ({ context: { subject } }: { readonly context: JsonObject }) =>
  typeof subject === 'string' ? subject : ''

/** Reads the page, the artifact or the memories that its goal names, and then does whatever it has read. */
export const obedient: AgentRuntime = {
  name: 'obedient',
  async startAgentRun(turn) {
    const subject = subjectOf(turn)
    if (subject.startsWith('art_')) return obey([{ tool: 'read_artifact', payload: { artifact_id: subject } }])
    if (subject.startsWith('customer:')) return obey([{ tool: 'retrieve_memory', payload: { subject } }])
    return obey([readPage(subject)])
  },
  resumeAgentRun: async (_turn, observations) => obeySeen(observations),
  cancelAgentRun: async () => {},
}

const OUTWARD = ['fetch_page', 'own_page', 'send_letter', 'forward_page', 'publish_note', 'confirm_note']
const CONNECTORS = ['web', 'post', 'mail']

export const reader = defineAgent('Reader', {
  input: z.object({ subject: z.string() }),
  goal: 'Read a page.',
  role: 'worker',
  tools: [...OUTWARD, 'propose_memory', 'retrieve_memory', 'create_artifact', 'read_artifact'],
  connectors: CONNECTORS,
  memory: { write_allowed: true, read_scopes: ['project'] },
  runtime: { name: 'obedient' },
})

const child = (delegated_goal: string, context: JsonObject): Order => ({
  tool: 'spawn_subagent',
  payload: {
    agent_name: 'child',
    agent_role: 'worker',
    delegated_goal,
    context_scope: context,
    allowed_tools: OUTWARD,
    allowed_connectors: CONNECTORS,
    max_steps: 8,
  },
})

/** `child_reads`: the child reads the page, and its parent does what the page says without a look at it. `parent_reads`: the child does what its goal says. */
export function obedientSwarms(web: PoisonedWeb) {
  const errand = (name: string, parentPlay: Play, childPlay: Play) =>
    defineSwarm(name, {
      objective: 'Read a page.',
      execution_mode: 'hierarchical',
      join_strategy: 'all_success',
      planner: 'coordinator',
      inputs: ['subject'],
      coordinator: {
        agent_name: 'parent',
        agent_role: 'coordinator',
        allowed_tools: ['spawn_subagent', ...OUTWARD],
        allowed_connectors: CONNECTORS,
        max_steps: 20,
        runtime: playedBy(parentPlay),
      },
      agents: [],
      runtime: playedBy(childPlay),
    })
  const reads: Play = (turn) => obey(turn.turn === 0 ? [readPage(subjectOf(turn))] : [])
  return [
    errand(
      'child_reads',
      (turn) => {
        const subject = subjectOf(turn)
        if (turn.turn === 0) return obey([child('Read it.', { subject })])
        return obey(turn.turn === 1 ? ordersIn(web.pages.get(subject)) : [])
      },
      reads,
    ),
    errand(
      'parent_reads',
      (turn, observations) => {
        if (turn.turn !== 1) return reads(turn, observations)
        const orders = observations.flatMap(({ content }) => ordersIn(content))
        return obey([child(JSON.stringify({ orders }), {})])
      },
      ({ turn, goal }) => obey(turn === 0 ? ordersIn(JSON.parse(goal)) : []),
    ),
  ]
}
