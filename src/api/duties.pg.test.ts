/** Separation of duties over HTTP: one person counts once, quorums of a project, edits that need a second person, and the risk on the card. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ApprovalView } from '#domains/approvals'
import { approvalOf, type Duties, openDuties } from '#test/duties'
import { proofSize } from '#test/proof-size'
import type { TestPerson } from '#test/tenant'

describe('separation of duties', () => {
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

  test('[D2] [APR-14] a person with both roles counts once; the refusal names who else could', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance', 'manager'])
    const asked = await duties.open(id)
    const [finance, manager] = [approvalOf(asked, 'finance'), approvalOf(asked, 'manager')]
    assert.match(
      String(finance.packet['after_approval']),
      /when all of these have approved: role:finance, role:manager\. One person counts once, whatever roles they hold\./,
    )
    assert.equal((await duties.approve(eve, manager)).body.next, 'wait')
    const again = await duties.approve(eve, finance)
    assert.deepEqual([again.status, again.body.code], [409, 'approvals.vote.repeated'])
    assert.match(again.body.hint, /local:org-\d+-bob/)
    assert.deepEqual(again.body.facts['counted_for'], 'role:manager')
    assert.equal(await duties.settle(id), 'waiting_for_approval')
    const card = await duties.show(eve, finance)
    assert.equal(card.may_decide, false)
    assert.match(String(card.counted_elsewhere[0]), /-eve$/)
    const inbox = await duties.send<{ items: ApprovalView[] }>(eve, 'GET', '/approvals?mine=true')
    assert.ok(!inbox.body.items.some(({ approval_id }) => approval_id === finance.approval_id))
    assert.equal((await duties.approve(bob, finance)).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    const { chain } = await duties.why(id)
    assert.ok(chain.some(({ text }) => text.endsWith('One person counts once, whatever roles they hold.')))
  })

  test('[D2] the same in the other order, by name and role, and after a rejection nothing runs', async () => {
    const person = `user:${eve.principal.userId}`
    const id = await duties.submit(ana, 'Pay', [person, 'finance'])
    const asked = Object.values(await duties.open(id))
    const byName = asked.find(({ approver }) => approver.startsWith('user_'))
    const byRole = asked.find(({ approver }) => approver === 'role:finance')
    assert.ok(byName && byRole)
    assert.equal((await duties.approve(eve, byRole)).status, 200)
    const refused = await duties.approve(eve, byName)
    assert.deepEqual([refused.status, refused.body.code], [409, 'approvals.vote.repeated'])
    // The only named person has counted for the role, so nobody is left, and every card says so.
    const { blocked_by } = await duties.show(bob, byName)
    assert.equal(blocked_by?.code, 'quorum_unreachable')
    // She can still end it.
    const rejected = await duties.approve(eve, byName, { decision: 'rejected', reason: 'Wrong role.' })
    assert.deepEqual([rejected.status, rejected.body.next], [200, 'fail_command'])
    assert.equal(await duties.settle(id), 'failed')
  })

  test('[D2] both votes of one person at once: one counts, however often', async () => {
    for (let round = 0; round < proofSize(20, 200); round++) {
      const id = await duties.submit(ana, 'Pay', ['finance', 'manager'])
      const asked = await duties.open(id)
      const votes = await Promise.all(
        ['finance', 'manager'].map((name) => duties.approve(eve, approvalOf(asked, name))),
      )
      assert.deepEqual(
        votes.map(({ status }) => status).toSorted((a, b) => a - b),
        [200, 409],
      )
      assert.equal(await duties.settle(id), 'waiting_for_approval')
    }
  })

  test('[D3] a rule asks for two of one role, in any spelling: both must be different persons', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance', { role: 'role:finance', count: 2 }])
    const asked = await duties.open(id)
    assert.equal(Object.keys(asked).length, 1)
    const finance = approvalOf(asked, 'finance')
    assert.equal(finance.approvals_required, 2)
    assert.match(String(finance.packet['after_approval']), /2 different people must approve\./)
    assert.equal((await duties.approve(eve, finance)).body.next, 'wait')
    assert.equal((await duties.approve(eve, finance)).body.code, 'approvals.vote.repeated')
    assert.equal((await duties.approve(bob, finance)).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    const { chain } = await duties.why(id)
    assert.ok(chain.some(({ text }) => text.includes('2 different people must approve')))
  })

  test('[D3] the quorum of a type holds for its approver and for every role that a rule names', async () => {
    for (const needs of [[], ['finance']]) {
      const id = await duties.submit(ana, 'Pay Two', needs)
      const finance = approvalOf(await duties.open(id), 'finance')
      assert.equal(finance.approvals_required, 2)
      assert.equal((await duties.approve(bob, finance)).body.next, 'wait')
      assert.equal((await duties.approve(eve, finance)).body.next, 'run_command')
      assert.equal(await duties.settle(id), 'succeeded')
    }
  })

  test('[D3] a quorum that cannot be reached is reported at once, alone and together with other approvals', async () => {
    const body = (needs: unknown[]) => ({ task_name: 'Pay', payload: { subject: 'x', needs } })
    type Preview = { approvals: { blocked_by: { code: string; reason: string } | null; approvals_required: number }[] }
    const preview = async (...needs: unknown[]) =>
      (await duties.send<Preview>(ana, 'POST', '/commands/preview', body(needs))).body.approvals
    assert.deepEqual(
      (await preview({ role: 'finance', count: 3 })).map((each) => [each.approvals_required, each.blocked_by?.code]),
      [[3, 'quorum_unreachable']],
    )
    assert.deepEqual(
      (await preview('finance', 'manager')).map(({ blocked_by }) => blocked_by),
      [null, null],
    )
    // Each of the two could be approved alone. Together they need three people, and there are two.
    const both = await preview({ role: 'finance', count: 2 }, 'manager')
    assert.deepEqual(
      both.map(({ blocked_by }) => blocked_by?.reason),
      Array.from(
        { length: 2 },
        () => 'The approvals of this command need 3 different people, and only 2 can approve: one person counts once.',
      ),
    )
    const id = await duties.submit(ana, 'Pay', [{ role: 'finance', count: 2 }, 'manager'])
    const asked = await duties.open(id)
    assert.deepEqual(
      Object.values(asked).map(({ blocked_by }) => blocked_by?.code),
      ['quorum_unreachable', 'quorum_unreachable'],
    )
    assert.match((await duties.why(id)).summary, /need 3 different people/)
    const cleo = await duties.hire('cleo', 'manager')
    assert.deepEqual(
      Object.values(await duties.open(id)).map(({ blocked_by }) => blocked_by),
      [null, null],
    )
    for (const [who, name] of [
      [eve, 'finance'],
      [cleo, 'manager'],
      [bob, 'finance'],
    ] as const)
      assert.equal((await duties.approve(who, approvalOf(asked, name))).status, 200)
    assert.equal(await duties.settle(id), 'succeeded')
  })

  test('[D3] an answer of a rule with an impossible count denies the command', async () => {
    for (const count of [0, 21, 1.5, '2', null]) {
      const needs = [{ role: 'finance', count }]
      const { body } = await duties.send<{ policy: { decision: string } }>(ana, 'POST', '/commands/preview', {
        task_name: 'Pay',
        payload: { subject: 'x', needs },
      })
      assert.equal(body.policy.decision, 'deny', JSON.stringify(count))
    }
  })

  const edits = { edits: { amount: '900.00' } }
  const paidFor = async (commandId: string) => {
    const { body } = await duties.send<{ payload: { subject: string } }>(ana, 'GET', `/commands/${commandId}`)
    return duties.paid.filter(({ subject }) => subject === body.payload.subject).map(({ amount }) => amount)
  }

  test('[M3] the approval of an editor does not count for what they wrote: another approver confirms it', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance'])
    const asked = approvalOf(await duties.open(id), 'finance')
    const edited = await duties.approve(bob, asked, { ...edits, reason: 'The invoice says 900.' })
    assert.deepEqual([edited.status, edited.body.status, edited.body.next], [200, 'pending', 'wait'])
    const fresh = edited.body
    assert.notEqual(fresh.approval_id, asked.approval_id)
    assert.deepEqual(fresh.edited?.fields, ['amount'])
    assert.deepEqual([fresh.edited?.needs_confirmation, fresh.edited?.reason], [true, 'The invoice says 900.'])
    assert.equal(await duties.settle(id), 'waiting_for_approval')
    // Neither as it is, nor with another edit.
    for (const more of [{}, { edits: { amount: '901.00' } }]) {
      const own = await duties.approve(bob, fresh, more)
      assert.deepEqual([own.status, own.body.code], [403, 'self_approval'])
      assert.match(own.body.hint, /-eve/)
      assert.match(own.body.hint, /-ana/)
    }
    const inbox = await duties.send<{ items: ApprovalView[] }>(bob, 'GET', '/approvals?mine=true')
    assert.ok(!inbox.body.items.some(({ approval_id }) => approval_id === fresh.approval_id))
    assert.equal((await duties.show(bob, fresh)).may_decide, false)
    assert.equal((await duties.approve(eve, fresh)).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['900.00'])
    const { chain } = await duties.why(id)
    assert.ok(
      chain.some(({ text }) =>
        text.endsWith(
          '-bob changed amount from "1.00" to "900.00", because: The invoice says 900. Another approver or the requester must confirm it.',
        ),
      ),
      chain.map(({ text }) => text).join('\n'),
    )
  })

  test('[M3] the requester confirms in place of the editor, also if there is no other approver', async () => {
    const solo = await duties.hire('solo', 'treasurer')
    const id = await duties.submit(ana, 'Pay', ['treasurer', 'manager'])
    const asked = await duties.open(id)
    // Not before the edit, and afterwards not in the place of the manager.
    assert.equal((await duties.approve(ana, approvalOf(asked, 'treasurer'))).body.code, 'self_approval')
    assert.equal((await duties.approve(solo, approvalOf(asked, 'treasurer'), edits)).body.next, 'wait')
    const fresh = await duties.open(id)
    assert.deepEqual(
      Object.values(fresh).map(({ blocked_by }) => blocked_by),
      [null, null],
    )
    assert.equal((await duties.approve(ana, approvalOf(fresh, 'manager'))).body.code, 'self_approval')
    assert.equal((await duties.approve(solo, approvalOf(fresh, 'treasurer'))).body.code, 'self_approval')
    const inbox = await duties.send<{ items: ApprovalView[] }>(ana, 'GET', '/approvals?mine=true')
    assert.deepEqual(
      inbox.body.items.map(({ approval_id }) => approval_id),
      [approvalOf(fresh, 'treasurer').approval_id],
    )
    assert.equal((await duties.approve(ana, approvalOf(fresh, 'treasurer'))).body.next, 'wait')
    assert.deepEqual(await paidFor(id), [])
    assert.equal((await duties.approve(eve, approvalOf(fresh, 'manager'))).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['900.00'])
  })

  test('[M3] an editor with two roles approves neither approval of the edited content', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance', 'manager'])
    assert.equal((await duties.approve(eve, approvalOf(await duties.open(id), 'finance'), edits)).body.next, 'wait')
    const fresh = await duties.open(id)
    for (const name of ['finance', 'manager'])
      assert.equal((await duties.approve(eve, approvalOf(fresh, name))).body.code, 'self_approval')
    // The requester confirms in one of them only.
    assert.equal((await duties.approve(ana, approvalOf(fresh, 'finance'))).body.next, 'wait')
    assert.equal((await duties.approve(ana, approvalOf(fresh, 'manager'))).body.code, 'approvals.vote.repeated')
    assert.equal(await duties.settle(id), 'waiting_for_approval')
  })

  test('[M3] a second edit by another approver makes that person the author; an edit by the requester asks the approvers again', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance'])
    const first = await duties.approve(bob, approvalOf(await duties.open(id), 'finance'), edits)
    const second = await duties.approve(eve, first.body, { edits: { amount: '800.00' } })
    assert.equal(second.body.next, 'wait')
    assert.equal((await duties.approve(eve, second.body)).body.code, 'self_approval')
    const third = await duties.approve(ana, second.body, { edits: { amount: '700.00' } })
    assert.equal(third.body.next, 'wait')
    assert.equal((await duties.approve(ana, third.body)).body.code, 'self_approval')
    assert.equal((await duties.approve(bob, third.body)).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['700.00'])
  })

  test('[M3] a type may let the editor approve', async () => {
    const id = await duties.submit(ana, 'Pay Edited', ['finance'])
    assert.equal(
      (await duties.approve(bob, approvalOf(await duties.open(id), 'finance'), edits)).body.next,
      'run_command',
    )
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['900.00'])
  })

  test('[D11] the card shows the highest risk of type, task and effects', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance'])
    assert.equal(approvalOf(await duties.open(id), 'finance').packet['risk_level'], 'medium')
  })
})
