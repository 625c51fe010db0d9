/** A process with the runtime, that submits swarms and works until all have ended or it is killed. Argument: a JSON object. */
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { readConfig } from '../../src/app/config.ts'
import { openLog } from '../../src/app/log.ts'
import { openArtifacts } from '../../src/app/open-artifacts.ts'
import { openWork } from '../../src/app/open-work.ts'
import { systemDeps } from '../../src/app/system-deps.ts'
import { type AgentRuntime, type AgentTurn, defineSwarm } from '../../src/domains/agents/index.ts'
import { actingFor, allow, defineCommand, defineEffect, submitCommand } from '../../src/domains/commands/index.ts'
import type { Principal } from '../../src/domains/identity/index.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import { openDb } from '../../src/store/db.ts'
import { aModel } from './fake-model.ts'
import { accepted, TRACE } from './tenant.ts'

/** `parts`: two agents pay, and their parts are put together. `select`: a judge selects one of two. `nested`: an agent starts one that pays. */
export const killedSwarms = ['parts', 'select', 'nested'] as const

export type SwarmChildTask = {
  readonly url: string
  readonly home: string
  readonly modelUrl: string
  readonly workspaceId: string
  readonly principal: Principal
  readonly swarms: readonly { readonly key: string; readonly kind: (typeof killedSwarms)[number] }[]
  /** One line for each payment, each refund, and each answer that was asked for. */
  readonly ledger: string
}

async function main(task: SwarmChildTask): Promise<void> {
  const { url, home, modelUrl, workspaceId, principal, swarms, ledger } = task
  const note = (line: string) => appendFileSync(ledger, `${line}\n`)
  const db = openDb({ url, role: 'concord_engine', poolMax: 10 })
  const system = systemDeps()
  const project = {
    catalog: [payTool(note)],
    swarms: swarmsOf(),
    agentRuntimes: [playedRuntime(note)],
    models: [aModel(modelUrl, { prices: { input: '100', output: '200' }, contextTokens: 300, outputTokensMax: 100 })],
  }
  const artifacts = accepted(openArtifacts(db, system, accepted(readConfig({ CONCORD_HOME: home }, home)), project))
  const options = { artifacts, defaultWorkspace: workspaceId }
  const work = accepted(await openWork(db, system, project, openLog('silent'), options))
  for (const { key, kind } of swarms) {
    const input = { workspaceId, taskName: `kill_${kind}`, payload: { name: key }, idempotencyKey: key }
    const by = actingFor(principal, TRACE)
    accepted(await submitCommand(work.commands, by, { ...input, ingress: 'user_request', requestId: 'req_kill' }))
  }
  process.stdout.write('submitted\n')
  const keys = swarms.map(({ key }) => key)
  for (;;) {
    const open = await db.query(
      `select 1 from concord.commands where completed_at is null and (idempotency_key = any($1) or command_type = 'undo_command')`,
      [keys],
    )
    if (open.length === 0) break
    await pause(50)
  }
  await work.close()
  await db.close()
}

function payTool(note: (line: string) => void) {
  const paying = defineEffect('kill.pay', {
    input: z.object({ who: z.string() }),
    class: 'keyed',
    async do({ input, idempotencyKey }) {
      note(`paid ${idempotencyKey} ${input.who}`)
      return { key: idempotencyKey, who: input.who }
    },
    async undo({ result }) {
      note(`refunded ${result.key} ${result.who}`)
    },
  })
  return defineCommand('kill_pay', {
    input: z.object({ who: z.string() }),
    policy: allow,
    steps: (input) => [paying(input)],
    task: { ingress_types: ['agent_action'] },
  })
}

function swarmsOf() {
  const common = { allowed_connectors: ['small'], max_steps: 10 }
  const coordinator = {
    ...common,
    agent_name: 'lead',
    agent_role: 'coordinator',
    allowed_tools: ['spawn_subagent', 'create_artifact'],
    max_steps: 20,
  }
  const agent = (agent_name: string, play: string, agent_role = 'worker') => ({
    ...common,
    agent_name,
    agent_role,
    delegated_goal: agent_name,
    allowed_tools: ['create_artifact', 'kill_pay', ...(play === 'spawner' ? ['spawn_subagent'] : [])],
    runtime: { name: 'played', play },
  })
  const shared = {
    objective: 'Pay.',
    coordinator,
    inputs: ['name'],
    limits: { max_cost_units: 100 },
    model: { model: 'small' },
    runtime: { name: 'played', play: 'payer' },
  }
  return [
    defineSwarm('kill_parts', {
      ...shared,
      execution_mode: 'parallel',
      join_strategy: 'map_reduce',
      agents: [agent('a', 'payer'), agent('b', 'payer')],
    }),
    defineSwarm('kill_select', {
      ...shared,
      execution_mode: 'competitive',
      join_strategy: 'evaluator_selection',
      agents: [agent('a', 'payer'), agent('b', 'payer'), agent('judge', 'judge', 'evaluator')],
    }),
    defineSwarm('kill_nested', {
      ...shared,
      execution_mode: 'hierarchical',
      join_strategy: 'all_success',
      agents: [agent('a', 'spawner')],
    }),
  ]
}

const call = (tool: string, payload: JsonObject, id = tool) => ({
  id,
  actionType: 'tool_call' as const,
  toolName: tool,
  payload,
  reason: 'It is needed.',
})

/** Each answer costs one call of the model. What the agent does is fixed by its setting and its turn. */
function playedRuntime(note: (line: string) => void): AgentRuntime {
  const answer = async (turn: AgentTurn) => {
    note(`asked ${turn.agentRunId} ${turn.turn}`)
    const said = [{ role: 'user' as const, content: 'Go on.' }]
    await turn.askModel({ model: 'small', messages: said, tools: [], outputTokensMax: 100 })
    const calls = turn.isLast ? [] : callsOf(turn)
    return { text: null, calls, final: calls.length === 0 ? { text: 'done' } : null }
  }
  return { name: 'played', startAgentRun: answer, resumeAgentRun: answer, cancelAgentRun: async () => {} }
}

function callsOf({ turn, goal, context, messages, runtimeConfig }: AgentTurn) {
  const { play } = runtimeConfig
  const who = `${typeof context['name'] === 'string' ? context['name'] : ''}/${goal}`
  if (play === 'payer' && turn === 0) return [call('kill_pay', { who })]
  if (play === 'payer' && turn === 1) return [call('create_artifact', { type: 'analysis', content: { text: who } })]
  if (play === 'spawner' && turn === 0) {
    const child = { agent_name: 'x', agent_role: 'worker', delegated_goal: 'x', context_scope: context, max_steps: 5 }
    return [
      call('spawn_subagent', {
        ...child,
        allowed_tools: ['create_artifact', 'kill_pay'],
        allowed_connectors: ['small'],
      }),
    ]
  }
  if (play !== 'judge' || turn > 0) return []
  const told = messages.flatMap((message) => {
    const content = message.role === 'agent' ? (message.content as JsonObject | null) : null
    return Array.isArray(content?.['artifact_ids']) ? content['artifact_ids'].map(String) : []
  })
  return told.map((subject, nth) => {
    const json = {
      evaluation_type: 'evaluator_ranking',
      decision: 'pass',
      confidence: 0.6 + nth / 10,
      issues: [],
      recommendation: 'Use it.',
    }
    return call('create_artifact', { type: 'evaluation_result', content: { json }, sources: [subject] }, `c${nth}`)
  })
}

if (process.argv[1] === import.meta.filename) await main(JSON.parse(process.argv[2] ?? '') as SwarmChildTask)
