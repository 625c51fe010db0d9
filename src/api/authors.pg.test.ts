/** Who is an author of a request over HTTP: edits, input in several rounds, and a content that returns. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ApprovalView } from '#domains/approvals'
import { grantOrgRole } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { propose } from '#test/agents'
import { approvalOf, type Duties, openDuties } from '#test/duties'
import { accepted, aPerson, type TestPerson, TRACE } from '#test/tenant'

describe('the authors of a request', () => {
  let duties: Duties
  let ana: TestPerson
  let eve: TestPerson
  let bob: TestPerson
  before(async () => {
    duties = await openDuties()
    ana = await duties.hire('ana')
    eve = await duties.hire('eve', 'finance', 'manager')
    bob = await duties.hire('bob', 'finance')
  })
  after(() => duties.close())

  async function anAdmin(name: string, role: string): Promise<TestPerson> {
    const { world, ours } = duties.api
    const person = await aPerson(world, ours, 'admin', name)
    const { userId } = person.principal
    accepted(await grantOrgRole(world, bySystem(TRACE), { orgId: ours.orgId, userId, role }))
    return person
  }
  const edits = { edits: { amount: '900.00' } }
  const paidFor = async (commandId: string) => {
    const { body } = await duties.send<{ payload: { subject: string } }>(ana, 'GET', `/commands/${commandId}`)
    return duties.paid.filter(({ subject }) => subject === body.payload.subject).map(({ amount }) => amount)
  }

  test('[M3] a person who supplies the input of a request becomes its author, as an editor does', async () => {
    const boss = await anAdmin('boss', 'finance')
    const supplied = { input: { amount: '900.00' } }
    const rewrite = async (by: TestPerson, id: string) => {
      const changes = { decision: 'request_changes', reason: 'The invoice says 900.' }
      assert.equal((await duties.approve(boss, approvalOf(await duties.open(id), 'finance'), changes)).status, 200)
      assert.equal((await duties.send(by, 'POST', `/commands/${id}/input`, supplied)).status, 200)
      assert.equal(await duties.settle(id), 'waiting_for_approval')
      return approvalOf(await duties.open(id), 'finance')
    }
    const id = await duties.submit(ana, 'Pay', ['finance'])
    const fresh = await rewrite(boss, id)
    assert.deepEqual([fresh.edited?.fields, fresh.edited?.needs_confirmation], [['amount'], true])
    assert.match(fresh.edited?.by ?? '', /-boss$/)
    const own = await duties.approve(boss, fresh)
    assert.deepEqual([own.status, own.body.code], [403, 'self_approval'])
    assert.deepEqual([await duties.settle(id), await paidFor(id)], ['waiting_for_approval', []])
    // A second round of the same trick, and an edit of their own input, change nothing.
    const again = await rewrite(boss, id)
    for (const more of [{}, { edits: { amount: '901.00' } }])
      assert.equal((await duties.approve(boss, again, more)).body.code, 'self_approval')
    // The requester does not decide in the place of a person who has approved nothing. Another approver does.
    assert.equal((await duties.show(ana, again)).may_decide, false)
    assert.equal((await duties.approve(ana, again)).body.code, 'self_approval')
    assert.equal((await duties.approve(bob, again)).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['900.00'])

    // What the requester supplies is the requester's.
    const third = await duties.submit(ana, 'Pay', ['finance'])
    const asked = await rewrite(ana, third)
    assert.equal(asked.edited, null)
    assert.equal((await duties.approve(ana, asked)).body.code, 'self_approval')
    assert.equal((await duties.approve(boss, asked)).body.next, 'run_command')
  })

  test('[G1] [M3] a missing field that somebody else supplies does not make the requester an approver', async () => {
    const boss = await anAdmin('filler', 'finance')
    const supply = async (needs: readonly string[], by: TestPerson) => {
      const request = { task_name: 'Pay', payload: { needs } }
      const { body } = await duties.send<{ command_id: string }>(ana, 'POST', '/commands', request)
      assert.equal(await duties.settle(body.command_id), 'waiting_for_input')
      const input = { subject: body.command_id }
      assert.equal((await duties.send(by, 'POST', `/commands/${body.command_id}/input`, { input })).status, 200)
      assert.equal(await duties.settle(body.command_id), 'waiting_for_approval')
      return body.command_id
    }
    for (const needs of [['finance'], ['finance', 'manager'], [`user:${boss.principal.userId}`]]) {
      const id = await supply(needs, boss)
      for (const approval of Object.values(await duties.open(id))) {
        assert.equal((await duties.approve(ana, approval)).body.code, 'self_approval')
        assert.equal((await duties.approve(boss, approval)).status, 403)
        assert.equal((await duties.show(ana, approval)).may_decide, false)
      }
      assert.deepEqual([await duties.settle(id), await paidFor(id)], ['waiting_for_approval', []])
    }
    // The only person who is asked wrote a part of it: every card says that nobody can approve.
    const alone = Object.values(await duties.open(await supply([`user:${boss.principal.userId}`], boss)))
    assert.equal(alone[0]?.blocked_by?.code, 'approver_is_requester')
    assert.match(alone[0]?.not_counted[0]?.reason ?? '', /wrote a part of the request/)
    const id = await supply(['finance'], boss)
    assert.equal((await duties.approve(bob, approvalOf(await duties.open(id), 'finance'))).body.next, 'run_command')
  })

  test('[G1] [M3] the requester does not confirm an edit of what an agent proposed in their name', async () => {
    const proposed = await propose(duties.room, ana.principal, {
      toolName: 'pay',
      payload: { subject: 'proposed', needs: ['finance'] },
    })
    accepted(proposed)
    const { body } = await duties.send<{ items: ApprovalView[] }>(bob, 'GET', '/approvals?mine=true')
    const asked = body.items.find(({ packet }) => JSON.stringify(packet).includes('"proposed"'))
    assert.ok(asked)
    const edited = await duties.approve(bob, asked, edits)
    assert.equal(edited.body.next, 'wait')
    assert.equal((await duties.approve(ana, edited.body)).body.code, 'self_approval')
    assert.equal((await duties.approve(bob, edited.body)).body.code, 'self_approval')
    assert.equal((await duties.approve(eve, edited.body)).body.next, 'run_command')
  })

  test('[G6] [M3] everybody whose words are in the request stays an author, however many rounds follow', async () => {
    const boss = await anAdmin('rewriter', 'finance')
    const code = async (by: TestPerson, id: string) =>
      (await duties.approve(by, approvalOf(await duties.open(id), 'finance'))).body.code
    const change = async (asker: TestPerson, by: TestPerson, id: string, input: object) => {
      const asked = approvalOf(await duties.open(id), 'finance')
      const changes = { decision: 'request_changes', reason: 'Once more.' }
      assert.equal((await duties.approve(asker, asked, changes)).status, 200)
      assert.equal((await duties.send(by, 'POST', `/commands/${id}/input`, { input })).status, 200)
      assert.equal(await duties.settle(id), 'waiting_for_approval')
    }
    // Input of an approver, then input of the requester: of another field, of the same value, and of nothing.
    const first = await duties.submit(ana, 'Pay', ['finance'])
    await change(bob, boss, first, { amount: '900.00' })
    for (const input of [{ subject: 'same words' }, { amount: '900.00' }, {}]) {
      await change(bob, ana, first, input)
      assert.equal(await code(boss, first), 'self_approval', JSON.stringify(input))
      const { edited } = approvalOf(await duties.open(first), 'finance')
      assert.deepEqual([edited?.fields, edited?.needs_confirmation], [['amount'], true])
      assert.match(edited?.by ?? '', /-rewriter$/)
    }
    // An edit of an approver, then input: both stay. A value that somebody else replaces is no longer theirs.
    const second = await duties.submit(ana, 'Pay', ['finance'])
    const asked = approvalOf(await duties.open(second), 'finance')
    assert.equal((await duties.approve(bob, asked, edits)).body.next, 'wait')
    await change(eve, boss, second, { subject: 'of the boss' })
    await change(eve, ana, second, {})
    for (const who of [bob, boss]) assert.equal(await code(who, second), 'self_approval')
    assert.equal(await code(ana, second), 'self_approval')
    await change(eve, ana, second, { amount: '2.00' })
    assert.equal(await code(boss, second), 'self_approval')
    assert.equal((await duties.approve(bob, approvalOf(await duties.open(second), 'finance'))).body.next, 'run_command')
    // Two edits of two approvers: neither of them approves, and the requester confirms.
    const third = await duties.submit(ana, 'Pay', ['finance'])
    for (const [who, more] of [
      [bob, edits],
      [eve, { edits: { subject: 'of eve' } }],
    ] as const)
      assert.equal((await duties.approve(who, approvalOf(await duties.open(third), 'finance'), more)).body.next, 'wait')
    for (const who of [bob, eve]) assert.equal(await code(who, third), 'self_approval')
    assert.equal((await duties.approve(ana, approvalOf(await duties.open(third), 'finance'))).body.next, 'run_command')
  })

  test('[G2] [APR-15] edits that return to an approved content ask about it again', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance', 'manager'])
    const asked = await duties.open(id)
    assert.equal((await duties.approve(bob, approvalOf(asked, 'finance'))).body.next, 'wait')
    // The manager changes the amount twice and returns to what finance has approved.
    const there = await duties.approve(eve, approvalOf(asked, 'manager'), edits)
    assert.equal(there.status, 200, JSON.stringify(there.body))
    const boss = await anAdmin('returning', 'manager')
    const back = await duties.approve(boss, approvalOf(await duties.open(id), 'manager'), { edits: { amount: '1.00' } })
    assert.equal(back.status, 200, JSON.stringify(back.body))
    // And once more in both directions.
    const more = await duties.approve(eve, approvalOf(await duties.open(id), 'manager'), edits)
    assert.equal(more.status, 200, JSON.stringify(more.body))
    const last = await duties.approve(boss, approvalOf(await duties.open(id), 'manager'), { edits: { amount: '1.00' } })
    assert.equal(last.status, 200, JSON.stringify(last.body))
    const fresh = await duties.open(id)
    assert.equal((await duties.approve(bob, approvalOf(fresh, 'finance'))).body.next, 'wait')
    assert.equal((await duties.approve(eve, approvalOf(fresh, 'manager'))).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['1.00'])
  })
})
