/**
 * Data safety before anything leaves the organisation or is kept, for what agents propose: the five places, on the path as a process opens it,
 * with real servers on the other side that count what reaches them.
 */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type AgentWork, openAgentWork } from '#test/agents'
import { accepted, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { byPerson } from '#kernel/actor'

describe('data safety', () => {
  let agent: AgentWork
  before(async () => {
    agent = await openAgentWork()
  })
  after(() => agent?.close())

  const outside = { destination: 'external:partner' }
  const personal = { note: 'Hello.', customer: 'Ada Lovelace' }

  /** The same four questions for each way out of the organisation; `path` is where its calls arrive. */
  async function checkWayOut(toolName: string, path: string): Promise<void> {
    const arrived = () => agent.api.requests.filter(({ url }) => url === path).length
    const before = arrived()
    const denied = await agent.ask(toolName, { ...personal, ...outside })
    assert.deepEqual([denied.decision, await agent.restOf(denied)], ['deny', 'failed'])
    assert.deepEqual(denied.reasons, ['Data of the class pii does not leave the organisation.'])
    const asked = await agent.ask(toolName, { note: 'Hello.', ...outside })
    assert.deepEqual([asked.decision, await agent.restOf(asked)], ['require_approval', 'waiting_for_approval'])
    const lied = await agent.ask(toolName, { ...personal, destination: 'internal' })
    assert.deepEqual([lied.decision, await agent.restOf(lied)], ['require_approval', 'waiting_for_approval'])
    assert.deepEqual(lied.reasons, ['An agent would hand data of the class pii to another system.'])
    assert.equal(arrived(), before, 'nothing has left the organisation')
    for (const destination of ['internal', 'Ada@NOTES.example']) {
      const inside = await agent.ask(toolName, { note: 'Hello.', destination })
      assert.deepEqual([inside.decision, await agent.restOf(inside)], ['allow', 'succeeded'])
    }
    assert.equal(arrived(), before + 2, 'and the way is open for what may go')
  }

  test('[SEC-05] before an external tool call', () => checkWayOut('call_partner', '/tell'))

  test('[SEC-05] before an external notification', () => checkWayOut('notify_partner', '/notify'))

  test('[SEC-05] before a connector sync', () => checkWayOut('sync_partner', '/sync'))

  test('[SEC-05] before an artifact is published', async () => {
    const customers = await agent.write('customer_list')
    const denied = await agent.ask('publish_artifact', { ...customers, ...outside })
    assert.deepEqual([denied.decision, await agent.restOf(denied)], ['deny', 'failed'])
    const prices = await agent.write('price_list')
    const asked = await agent.ask('publish_artifact', { ...prices, ...outside })
    assert.deepEqual([asked.decision, await agent.restOf(asked)], ['require_approval', 'waiting_for_approval'])
    assert.equal(await agent.publications(), 0)
    const inside = await agent.ask('publish_artifact', { ...prices, destination: 'internal' })
    assert.deepEqual([inside.decision, await agent.restOf(inside)], ['allow', 'succeeded'])
    assert.equal(await agent.publications(), 1)
  })

  test('[SEC-05] before a memory is written', async () => {
    const remember = await agent.aRememberingRun()
    const ruled = async (content: JsonObject) => {
      const { command } = accepted(await remember(content))
      let trace: { rule: string; answer: string }[] = []
      await until(async () => {
        const [row] = await agent.db.query<{ trace: typeof trace }>(
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
    assert.deepEqual(await agent.db.query('select 1 from concord.memory_records'), [])
  })

  test('[EXM-04] an agent’s mail to finance@example.com waits for the owner of the data, and is sent once', async () => {
    const asked = await agent.ask('send_notification', { note: 'May is done.', destination: 'finance@example.com' })
    assert.deepEqual([asked.decision, agent.mail.taken.length], ['require_approval', 0])
    assert.match(asked.command_id, /^cmd_/)
    const approvalId = accepted(decodeId('approval', asked.approval_id ?? ''))
    const { principal: admin } = agent.tenant.people.admin
    const answer = {
      workspaceId: agent.tenant.workspace.id,
      approvalId,
      decision: 'approved',
      reason: 'so',
      traceId: TRACE,
    }
    accepted(
      await decideApproval(agent.work.approvals, byPerson({ ...admin, orgRoles: ['data-owner'] }, TRACE), answer),
    )
    await until(async () => (await agent.restOf(asked)) === 'succeeded', 'the mail')
    assert.equal(agent.mail.taken.length, 1)
    assert.match(agent.mail.taken[0] ?? '', /^To: finance@example\.com/im)
    const twice = await decideApproval(
      agent.work.approvals,
      byPerson({ ...admin, orgRoles: ['data-owner'] }, TRACE),
      answer,
    )
    assert.equal(twice.ok, false)
    assert.equal(agent.mail.taken.length, 1)
  })
})
