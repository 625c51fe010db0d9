/** Agents in tests: they propose in a room of commands, over HTTP, and in a whole process with real servers on the other side. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { readConfig } from '../../src/app/config.ts'
import { openLog } from '../../src/app/log.ts'
import { openArtifacts } from '../../src/app/open-artifacts.ts'
import { openWork } from '../../src/app/open-work.ts'
import type { AgentDeps } from '../../src/domains/agents/index.ts'
import { writeArtifact } from '../../src/domains/artifacts/index.ts'
import {
  actingFor,
  type ActionView,
  agentGateway,
  proposeAction,
  type ProposeAction,
  type ProposedAction,
  proposeMemory,
  stopDefinitions,
} from '../../src/domains/commands/index.ts'
import type { Principal } from '../../src/domains/identity/index.ts'
import type { RunScope } from '../../src/domains/memory/index.ts'
import { decodeId, encodeId } from '../../src/kernel/ids.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import type { Decision } from '../../src/kernel/refusal.ts'
import { call, openTestApi, type TestApi } from './api.ts'
import type { CountedInvited } from '../../src/domains/approvals/index.ts'
import { countingInvited, openRoomOn, type TestRoom } from './commands.ts'
import { aCommand } from './concord-rows.ts'
import { openTestDb } from './database.ts'
import { openMisbehavingApi } from './misbehaving-api.ts'
import { openMisbehavingMail } from './misbehaving-mail.ts'
import { agentTools } from './projects/commands.ts'
import { mailLogin, partnerProject } from './projects/connectors.ts'
import { insertRow } from './store-rows.ts'
import { accepted, aTenant, aWorld, TRACE } from './tenant.ts'
import { until } from './until.ts'

/** Runs the turns of the room, as a worker would, until the answer is there. */
export async function driveUntil<Answer>(room: TestRoom, asked: Promise<Answer>): Promise<Answer> {
  let isAnswered = false
  const answer = asked.finally(() => {
    isAnswered = true
  })
  while (!isAnswered) {
    await room.settleWoken()
    await pause(2)
  }
  return answer
}

export type Proposal = Partial<ProposeAction> & Pick<ProposeAction, 'toolName'>

export function propose(room: TestRoom, principal: Principal, action: Proposal): Promise<Decision<ProposedAction>> {
  const proposed = proposeAction(
    room.world,
    { ...actingFor(principal, TRACE), principal },
    {
      workspaceId: room.tenant.workspace.id,
      payload: { subject: 's' },
      reason: 'The user asked for it.',
      requestId: 'req_test',
      ...action,
    },
  )
  return driveUntil(room, proposed)
}

export type TestRun = { readonly agentRunId: string; readonly commandId: string }

type RunTools = {
  readonly tools?: readonly string[]
  readonly forbidden?: readonly string[]
  readonly connectors?: readonly string[]
}

/** A run at work, asked for by the writer. `more` replaces columns of its row. */
export async function aRunAtWork(
  room: Pick<TestRoom, 'db' | 'clock' | 'tenant' | 'submit'>,
  { tools = [], forbidden = [], connectors = [] }: RunTools,
  more: Readonly<Record<string, unknown>> & { readonly command_id?: string } = {},
): Promise<TestRun> {
  const commandId = more.command_id ?? (await room.submit({ subject: 'a run' }))
  const agentRunId = room.clock.newId()
  const lists = { allowed_tools: tools, forbidden_tools: forbidden, allowed_connectors: connectors }
  const of = { workspace_id: room.tenant.workspace.id, command_id: commandId }
  const parent_agent_run_id = more['parent_agent_run_id']
  // A run of a parent has a swarm, and the request of the parent.
  const below = { swarm_run_id: room.clock.newId(), invocation_id: room.clock.newId() }
  const swarm = { execution_mode: 'hierarchical', join_strategy: 'all_success', status: 'running', objective: 'x' }
  const request = { invocation_type: 'spawn', delegated_goal: 'find out', max_steps: 5, spawn_depth: 1 }
  await room.db.transaction(async (tx) => {
    if (parent_agent_run_id !== undefined)
      await insertRow(tx, 'concord.swarm_runs', { ...of, ...swarm, swarm_run_id: below.swarm_run_id })
    await insertRow(tx, 'concord.agent_runs', {
      ...of,
      agent_run_id: agentRunId,
      agent_name: 'Ada',
      agent_role: 'analyst',
      status: 'running',
      goal: 'find out',
      ...Object.fromEntries(Object.entries(lists).map(([column, names]) => [column, JSON.stringify(names)])),
      ...(parent_agent_run_id === undefined ? {} : { ...below, spawn_depth: 1 }),
      ...more,
    })
    if (parent_agent_run_id !== undefined)
      await insertRow(tx, 'concord.agent_invocations', {
        ...of,
        ...request,
        ...below,
        parent_agent_run_id,
        child_agent_run_id: agentRunId,
      })
  })
  return { agentRunId, commandId }
}

type Answer = { readonly status: number; readonly body: Record<string, unknown> }

export type AgentApi = {
  readonly api: TestApi
  readonly room: TestRoom
  /** Uses the key of our writer unless another one is given; an empty key sends none. */
  post(path: string, body: unknown, key?: string): Promise<Answer>
  get(path: string, key?: string): Promise<Answer>
  /** Proposes to publish a note; `more` replaces fields of the body. */
  propose(payload: object, more?: object, key?: string): Promise<Answer>
  count(table: 'commands' | 'domain_events' | 'approvals'): Promise<number>
  close(): Promise<void>
}

