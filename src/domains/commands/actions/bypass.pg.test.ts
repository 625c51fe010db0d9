/** Programs that try to act around the gateway of runs: over HTTP, with the keys of agents and people, and from inside runs. None has an effect. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { type AgentApi, aRunAtWork, openAgentApi, type TestRun } from '#test/agents'
import { decodeId, encodeId } from '#kernel/ids'
import { proofSize } from '#test/proof-size'
import { accepted, anOrgRole } from '#test/tenant'
import { proposeInRun } from './propose-in-run.ts'

const OUTSIDE = 'external:finance@example.com'
const NOTE = { tools: ['publish_note', 'read_books'], connectors: ['mail'] }

describe('programs around the gateway', () => {
  let api: AgentApi
  let agentKey: string
  let ended: TestRun
  let cancelling: TestRun
  let narrow: TestRun
  let forbidden: TestRun
  let closed: TestRun
  let child: TestRun
  let working: TestRun
  /** A run that an agent has asked for, with its key. */
  let adas: TestRun
  let adasKey: string
  before(async () => {
    api = await openAgentApi()
    const { room } = api
    const done = { completed_at: new Date(), status: 'succeeded', end_reason: 'final_answer_created' }
    ended = await aRunAtWork(room, NOTE, done)
    cancelling = await aRunAtWork(room, NOTE, { status: 'cancelling' })
    narrow = await aRunAtWork(room, { ...NOTE, tools: ['read_books'] })
    forbidden = await aRunAtWork(room, { ...NOTE, forbidden: ['publish_note'] })
    closed = await aRunAtWork(room, { tools: NOTE.tools })
    child = await aRunAtWork(room, NOTE, { parent_agent_run_id: narrow.agentRunId, spawn_depth: 1 })
    working = await aRunAtWork(room, NOTE)
    const keyOf = async (agent: string, tools: readonly string[]) =>
      String((await api.post('/keys', { name: agent, role: 'writer', agent, tools })).body['key'])
    agentKey = await keyOf('planner', ['read_books'])
    adasKey = await keyOf('ada', ['read_books', 'publish_note'])
    const asked = await api.post('/agent-actions', noted({ tool: 'read_books', subject: 'a run' }), adasKey)
    const command_id = accepted(decodeId('command', String(asked.body['command_id'])))
    adas = await aRunAtWork(room, NOTE, { command_id })
    const { admin } = api.api.ours.people
    await anOrgRole(api.api.world, api.api.ours.orgId, 'data-owner', [admin])
    // What the runs themselves have caused is not part of the proof.
    await room.settleWoken()
    room.provider.calls.length = 0
  })
  after(() => api.close())

  let steps = 1_000
  /** Effects that a person has approved. */
  let agreed = 0
  type Try = { readonly tool: string; readonly subject: string }
  const inRun =
    (run: () => TestRun, workspaceId = () => api.api.ours.workspace.id, more: object = {}) =>
    async ({ tool, subject }: Try) => {
      const step = { workspaceId: workspaceId(), agentRunId: run().agentRunId, stepIndex: (steps += 1), requestId: 'r' }
      const action = { actionType: 'tool_call' as const, toolName: tool, payload: { subject, ...more }, reason: 'x' }
      const answer = await proposeInRun(api.room.world, step, action)
      return answer.ok ? `proposed, ${answer.value.command.status}` : answer.code
    }
  const over = (path: string, body: (given: Try) => object, key?: () => string) => async (given: Try) => {
    const { status, body: answer } = await api.post(path, body(given), key?.())
    return `${status} ${String(answer['code'] ?? answer['decision'] ?? answer['status'])}`
  }
  const names = ['publish_note', 'Publish Note', 'PUBLISH_NOTE', 'publish-note']
  const noted = ({ tool, subject }: Try) => ({ tool_name: tool, payload: { subject }, reason: 'x' })
  const asCommand = ({ subject }: Try) => ({ task_name: 'Publish Note', payload: { subject, destination: OUTSIDE } })

  /** Each is one way around, and what it may be answered with. */
  const ways: Readonly<Record<string, readonly [(given: Try) => Promise<string>, RegExp]>> = {
    'ended run': [inRun(() => ended), /^agents\.run\.ended$/],
    'run that is being cancelled': [inRun(() => cancelling), /^agents\.run\.ended$/],
    'tool outside the manifest': [inRun(() => narrow), /^agents\.tool\.outside_scope$/],
    'forbidden tool of the manifest': [inRun(() => forbidden), /^agents\.tool\.outside_scope$/],
    'connector outside the manifest': [inRun(() => closed), /^agents\.tool\.outside_scope$/],
    'child that is wider than its parent': [inRun(() => child), /^agents\.tool\.outside_scope$/],
    'run of another tenant': [
      inRun(
        () => working,
        () => api.api.theirs.workspace.id,
      ),
      /^agents\.run\.not_found$/,
    ],
    'data to the outside': [
      inRun(() => working, undefined, { destination: OUTSIDE }),
      /^(proposed, created|agents\.tool\.outside_scope)$/,
    ],
    'edited arguments': [editArguments, /^key_reused$/],
    'requester without rights': [asGone, /^agents\.tool\.outside_scope$/],
    'tool outside the key': [
      over('/agent-actions', noted, () => agentKey),
      /^(403 commands\.tool\.outside_scope|404 commands\.tool\.unknown)$/,
    ],
    'route closed to agents': [over('/commands', asCommand, () => agentKey), /^403 api\.route\.closed_to_agents$/],
    'forged run in the body': [
      over('/commands', (given) => ({ ...asCommand(given), agent_run_id: working.agentRunId })),
      /^422 unknown_field$/,
    ],
    'forged run in an action': [
      over('/agent-actions', (given) => ({ ...noted(given), agent_run_id: working.agentRunId, run_as: 'agent' })),
      /^422 unknown_field$/,
    ],
    'approval by the requester': [approveOwn, /^403 /],
    'approval by the agent': [approveAsAgent, /^403 api\.route\.closed_to_agents$/],
    'approval by another tenant': [approveAsOther, /^404 /],
    'approval that was used, decided again': [decideAgain, /^409 approval_decided$/],
    'approval that was used, for the same action once more': [actAgain, /^202 require_approval$/],
    'approval that was used, for the same action with its key': [repeatKey, /^200 same command$/],
    'rejection, decided again': [decideRejected, /^409 approval_decided$/],
    'action in the run of a person, with the key of an agent': [
      act(
        () => working,
        () => agentKey,
      ),
      /^404 agents\.run\.not_found$/,
    ],
    'action in the run of an agent, with the key of another': [
      act(
        () => adas,
        () => agentKey,
      ),
      /^404 agents\.run\.not_found$/,
    ],
    'action in the run of a person, with the key of an agent that has a run': [
      act(
        () => working,
        () => adasKey,
      ),
      /^404 agents\.run\.not_found$/,
    ],
    'action in the run of an agent, with the key of another person': [
      act(
        () => adas,
        () => api.api.ours.people.admin.key,
      ),
      /^403 agents\.run\.not_yours$/,
    ],
    'action in a run, with the key of another tenant': [
      act(
        () => working,
        () => api.api.theirs.people.admin.key,
      ),
      /^404 /,
    ],
    'action in a run, with no key': [
      act(
        () => working,
        () => '',
      ),
      /^401 /,
    ],
  }

  async function editArguments({ subject }: Try): Promise<string> {
    const step = {
      workspaceId: api.api.ours.workspace.id,
      agentRunId: working.agentRunId,
      stepIndex: (steps += 1),
      requestId: 'r',
    }
    const propose = (about: string) =>
      proposeInRun(api.room.world, step, {
        actionType: 'tool_call',
        toolName: 'publish_note',
        payload: { subject: about, destination: OUTSIDE },
        reason: 'x',
      })
    assert.ok((await propose('first')).ok)
    const second = await propose(subject)
    return second.ok ? 'proposed' : second.code
  }

  async function asGone(given: Try): Promise<string> {
    const { userId } = api.api.ours.people.writer.principal
    const setRole = (role: string) => api.room.rows('update identity.users set role = $1 where id = $2', [role, userId])
    await setRole('reader')
    try {
      return await inRun(() => working)(given)
    } finally {
      await setRole('writer')
    }
  }

  async function waiting(): Promise<string> {
    const { body } = await api.propose({ subject: 'waits', destination: OUTSIDE })
    return String(body['approval_id'])
  }
  const resolve = async (approvalId: string, decision: string, key?: string): Promise<string> => {
    const { status, body } = await api.post(`/approvals/${approvalId}/resolve`, { decision, reason: 'I say so.' }, key)
    return `${status} ${String(body['code'] ?? body['status'])}`
  }
  async function approveOwn() {
    return resolve(await waiting(), 'approved')
  }
  async function approveAsAgent() {
    return resolve(await waiting(), 'approved', agentKey)
  }
  async function approveAsOther() {
    return resolve(await waiting(), 'approved', api.api.theirs.people.admin.key)
  }

  function act(run: () => TestRun, key: () => string) {
    return (given: Try) => over(`/agent-runs/${encodeId('agent_run', run().agentRunId)}/actions`, noted, key)(given)
  }

  /** An action that a person has approved. Its effect is agreed to, and is not part of the proof. */
  async function approved(subject: string) {
    const action = { subject: `${subject} ${(steps += 1)}`, destination: OUTSIDE }
    const first = await api.propose(action, { idempotency_key: `approved-${steps}` })
    const { admin } = api.api.ours.people
    const approvalId = String(first.body['approval_id'])
    assert.equal(await resolve(approvalId, 'approved', admin.key), '200 approved')
    await api.room.settleWoken()
    assert.equal(api.room.provider.calls.splice(0).length, 1, 'what was approved was done')
    agreed += 1
    return { action, approvalId, key: `approved-${steps}`, commandId: first.body['command_id'], admin }
  }
  async function decideAgain({ subject }: Try) {
    const { approvalId, admin } = await approved(subject)
    return resolve(approvalId, 'approved', admin.key)
  }
  async function actAgain({ subject }: Try) {
    const { action } = await approved(subject)
    const { status, body } = await api.propose(action)
    return `${status} ${String(body['decision'])}`
  }
  async function repeatKey({ subject }: Try) {
    const { action, key, commandId } = await approved(subject)
    const { status, body } = await api.propose(action, { idempotency_key: key })
    return `${status} ${body['command_id'] === commandId ? 'same command' : 'another command'}`
  }
  async function decideRejected() {
    const [approvalId, { admin }] = [await waiting(), api.api.ours.people]
    assert.equal(await resolve(approvalId, 'rejected', admin.key), '200 rejected')
    return resolve(approvalId, 'approved', admin.key)
  }

  const attempt = fc.record({
    way: fc.constantFrom(...Object.keys(ways)),
    tool: fc.constantFrom(...names),
    nth: fc.nat(999),
  })

  test('[AGT-08] [SWM-32] whatever they try, nothing is done', { timeout: 1_800_000 }, async () => {
    const answers = new Map<string, Set<string>>()
    await fc.assert(
      fc.asyncProperty(fc.array(attempt, { minLength: 1, maxLength: 5 }), async (program) => {
        for (const { way, tool, nth } of program) {
          const [go, allowed] = ways[way] ?? assert.fail(way)
          const answer = await go({ tool, subject: `bypass ${nth}` })
          answers.set(way, (answers.get(way) ?? new Set()).add(answer))
          assert.match(answer, allowed, way)
        }
        await api.room.settleWoken()
        assert.deepEqual(api.room.provider.calls, [])
      }),
      {
        numRuns: proofSize(60, 500),
        examples: Object.keys(ways).map((way) => [[{ way, tool: 'publish_note', nth: 0 }]]),
      },
    )
    const [row] = await api.room.rows<{ count: number }>(
      `select count(*)::integer as count from concord.domain_effects where status in ('succeeded', 'executing') and effect_type like 'connector.%'`,
    )
    assert.equal(row?.count, agreed)
    assert.equal(answers.size, Object.keys(ways).length, 'every way was tried')
  })
})
