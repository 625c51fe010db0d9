/**
 * Data safety before anything leaves the house or is kept, for what agents propose: the five places, on the path as a process opens it,
 * with real servers on the other side that count what reaches them.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { decideApproval } from '#domains/approvals'
import { defineArtifactType, writeArtifact } from '#domains/artifacts'
import {
  actingFor,
  agentGateway,
  type ActionView,
  defineCommandType,
  type Definition,
  defineFunction,
  defineTask,
  proposeMemory,
} from '#domains/commands'
import { httpConnector, notificationConnector } from '#domains/connectors'
import type { RunScope } from '#domains/memory'
import { errorClasses } from '#kernel/error-classes'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { aCommand } from '#test/concord-rows'
import { testSecrets } from '#test/connectors'
import { openTestDb, type TestDb } from '#test/database'
import { type MisbehavingApi, openMisbehavingApi } from '#test/misbehaving-api'
import { openMisbehavingMail } from '#test/misbehaving-mail'
import { insertRow } from '#test/store-rows'
import { accepted, aTenant, aWorld, type Tenant, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { readConfig } from './config.ts'
import { openLog } from './log.ts'
import { openArtifacts } from './open-artifacts.ts'
import { type OpenedWork, openWork } from './open-work.ts'
import type { Project } from './project.ts'

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

describe('data safety', () => {
  let opened: TestDb
  let tenant: Tenant
  let work: OpenedWork
  let api: MisbehavingApi
  let mail: Awaited<ReturnType<typeof openMisbehavingMail>>
  let home: string

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 6 })
    const { db } = opened
    home = await mkdtemp(join(tmpdir(), 'concord-safety-'))
    api = await openMisbehavingApi()
    mail = await openMisbehavingMail({ user: 'concord', pass: 'canary-mail-0123456789' })
    const identity = { ...aWorld(db), now: () => new Date() }
    tenant = await aTenant(identity)
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
    const project: Project = {
      connectors: [
        httpConnector({
          name: 'partner',
          description: 'Another company; what is personal is not theirs.',
          base_url: api.url,
          reach,
          data_class_max: 'pii',
          operations: [operation('tell'), operation('sync')],
        }),
        notificationConnector({
          webhook: { url: `${api.url}/notify`, secret_ref: 'vault://notify', reach },
          email: {
            host: '127.0.0.1',
            port: mail.port,
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
      secrets: testSecrets({ notify: '0123456789abcdef0123456789abcdef', mail: 'concord:canary-mail-0123456789' }),
    }
    const world = { ...identity, random: Math.random, randomBytes: (count: number) => randomBytes(count) }
    const config = accepted(readConfig({ CONCORD_HOME: home }, home))
    const artifacts = accepted(openArtifacts(db, world, config, project))
    const options = { artifacts, defaultWorkspace: tenant.workspace.id }
    work = accepted(await openWork(db, world, project, openLog('silent'), options))
  })
  after(async () => {
    await work?.close()
    await api?.close()
    await mail?.close()
    await opened?.close()
    await rm(home, { recursive: true, force: true })
  })

  const principal = () => tenant.people.writer.principal
  const ask = async (toolName: string, payload: JsonObject, by = principal()): Promise<ActionView> => {
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
      const [row] = await opened.db.query<{ status: string }>(
        'select status from concord.commands where command_id = $1',
        [id],
      )
      status = row?.status ?? ''
      return ['succeeded', 'failed', 'waiting_for_approval'].includes(status)
    }, 'rest')
    return status
  }

  const outside = { destination: 'external:partner' }
  const personal = { note: 'Hello.', customer: 'Ada Lovelace' }

  /** The same three questions for each way out of the house; `path` is where its calls arrive. */
  async function checkWayOut(toolName: string, path: string): Promise<void> {
    const arrived = () => api.requests.filter(({ url }) => url === path).length
    const before = arrived()
    const denied = await ask(toolName, { ...personal, ...outside })
    assert.deepEqual([denied.decision, await restOf(denied)], ['deny', 'failed'])
    assert.deepEqual(denied.reasons, ['Data of the class pii does not leave the house.'])
    const asked = await ask(toolName, { note: 'Hello.', ...outside })
    assert.deepEqual([asked.decision, await restOf(asked)], ['require_approval', 'waiting_for_approval'])
    const lied = await ask(toolName, { ...personal, destination: 'internal' })
    assert.deepEqual([lied.decision, await restOf(lied)], ['require_approval', 'waiting_for_approval'])
    assert.deepEqual(lied.reasons, ['An agent would hand data of the class pii to another system.'])
    assert.equal(arrived(), before, 'nothing has left the house')
    const inside = await ask(toolName, { note: 'Hello.', destination: 'internal' })
    assert.deepEqual([inside.decision, await restOf(inside)], ['allow', 'succeeded'])
    assert.equal(arrived(), before + 1, 'and the way is open for what may go')
  }

  test('[SEC-05] before an external tool call', () => checkWayOut('call_partner', '/tell'))

  test('[SEC-05] before an external notification', () => checkWayOut('notify_partner', '/notify'))

  test('[SEC-05] before a connector sync', () => checkWayOut('sync_partner', '/sync'))

  test('[SEC-05] before an artifact is published', async () => {
    const write = async (type: string) => {
      const { command_id: commandId } = await aCommand(opened.db, tenant.workspace.id)
      const createdBy = `user:${principal().userId}`
      const draft = {
        type,
        content: { text: type },
        createdBy,
        step: type,
        workspaceId: tenant.workspace.id,
        commandId,
      }
      const { artifact_id, checksum } = accepted(
        await writeArtifact(work.artifacts, { actor: 'worker', kind: 'worker', traceId: TRACE }, draft),
      )
      return { artifact_id: encodeId('artifact', artifact_id), checksum }
    }
    const publications = async () => {
      const rows = await opened.db.query(`select 1 from concord.domain_events where event_type = 'artifact_published'`)
      return rows.length
    }
    const customers = await write('customer_list')
    const denied = await ask('publish_artifact', { ...customers, ...outside })
    assert.deepEqual([denied.decision, await restOf(denied)], ['deny', 'failed'])
    const prices = await write('price_list')
    const asked = await ask('publish_artifact', { ...prices, ...outside })
    assert.deepEqual([asked.decision, await restOf(asked)], ['require_approval', 'waiting_for_approval'])
    assert.equal(await publications(), 0)
    const inside = await ask('publish_artifact', { ...prices, destination: 'internal' })
    assert.deepEqual([inside.decision, await restOf(inside)], ['allow', 'succeeded'])
    assert.equal(await publications(), 1)
  })

  test('[SEC-05] before a memory is written', async () => {
    const { command_id } = await aCommand(opened.db, tenant.workspace.id)
    const scope = {
      subject_type: 'customer',
      subject_id: 'c1',
      allowed_memory_types: ['preference'],
      read: [],
      write: [],
    } as unknown as RunScope
    const agentRunId = work.commands.newId()
    await insertRow(opened.db, 'concord.agent_runs', {
      agent_run_id: agentRunId,
      workspace_id: tenant.workspace.id,
      command_id,
      agent_name: 'Ada',
      agent_role: 'analyst',
      status: 'running',
      goal: 'find out',
      memory_scope: scope,
    })
    const remember = async (content: JsonObject) => {
      const memory = {
        subject_type: 'customer',
        subject_id: 'c1',
        scope: 'user',
        memory_type: 'preference',
        content,
      } as const
      const by = { ...actingFor(principal(), TRACE), principal: principal() }
      const ids = { workspaceId: tenant.workspace.id, requestId: 'r' }
      return proposeMemory(work.commands, work.memory, by, { ...ids, memory, run: { agentRunId, scope } })
    }
    const ruled = async (content: JsonObject) => {
      const { command } = accepted(await remember(content))
      let trace: { rule: string; answer: string }[] = []
      await until(async () => {
        const [row] = await opened.db.query<{ trace: typeof trace }>(
          `select payload->'trace' as trace from concord.domain_events where command_id = $1 and event_type = 'policy_evaluated'`,
          [command.command_id],
        )
        trace = row?.trace ?? []
        return row !== undefined
      }, 'the decision')
      return trace.find(({ rule }) => rule === 'memory_data_safety')?.answer
    }
    assert.equal(await ruled({ seat: 'aisle' }), 'allow')
    assert.equal(await ruled({ mail: 'ada@example.com' }), 'require_approval')
    const secret = await remember({ note: 'sk_live_4242424242424242424242' })
    assert.equal(secret.ok ? '' : secret.code, 'memory.content.secret')
    assert.deepEqual(await opened.db.query('select 1 from concord.memory_records'), [])
  })

  test('[EXM-04] an agent’s mail to finance@example.com waits for the owner of the data, and is sent once', async () => {
    const asked = await ask('send_notification', { note: 'May is done.', destination: 'finance@example.com' })
    assert.deepEqual([asked.decision, mail.taken.length], ['require_approval', 0])
    assert.match(asked.command_id, /^cmd_/)
    const approvalId = accepted(decodeId('approval', asked.approval_id ?? ''))
    const { principal: admin } = tenant.people.admin
    const answer = { workspaceId: tenant.workspace.id, approvalId, decision: 'approved', reason: 'so', traceId: TRACE }
    accepted(await decideApproval(work.approvals, { ...admin, orgRoles: ['data-owner'] }, answer))
    await until(async () => (await restOf(asked)) === 'succeeded', 'the mail')
    assert.equal(mail.taken.length, 1)
    assert.match(mail.taken[0] ?? '', /^To: finance@example\.com/im)
    const twice = await decideApproval(work.approvals, { ...admin, orgRoles: ['data-owner'] }, answer)
    assert.equal(twice.ok, false)
    assert.equal(mail.taken.length, 1)
  })

  test('each of these ways is a command that policy was asked about; an agent of somebody without rights is stopped on all of them', async () => {
    const before = api.requests.length
    const { principal: reader } = tenant.people.reader
    const note = { note: 'Hello.', destination: 'internal' }
    const artifact = { artifact_id: encodeId('artifact', work.commands.newId()), checksum: `sha256:${'0'.repeat(64)}` }
    const candidate = { memory_candidate_id: work.commands.newId() }
    const target = { command_id: encodeId('command', work.commands.newId()) }
    const ways: [string, JsonObject][] = [
      ['call_partner', note],
      ['notify_partner', note],
      ['sync_partner', note],
      ['publish_artifact', { ...artifact, destination: 'internal' }],
      ['write_memory', candidate],
      ['compensate_command', target],
    ]
    for (const [toolName, payload] of ways) {
      const stopped = await ask(toolName, payload, reader)
      assert.deepEqual([stopped.decision, await restOf(stopped)], ['deny', 'failed'], toolName)
      assert.ok(stopped.reasons.includes('The requester may not act in this workspace.'), toolName)
      const rows = await opened.db.query(
        `select 1 from concord.domain_events where command_id = $1 and event_type in ('command_created', 'policy_evaluated')`,
        [accepted(decodeId('command', stopped.command_id))],
      )
      assert.equal(rows.length, 2, toolName)
    }
    assert.equal(api.requests.length, before)
  })
})