/** The API with the tools of agents. Turns run while a request waits for its answer. */
export async function openAgentApi(invited: CountedInvited = 'by_others'): Promise<AgentApi> {
  const api = await openTestApi()
  const more = () => [...agentTools(), ...stopDefinitions(() => room.world)]
  const room: TestRoom = openRoomOn(api.world, api.ours, countingInvited(invited), more)
  const none = new Map()
  const models = { call: () => Promise.reject(new Error('There is no model.')), find: () => undefined }
  const agents = { commands: room.world, agents: none, swarms: none, runtimes: none, models } as unknown as AgentDeps
  const app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [], agents } })
  const writer = api.ours.people.writer.key
  const ask = async (path: string, method: string, body: unknown, key: string): Promise<Answer> => {
    const asked = call(app, path, {
      method,
      ...(key === '' ? {} : { key }),
      ...(body === undefined ? {} : { body }),
      headers: { 'x-workspace': 'main' },
    })
    const answer = await driveUntil(room, asked)
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }
  const post = (path: string, body: unknown, key = writer) => ask(path, 'POST', body, key)
  return {
    api,
    room,
    post,
    get: (path, key = writer) => ask(path, 'GET', undefined, key),
    propose: (payload, more = {}, key = writer) =>
      post('/agent-actions', { tool_name: 'publish_note', payload, reason: 'The user asked for it.', ...more }, key),
    async count(table) {
      const [row] = await room.rows<{ count: number }>(`select count(*)::integer as count from concord.${table}`)
      return row?.count ?? 0
    },
    async close() {
      await room.close()
      await api.close()
    },
  }
}

export type AgentWork = Awaited<ReturnType<typeof openAgentWork>>

/** The work of a process, with an agent, an artifact store, and a partner and a mail server that count what reaches them. */
export async function openAgentWork() {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
  const { db } = opened
  const home = await mkdtemp(join(tmpdir(), 'concord-agents-'))
  const api = await openMisbehavingApi()
  const mail = await openMisbehavingMail(mailLogin)
  const identity = { ...aWorld(db), now: () => new Date() }
  const tenant = await aTenant(identity)
  const project = partnerProject(api.url, mail.port)
  const world = { ...identity, random: Math.random, randomBytes: (count: number) => randomBytes(count) }
  const config = accepted(readConfig({ CONCORD_HOME: home }, home))
  const artifacts = accepted(openArtifacts(db, world, config, project))
  const options = { artifacts, defaultWorkspace: tenant.workspace.id }
  const work = accepted(await openWork(db, world, project, openLog('silent'), options))

  const { principal } = tenant.people.writer
  const ask = async (toolName: string, payload: JsonObject, by = principal): Promise<ActionView> => {
    const within = { workspaceId: tenant.workspace.id, requestId: 'r', waitMs: 90_000 }
    const gateway = agentGateway(work.commands, { ...actingFor(by, TRACE), principal: by }, within)
    const answer = await gateway.propose({ toolName, payload, reason: 'The user asked for it.' })
    assert.ok('decision' in answer, JSON.stringify(answer))
    return answer
  }
  const restOf = async (answer: ActionView): Promise<string> => {
    const id = accepted(decodeId('command', answer.command_id))
    let status = ''
    await until(async () => {
      const [row] = await db.query<{ status: string }>('select status from concord.commands where command_id = $1', [
        id,
      ])
      status = row?.status ?? ''
      return ['succeeded', 'failed', 'waiting_for_approval'].includes(status)
    }, 'rest')
    return status
  }

  const write = async (type: string) => {
    const { command_id: commandId } = await aCommand(db, tenant.workspace.id)
    const createdBy = `user:${principal.userId}`
    const draft = {
      type,
      content: { text: type },
      createdBy,
      step: type,
      workspaceId: tenant.workspace.id,
      commandId,
    }
    const { artifact_id, checksum } = accepted(
      await writeArtifact(work.artifacts, { id: 'worker', kind: 'worker', traceId: TRACE }, draft),
    )
    return { artifact_id: encodeId('artifact', artifact_id), checksum }
  }
  const publications = async () => {
    const rows = await db.query(`select 1 from concord.domain_events where event_type = 'artifact_published'`)
    return rows.length
  }
  /** A run of an agent; returns the function with which the run proposes memory. */
  const aRememberingRun = async () => {
    const { command_id } = await aCommand(db, tenant.workspace.id)
    const scope = {
      subject_type: 'customer',
      subject_id: 'c1',
      allowed_memory_types: ['preference'],
      read: [],
      write: [],
    } as unknown as RunScope
    const agentRunId = work.commands.newId()
    await insertRow(db, 'concord.agent_runs', {
      agent_run_id: agentRunId,
      workspace_id: tenant.workspace.id,
      command_id,
      agent_name: 'Ada',
      agent_role: 'analyst',
      status: 'running',
      goal: 'find out',
      memory_scope: scope,
    })
    return async (content: JsonObject) => {
      const memory = {
        subject_type: 'customer',
        subject_id: 'c1',
        scope: 'user',
        memory_type: 'preference',
        content,
      } as const
      const by = { ...actingFor(principal, TRACE), principal: principal }
      const ids = { workspaceId: tenant.workspace.id, requestId: 'r' }
      return proposeMemory(work.commands, work.memory, by, { ...ids, memory, run: { agentRunId, scope } })
    }
  }

  return {
    db,
    tenant,
    work,
    api,
    mail,
    ask,
    restOf,
    write,
    publications,
    aRememberingRun,
    async close() {
      await work.close()
      await api.close()
      await mail.close()
      await opened.close()
      await rm(home, { recursive: true, force: true })
    },
  }
}
