/** The path as a process opens it, with an agent at its door and real servers on the other side that count what reaches them. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig } from '../../src/app/config.ts'
import { openLog } from '../../src/app/log.ts'
import { openArtifacts, openWork } from '../../src/app/open-work.ts'
import { writeArtifact } from '../../src/domains/artifacts/index.ts'
import { actingFor, agentGateway, type ActionView, proposeMemory } from '../../src/domains/commands/index.ts'
import type { RunScope } from '../../src/domains/memory/index.ts'
import { decodeId, encodeId } from '../../src/kernel/ids.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import { agentProject, mailLogin } from './agent-project.ts'
import { aCommand } from './concord-rows.ts'
import { openTestDb } from './database.ts'
import { openMisbehavingApi } from './misbehaving-api.ts'
import { openMisbehavingMail } from './misbehaving-mail.ts'
import { insertRow } from './store-rows.ts'
import { accepted, aTenant, aWorld, TRACE } from './tenant.ts'
import { until } from './until.ts'

export type AgentHouse = Awaited<ReturnType<typeof openAgentHouse>>

export async function openAgentHouse() {
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
  const { db } = opened
  const home = await mkdtemp(join(tmpdir(), 'concord-agents-'))
  const api = await openMisbehavingApi()
  const mail = await openMisbehavingMail(mailLogin)
  const identity = { ...aWorld(db), now: () => new Date() }
  const tenant = await aTenant(identity)
  const project = agentProject(api.url, mail.port)
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
  /** A run of an agent, as the room of agents would make one; it gives what the run may do. */
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
