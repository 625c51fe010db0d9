/**
 * A process with the runtime, that works on runs of agents. Argument: a JSON object.
 * - `finish`: submits the runs and works until all have ended, or a planned fault ends it.
 * - `wait`: submits them, works until each waits for an approval, and kills itself.
 * - `decide`: runs no turn, and decides the open approvals: of every second run yes, of the others no.
 */
import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { readConfig } from '../../src/app/config.ts'
import { openLog } from '../../src/app/log.ts'
import { openArtifacts } from '../../src/app/open-artifacts.ts'
import { openWork } from '../../src/app/open-work.ts'
import { systemDeps } from '../../src/app/system-deps.ts'
import { type AgentRuntime, defineAgent, scriptedRuntime } from '../../src/domains/agents/index.ts'
import { decideApproval } from '../../src/domains/approvals/index.ts'
import { actingFor, allow, ask, defineCommand, defineEffect, submitCommand } from '../../src/domains/commands/index.ts'
import type { Principal } from '../../src/domains/identity/index.ts'
import { byPerson } from '../../src/kernel/actor.ts'
import { openDb } from '../../src/store/db.ts'
import { aModel } from './fake-model.ts'
import { accepted, TRACE } from './tenant.ts'

export type RunChildTask = {
  readonly url: string
  readonly home: string
  readonly workspaceId: string
  readonly principal: Principal
  /** `Pay Run` pays three times; `Model Run` asks a model before each answer; `Ask Run` pays once if the owner agrees. */
  readonly agent: 'Pay Run' | 'Model Run' | 'Ask Run'
  readonly names: readonly string[]
  /** One line per payment and per answer that was asked for. */
  readonly ledger: string
  readonly modelUrl: string
  readonly act: 'finish' | 'wait' | 'decide'
}

const { url, home, workspaceId, principal, agent, names, ledger, modelUrl, act } = JSON.parse(
  process.argv[2] ?? '',
) as RunChildTask
const note = (line: string) => appendFileSync(ledger, `${line}\n`)

const paying = defineEffect('kill.pay', {
  input: z.object({ note: z.string() }),
  class: 'keyed',
  async do({ input, idempotencyKey }) {
    note(`paid ${idempotencyKey} ${input.note}`)
    return { paid: input.note }
  },
})
const input = z.object({ note: z.string() })
const pay = defineCommand('kill_pay', { input, policy: allow, steps: (given) => [paying(given)] })
const payIfAgreed = defineCommand('kill_ask', {
  input,
  policy: () => ask(1, 'owner'),
  steps: (given) => [paying(given)],
})
const scripted = scriptedRuntime()
/** The scripted runtime, which notes each answer that is asked for. */
const counted: AgentRuntime = {
  ...scripted,
  name: 'counted',
  startAgentRun: (turn) => (note(`asked ${turn.agentRunId} ${turn.turn}`), scripted.startAgentRun(turn)),
  resumeAgentRun: (turn, seen) => (note(`asked ${turn.agentRunId} ${turn.turn}`), scripted.resumeAgentRun(turn, seen)),
}
const question = {
  model: 'small',
  messages: [{ role: 'user' as const, content: 'Go on?' }],
  tools: [],
  outputTokensMax: 100,
}
/** The scripted runtime, which asks a model before each answer. */
const paid: AgentRuntime = {
  ...scripted,
  name: 'paid',
  startAgentRun: async (turn) => (await turn.askModel(question), scripted.startAgentRun(turn)),
  resumeAgentRun: async (turn, seen) => (await turn.askModel(question), scripted.resumeAgentRun(turn, seen)),
}
const call = (nth: number) => ({ tool: 'kill_pay', payload: { note: String(nth) } })
const payThrice = [{ calls: [call(0), call(1)] }, { calls: [call(2)] }, { final: { text: 'paid' } }]
const common = { input: z.object({ name: z.string() }), goal: 'Pay.', role: 'worker' }
const agents = [
  defineAgent('Pay Run', { ...common, tools: ['kill_pay'], runtime: { name: 'counted', transcript: payThrice } }),
  defineAgent('Model Run', {
    ...common,
    tools: ['kill_pay'],
    connectors: ['small'],
    runtime: { name: 'paid', transcript: payThrice },
    model: { model: 'small' },
    limits: { max_cost_units: 5 },
  }),
  defineAgent('Ask Run', {
    ...common,
    tools: ['kill_ask'],
    runtime: {
      name: 'counted',
      transcript: [{ calls: [{ tool: 'kill_ask', payload: { note: 'asked' } }] }, { final: { heard: '$observation' } }],
    },
  }),
]

const db = openDb({ url, role: 'concord_engine', poolMax: 10 })
const system = systemDeps()
const prices = { input: '100', output: '200' }
const models = modelUrl === '' ? [] : [aModel(modelUrl, { prices, contextTokens: 300, outputTokensMax: 100 })]
const offered = agents.filter(({ name }) => name === agent)
const project = { catalog: [pay, payIfAgreed], agents: offered, agentRuntimes: [counted, paid], models }
const artifacts = accepted(openArtifacts(db, system, accepted(readConfig({ CONCORD_HOME: home }, home)), project))
const options = { artifacts, defaultWorkspace: workspaceId, works: act !== 'decide' }
const work = accepted(await openWork(db, system, project, openLog('silent'), options))

async function submitAll(): Promise<void> {
  for (const name of names) {
    const of = { workspaceId, taskName: agent, payload: { name }, idempotencyKey: name }
    const by = actingFor(principal, TRACE)
    accepted(await submitCommand(work.commands, by, { ...of, ingress: 'user_request', requestId: 'req_kill' }))
  }
}

/** Works until no command of the names meets the condition. */
async function workWhile(condition: string): Promise<void> {
  const open = () =>
    db.query(`select from concord.commands as c where c.idempotency_key = any($1) and ${condition}`, [names])
  while ((await open()).length > 0) await pause(50)
}

async function decideAll(): Promise<void> {
  const rows = await db.query<{ approval_id: string; name: string }>(
    `select a.approval_id, k.idempotency_key as name from concord.approvals as a
       join concord.commands as c on c.command_id = a.command_id
       join concord.agent_runs as r on r.agent_run_id = c.agent_run_id
       join concord.commands as k on k.command_id = r.command_id
      where a.status = 'pending' and k.idempotency_key = any($1)`,
    [names],
  )
  const owner = byPerson({ ...principal, orgRoles: ['owner'] }, TRACE)
  for (const { approval_id: approvalId, name } of rows) {
    const decision = names.indexOf(name) % 2 === 0 ? 'approved' : 'rejected'
    const answer = { workspaceId, approvalId, decision, reason: `${decision}: ${name}`, traceId: TRACE }
    accepted(await decideApproval(work.approvals, owner, answer))
  }
}

if (act === 'decide') await decideAll()
else await submitAll()
if (act === 'wait') {
  await workWhile(`not exists (select from concord.agent_runs as r
    where r.command_id = c.command_id and r.status = 'waiting_for_approval' and r.turn_token is null)`)
  process.kill(process.pid, 'SIGKILL')
}
if (act === 'finish') await workWhile('c.completed_at is null')
await work.close()
await db.close()
