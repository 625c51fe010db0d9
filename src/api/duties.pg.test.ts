/** Separation of duties over HTTP: one person counts once, quorums of a project, edits that need a second person, and the risk on the card. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ApprovalView } from '#domains/approvals'
import { grantOrgRole } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { propose } from '#test/agents'
import { type Duties, openDuties } from '#test/duties'
import { proofSize } from '#test/proof-size'
import { accepted, aPerson, type TestPerson, TRACE } from '#test/tenant'

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

  async function anAdmin(name: string, role: string): Promise<TestPerson> {
    const { world, ours } = duties.api
    const person = await aPerson(world, ours, 'admin', name)
    const { userId } = person.principal
    accepted(await grantOrgRole(world, bySystem(TRACE), { orgId: ours.orgId, userId, role }))
    return person
  }
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

  const edits = { edits: { amount: '900.00' } }
  const paidFor = async (commandId: string) => {
    const { body } = await duties.send<{ payload: { subject: string } }>(ana, 'GET', `/commands/${commandId}`)
    return duties.paid.filter(({ subject }) => subject === body.payload.subject).map(({ amount }) => amount)
  }

  test('[M3] the approval of an editor does not count for what they wrote: another approver confirms it', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance'])
    const asked = one(await duties.open(id), 'finance')
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
    assert.equal((await duties.approve(ana, one(asked, 'treasurer'))).body.code, 'self_approval')
    assert.equal((await duties.approve(solo, one(asked, 'treasurer'), edits)).body.next, 'wait')
    const fresh = await duties.open(id)
    assert.deepEqual(
      Object.values(fresh).map(({ blocked_by }) => blocked_by),
      [null, null],
    )
    assert.equal((await duties.approve(ana, one(fresh, 'manager'))).body.code, 'self_approval')
    assert.equal((await duties.approve(solo, one(fresh, 'treasurer'))).body.code, 'self_approval')
    const inbox = await duties.send<{ items: ApprovalView[] }>(ana, 'GET', '/approvals?mine=true')
    assert.deepEqual(
      inbox.body.items.map(({ approval_id }) => approval_id),
      [one(fresh, 'treasurer').approval_id],
    )
    assert.equal((await duties.approve(ana, one(fresh, 'treasurer'))).body.next, 'wait')
    assert.deepEqual(await paidFor(id), [])
    assert.equal((await duties.approve(eve, one(fresh, 'manager'))).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['900.00'])
  })

  test('[M3] an editor with two roles approves neither approval of the edited content', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance', 'manager'])
    assert.equal((await duties.approve(eve, one(await duties.open(id), 'finance'), edits)).body.next, 'wait')
    const fresh = await duties.open(id)
    for (const name of ['finance', 'manager'])
      assert.equal((await duties.approve(eve, one(fresh, name))).body.code, 'self_approval')
    // The requester confirms in one of them only.
    assert.equal((await duties.approve(ana, one(fresh, 'finance'))).body.next, 'wait')
    assert.equal((await duties.approve(ana, one(fresh, 'manager'))).body.code, 'approvals.vote.repeated')
    assert.equal(await duties.settle(id), 'waiting_for_approval')
  })

  test('[M3] a second edit by another approver makes that person the author; an edit by the requester asks the approvers again', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance'])
    const first = await duties.approve(bob, one(await duties.open(id), 'finance'), edits)
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

  test('[M3] a person who supplies the input of a request becomes its author, as an editor does', async () => {
    const boss = await anAdmin('boss', 'finance')
    const supplied = { input: { amount: '900.00' } }
    const rewrite = async (by: TestPerson, id: string) => {
      const changes = { decision: 'request_changes', reason: 'The invoice says 900.' }
      assert.equal((await duties.approve(boss, one(await duties.open(id), 'finance'), changes)).status, 200)
      assert.equal((await duties.send(by, 'POST', `/commands/${id}/input`, supplied)).status, 200)
      assert.equal(await duties.settle(id), 'waiting_for_approval')
      return one(await duties.open(id), 'finance')
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
    // The requester does not decide in the place of somebody who has approved nothing. Another approver does.
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
    // The only person who is asked wrote a part of it: everybody is told that nobody can approve.
    const alone = Object.values(await duties.open(await supply([`user:${boss.principal.userId}`], boss)))
    assert.equal(alone[0]?.blocked_by?.code, 'approver_is_requester')
    assert.match(alone[0]?.not_counted[0]?.reason ?? '', /wrote a part of the request/)
    const id = await supply(['finance'], boss)
    assert.equal((await duties.approve(bob, one(await duties.open(id), 'finance'))).body.next, 'run_command')
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

  test('[G2] [APR-15] edits that return to an approved content ask about it again', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance', 'manager'])
    const asked = await duties.open(id)
    assert.equal((await duties.approve(bob, one(asked, 'finance'))).body.next, 'wait')
    // The manager changes the amount twice and returns to what finance has approved.
    const there = await duties.approve(eve, one(asked, 'manager'), edits)
    assert.equal(there.status, 200, JSON.stringify(there.body))
    const boss = await anAdmin('returning', 'manager')
    const back = await duties.approve(boss, one(await duties.open(id), 'manager'), { edits: { amount: '1.00' } })
    assert.equal(back.status, 200, JSON.stringify(back.body))
    // And once more in both directions.
    const more = await duties.approve(eve, one(await duties.open(id), 'manager'), edits)
    assert.equal(more.status, 200, JSON.stringify(more.body))
    const last = await duties.approve(boss, one(await duties.open(id), 'manager'), { edits: { amount: '1.00' } })
    assert.equal(last.status, 200, JSON.stringify(last.body))
    const fresh = await duties.open(id)
    assert.equal((await duties.approve(bob, one(fresh, 'finance'))).body.next, 'wait')
    assert.equal((await duties.approve(eve, one(fresh, 'manager'))).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['1.00'])
  })

  test('[M3] a type may let the editor approve', async () => {
    const id = await duties.submit(ana, 'Pay Edited', ['finance'])
    assert.equal((await duties.approve(bob, one(await duties.open(id), 'finance'), edits)).body.next, 'run_command')
    assert.equal(await duties.settle(id), 'succeeded')
    assert.deepEqual(await paidFor(id), ['900.00'])
  })

  test('[D11] the card shows the highest risk of type, task and effects', async () => {
    const id = await duties.submit(ana, 'Pay', ['finance'])
    assert.equal(one(await duties.open(id), 'finance').packet['risk_level'], 'medium')
  })
})
