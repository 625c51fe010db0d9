/**
 * The examples on the test database: the order of their events, the nine questions of an audit, and the three outcomes of a
 * booking.
 */
import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { builtInArtifactTypes, openArtifactTypes, openDiskStore } from '#domains/artifacts'
import { decideApproval, openApprovalTypes } from '#domains/approvals'
import {
  anyHost,
  approvalTypesOf,
  connectorDefinitions,
  expandCatalog,
  openCatalog,
  shippedPolicies,
} from '#domains/commands'
import { openConnectors, openSecrets } from '#domains/connectors'
import { realSleep } from '#test/connectors'
import { openTestRoom, type TestRoom } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { exampleCatalog, examplePayloads } from './catalog/index.ts'
import { startVendor, type Vendor } from './vendor/start-vendor.ts'
import { byPerson } from '#kernel/actor'

type Event = { event_type: string; actor: string; payload: Record<string, unknown> }

describe('the examples on the test database', () => {
  let folder: string
  let vendor: Vendor
  let room: TestRoom

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'concord-examples-'))
    vendor = await startVendor({ ledger: join(folder, 'ledger.json'), seed: 1, trouble: 0 })
    room = await openTestRoom((world) => {
      const { newId } = world
      const { catalog: definitions, connectors } = expandCatalog(exampleCatalog({ vendorUrl: vendor.url, folder }))
      const gate = accepted(openConnectors(connectors, { ...world, sleep: realSleep, secrets: openSecrets({}) }))
      const all = [...shippedPolicies, ...definitions, ...connectorDefinitions(gate)]
      const catalog = accepted(openCatalog(all, anyHost))
      const artifacts = {
        ...world,
        types: accepted(openArtifactTypes(builtInArtifactTypes)),
        stores: [openDiskStore({ folder: join(folder, 'artifacts'), newId, contentBytesMax: 1_048_576 })] as const,
      }
      return { ...world, artifacts, catalog, approvalTypes: openApprovalTypes(approvalTypesOf(catalog)) }
    })
  })
  after(async () => {
    await room?.close()
    await vendor?.close()
    await rm(folder, { recursive: true, force: true })
  })

  const audit = (id: string) =>
    room.rows<Event>(
      `select event_type, actor, payload from concord.domain_events where command_id = $1 and purpose = 'audit' order by seq`,
      [id],
    )
  const rowOf = async (id: string) => {
    const [row] = await room.rows('select * from concord.commands where command_id = $1', [id])
    return row ?? assert.fail('no row')
  }
  async function answerAll(commandId: string, decision: string): Promise<void> {
    const who = { ...room.tenant.people.admin.principal, orgRoles: ['data-owner', 'booking-approver'] }
    const open = await room.rows<{ approval_id: string }>(
      `select approval_id from concord.approvals where command_id = $1 and status = 'pending'`,
      [commandId],
    )
    for (const { approval_id: approvalId } of open) {
      const answer = { workspaceId: room.tenant.workspace.id, approvalId, decision, reason: 'because', traceId: TRACE }
      accepted(await decideApproval(room.approvals, byPerson(who, TRACE), answer))
    }
  }
  const report = () => room.submit(examplePayloads['Generate Report'], { taskName: 'Generate Report' })

  test('a report that does not exist is not published: the command fails at once, and no person has to check its outcome', async () => {
    const absent = { ...examplePayloads['Publish Report'], destination: 'internal' }
    const id = await room.submit(absent, { taskName: 'Publish Report' })
    assert.equal(await room.settle(id), 'failed')
    const { error, error_class } = await rowOf(id)
    assert.deepEqual([error_class, error], ['validation_error', 'There is no such artifact.'])
    assert.deepEqual(await room.rows('select 1 from concord.approvals where command_id = $1', [id]), [])
    assert.deepEqual(await readdir(join(folder, 'outbox')).catch(() => []), [])
  })

  test('[PRM-15] a report: ingress, command, policy, plan, queue, execution, artifact, notification, end, in this order', async () => {
    const id = await report()
    assert.equal(await room.settle(id), 'succeeded')
    const events = await room.rows<Event>(
      'select event_type, actor, payload from concord.domain_events where command_id = $1 order by seq',
      [id],
    )
    const texts = events.map(({ event_type, payload }) => {
      const what = event_type === 'status_changed' ? payload['to'] : payload['effect_type']
      return typeof what === 'string' ? `${event_type} ${what}` : event_type
    })
    assert.deepEqual(texts, [
      'command_created',
      'status_changed validated',
      'policy_evaluated',
      'plan_created',
      'effect_planned artifact.report',
      'effect_planned notification.app',
      'status_changed queued',
      'status_changed running',
      'status_changed executing',
      'effect_executed artifact.report',
      'status_changed executing',
      'artifact_created',
      'status_changed ready',
      'effect_executed notification.app',
      'status_changed succeeded',
    ])
  })

  test('[EXM-02] May revenue: the path of a deterministic task, an artifact as its result, one command for one key', async () => {
    const id = await report()
    assert.equal(await report(), id, 'the same month is the same command')
    await room.settle(id)
    const row = await rowOf(id)
    assert.equal(row['contract_key'], 'generate_report:monthly_revenue:2026-05')
    const path = await room.rows<{ to: string }>(
      `select payload->>'to' as to from concord.domain_events where command_id = $1 and event_type = 'status_changed'
         and payload->>'target_type' = 'command' order by seq`,
      [id],
    )
    assert.deepEqual(
      path.map(({ to }) => to),
      ['validated', 'queued', 'running', 'succeeded'],
    )
    const { artifact_id } = row['result'] as { artifact_id: string }
    const [artifact] = await room.rows('select command_id from concord.artifacts where artifact_id = $1', [artifact_id])
    assert.deepEqual(artifact, { command_id: id })
    const commands = await room.rows(`select 1 from concord.commands where contract_key = $1`, [row['contract_key']])
    assert.equal(commands.length, 1)
  })

  test('[EVT-05] an outside publication: who, what, which rule, what ran, what changed, what came of it, who agreed, which connector, what failed', async () => {
    const made = await report()
    await room.settle(made)
    const { artifact_id, checksum } = (await rowOf(made))['result'] as Record<string, string>
    const publish = async (payload: object) => {
      const id = await room.submit({ ...payload }, { taskName: 'Publish Report' })
      assert.equal(await room.settle(id), 'waiting_for_approval')
      await answerAll(id, 'approved')
      await room.settle(id)
      return id
    }
    const id = await publish({ artifact_id, checksum, destination: 'finance@example.com' })
    const events = await audit(id)
    const find = (type: string) => events.find(({ event_type }) => event_type === type) ?? assert.fail(`no ${type}`)
    const requester = `user:${room.tenant.people.writer.principal.userId}`
    const approver = `user:${room.tenant.people.admin.principal.userId}`
    // Who asked, and for what.
    assert.deepEqual(
      [find('command_created').actor, find('command_created').payload['task_name']],
      [requester, 'Publish Report'],
    )
    // The decision of policy, with the rule that made it.
    const policy = find('policy_evaluated').payload
    assert.equal(policy['decision'], 'require_approval')
    const trace = policy['trace'] as { rule: string; answer: string }[]
    assert.deepEqual(trace.find(({ rule }) => rule === 'external_sharing')?.answer, 'require_approval')
    // What ran and through which connector, what changed outside, and what was produced.
    const sent = events.find(({ payload }) => payload['effect_type'] === 'connector.sharing.publish_report')
    const ran = sent?.payload ?? assert.fail('no letter')
    assert.deepEqual([sent?.event_type, ran['from'], ran['to']], ['effect_executed', 'executing', 'succeeded'])
    const produced = ran['result'] as Record<string, unknown>
    assert.equal(produced['destination'], 'finance@example.com')
    assert.match(String(produced['letter_checksum']), /^sha256:/)
    assert.deepEqual((await rowOf(id))['result'], produced)
    // Who approved.
    assert.equal(find('approval_decided').actor, approver)
    const [approval] = await room.rows(
      'select decided_by, decision_reason from concord.approvals where command_id = $1',
      [id],
    )
    assert.deepEqual(approval, { decided_by: approver, decision_reason: 'because' })
    // What failed: the same question about another text under the same id.
    const other = { artifact_id, checksum: `sha256:${'0'.repeat(64)}`, destination: 'external:partner' }
    const failed = await publish(other)
    const failure = (await audit(failed)).find(({ event_type }) => event_type === 'effect_failed')?.payload
    assert.deepEqual([failure?.['error_class'], await room.statusOf(failed)], ['validation_error', 'failed'])
    assert.match(String(failure?.['last_error']), /not the one that was asked about/)
  })

  test('[EXM-05] [EXM-06] a booking: a missing field is requested, zero is a price, nothing is booked without an approval, and an approval books once', async () => {
    const booking = { ...examplePayloads['Book Hotel'], total_price: 0 }
    const { hotel_name: _left, ...incomplete } = booking
    const asked = await room.submit({ ...incomplete, booking_draft_id: 'draft-1' }, { taskName: 'Book Hotel' })
    assert.equal(await room.settle(asked), 'waiting_for_input')
    const [request] = await room.rows(
      `select effect_payload->'missing_fields' as fields, idempotency_key from concord.domain_effects
        where command_id = $1 and effect_type = 'user.request_input'`,
      [asked],
    )
    assert.deepEqual(request, { fields: ['hotel_name'], idempotency_key: `input:${asked}` })

    const id = await room.submit({ ...booking, booking_draft_id: 'draft-2' }, { taskName: 'Book Hotel' })
    assert.equal(await room.settle(id), 'waiting_for_approval')
    const approvals = await room.rows('select approval_type, approver from concord.approvals where command_id = $1', [
      id,
    ])
    assert.deepEqual(approvals, [{ approval_type: 'hotel_booking_approval', approver: 'role:booking-approver' }])
    assert.equal(Object.keys(await vendor.books()).length > 0, true)
    await answerAll(id, 'approved')
    assert.equal(await room.settle(id), 'succeeded')
    const row = await rowOf(id)
    assert.equal((row['plan'] as Record<string, unknown>)['execution_mode'], 'approval_gated_async')
    assert.equal(row['contract_key'], 'book_hotel:draft-2')
    const effects = await room.rows(
      `select effect_type, status, idempotency_key, declared_compensation from concord.domain_effects
        where command_id = $1 and effect_type <> 'approval.request' order by declaration_order`,
      [id],
    )
    assert.deepEqual(effects[0], {
      effect_type: 'connector.hotel_booking.book_hotel',
      status: 'succeeded',
      idempotency_key: 'book_hotel:draft-2',
      declared_compensation: 'cancel_reservation',
    })
    assert.equal(effects.at(-1)?.['effect_type'], 'artifact.reservation_confirmation')
  })
})
