/** Separation of duties over HTTP: one person counts once, quorums of a project, and the risk on the card. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ApprovalView } from '#domains/approvals'
import { type Duties, openDuties } from '#test/duties'
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

  const one = (approvals: Record<string, ApprovalView>, name: string) => {
    const approval = approvals[name]
    assert.ok(approval, `${name} was not asked: ${Object.keys(approvals).join(', ')}`)
    return approval
  }

  test('[D2] [APR-14] a person with both roles counts once; the refusal names who else could', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance', 'manager'])
    const asked = await duties.open(id)
    const [finance, manager] = [one(asked, 'finance'), one(asked, 'manager')]
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
    // The only named person has counted for the role, so nobody is left, and everybody is told.
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
      const votes = await Promise.all(['finance', 'manager'].map((name) => duties.approve(eve, one(asked, name))))
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
    const finance = one(asked, 'finance')
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
      const finance = one(await duties.open(id), 'finance')
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
      assert.equal((await duties.approve(who, one(asked, name))).status, 200)
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

  test('[D11] the card shows the highest risk of type, task and effects', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance'])
    assert.equal(one(await duties.open(id), 'finance').packet['risk_level'], 'medium')
  })
})
