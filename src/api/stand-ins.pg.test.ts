/** Stand-ins over HTTP: who may delegate, whose place a vote takes, and when a delegation does not count. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import type { ApprovalView } from '#domains/approvals'
import { type DelegationView, grantOrgRole } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { call } from '#test/api'
import { type Duties, openDuties } from '#test/duties'
import { accepted, aPerson, type TestPerson, TRACE } from '#test/tenant'

describe('stand-ins', () => {
  let duties: Duties
  let ana: TestPerson
  let dora: TestPerson
  let bob: TestPerson
  let ben: TestPerson
  let cleo: TestPerson
  let boss: TestPerson
  before(async () => {
    duties = await openDuties('none')
    ana = await duties.hire('ana')
    dora = await duties.hire('dora', 'finance')
    bob = await duties.hire('bob', 'finance')
    ben = await duties.hire('ben')
    cleo = await duties.hire('cleo')
    boss = await aPerson(duties.api.world, duties.api.ours, 'admin', 'boss')
  })
  after(() => duties.close())

  const nameOf = ({ principal }: TestPerson) => principal.externalId
  const until = () => new Date(duties.api.world.now().getTime() + 86_400_000).toISOString()
  const ask = (by: TestPerson, to: TestPerson, from?: TestPerson) =>
    duties.send<DelegationView>(by, 'POST', '/delegations', {
      to: nameOf(to),
      until: until(),
      ...(from ? { from: nameOf(from) } : {}),
    })
  /** The database decides when it ends, and its clock is ahead of the clock of the test. */
  const setUntil = (when: string) => duties.room.rows(`update identity.delegations set until = ${when}`)
  async function delegate(by: TestPerson, to: TestPerson, from?: TestPerson): Promise<DelegationView> {
    const { status, body } = await ask(by, to, from)
    assert.equal(status, 201, JSON.stringify(body))
    await setUntil(`now() + interval '1 day'`)
    duties.api.world.travel(1_000)
    return body
  }
  const end = async (by: TestPerson, { delegation_id }: DelegationView) =>
    call(duties.api.app, `/delegations/${delegation_id}`, { method: 'DELETE', key: by.key })
  const one = async (id: string) => {
    const [approval] = Object.values(await duties.open(id))
    assert.ok(approval)
    return approval
  }
  const submit = async (by: TestPerson, needs: Parameters<Duties['submit']>[2] = ['finance']) => {
    const id = await duties.submit(by, 'Pay', needs)
    duties.api.world.travel(1_000)
    return id
  }
  const outcome = async (by: TestPerson, id: string, more: object = {}) => {
    const { status, body } = await duties.approve(by, await one(id), more)
    return status === 200 ? body.next : body.code
  }

  test('[D3] a stand-in finds the request, decides in the place of the approver, and card, events and why say so', async () => {
    const id = await submit(ana)
    assert.equal(await outcome(ben, id), 'approvals.approver.not_asked')
    const made = await delegate(dora, ben)
    assert.deepEqual([made.from, made.to, made.made_by], [nameOf(dora), nameOf(ben), made.from_user_id])
    const inbox = await duties.send<{ items: ApprovalView[] }>(ben, 'GET', '/approvals?mine=true')
    const shown = inbox.body.items.find(({ command_id }) => command_id === id)
    assert.deepEqual([shown?.may_decide, shown?.may_decide_for], [true, nameOf(dora)])
    const answer = await duties.approve(ben, await one(id))
    assert.equal(answer.body.next, 'run_command', JSON.stringify(answer.body))
    assert.deepEqual([answer.body.approved_by_names, answer.body.approved_for_names], [[nameOf(ben)], [nameOf(dora)]])
    assert.equal(await duties.settle(id), 'succeeded')
    const { chain } = await duties.why(id)
    const said = `The answer of ${nameOf(ben)}, in place of ${nameOf(dora)}, was approved`
    assert.ok(
      chain.some(({ text }) => text.startsWith(said)),
      chain.map(({ text }) => text).join('\n'),
    )
    // A request from before counts too, since the approver made the delegation; after its end nothing does.
    assert.equal((await end(ben, made)).status, 200)
    assert.equal(await outcome(ben, await submit(ana)), 'approvals.approver.not_asked')
    const again = await delegate(dora, ben)
    await setUntil(`now() - interval '1 second'`).catch(() => setUntil(`created_at + interval '1 second'`))
    assert.equal(await outcome(ben, await submit(ana)), 'approvals.approver.not_asked')
    await end(dora, again)
    const audit = await duties.send<{ items: { event_type: string }[] }>(boss, 'GET', '/org/audit?limit=50')
    const types = audit.body.items.map(({ event_type }) => event_type)
    for (const type of ['delegation_created', 'delegation_ended']) assert.ok(types.includes(type), type)
  })

  test('[D3] one person, one vote: for the approver and the stand-in together, in one approval and in two', async () => {
    const toBen = await delegate(dora, ben)
    const toCleo = await delegate(dora, cleo)
    const toBob = await delegate(dora, bob)
    const id = await submit(ana, [{ role: 'finance', count: 2 }])
    assert.equal(await outcome(ben, id), 'wait')
    assert.equal(await outcome(ben, id), 'approvals.vote.repeated')
    assert.equal(await outcome(dora, id), 'approvals.vote.repeated')
    assert.equal(await outcome(cleo, id), 'approvals.approver.not_asked')
    // Bob is asked himself, so he votes once, as himself.
    assert.equal(await outcome(bob, id), 'run_command')
    const own = await submit(ana, [{ role: 'finance', count: 2 }])
    assert.equal(await outcome(bob, own), 'wait')
    assert.equal(await outcome(bob, own), 'approvals.vote.repeated')
    assert.equal(await outcome(dora, own), 'run_command')
    // In two approvals of one command.
    const both = await submit(ana, ['finance', `user:${dora.principal.userId}`])
    const [first, second] = Object.values(await duties.open(both))
    assert.ok(first && second)
    assert.equal((await duties.approve(ben, first)).body.next, 'wait')
    for (const person of [ben, dora])
      assert.equal((await duties.approve(person, second)).body.code, 'approvals.vote.repeated')
    assert.equal((await duties.approve(cleo, second)).status, 403)
    for (const made of [toBen, toCleo, toBob]) await end(dora, made)
  })

  test('[D3] never the requester, no chain, no author, and nobody whose credentials the requester issued', async () => {
    const made = [await delegate(dora, ana), await delegate(dora, ben), await delegate(ben, cleo)]
    const id = await submit(ana)
    assert.equal(await outcome(ana, id), 'self_approval')
    assert.equal(await outcome(cleo, id), 'approvals.approver.not_asked')
    // A stand-in who edits is an author, and the requester confirms in the place of the approver.
    assert.equal(await outcome(ben, id, { edits: { amount: '9.00' } }), 'wait')
    assert.notEqual(await outcome(ben, id), 'run_command')
    assert.equal(await outcome(ana, id), 'run_command')
    await duties.room.rows(
      `update identity.users set issuers = array['${ana.principal.userId}']::uuid[] where id = $1`,
      [ben.principal.userId],
    )
    assert.equal(await outcome(ben, await submit(ana)), 'approvals.approver.not_asked')
    await duties.room.rows(`update identity.users set issuers = '{}' where id = $1`, [ben.principal.userId])
    // Dora asks herself: nobody stands in for the requester.
    assert.equal(await outcome(ben, await submit(dora)), 'approvals.approver.not_asked')
    for (const each of made) await end(boss, each)
  })

  test('[G13] [G15] a stand-in who edits takes the place that the edited request needs, and one who has approved may still refuse', async () => {
    const tess = await duties.hire('tess', 'treasurer')
    const made = [await delegate(dora, ben), await delegate(tess, ben)]
    const id = await duties.submit(ana, 'Pay Edited', ['finance'])
    const { body } = await duties.approve(ben, await one(id), { edits: { needs: ['treasurer'] } })
    assert.equal(body.next, 'run_command', JSON.stringify(body))
    assert.deepEqual([body.approved_by_names, body.approved_for_names], [[nameOf(ben)], [nameOf(tess)]])
    const two = await submit(ana, [{ role: 'finance', count: 2 }])
    assert.equal(await outcome(ben, two), 'wait')
    assert.equal(await outcome(ben, two), 'approvals.vote.repeated')
    assert.equal(await outcome(ben, two, { decision: 'rejected', reason: 'I was wrong.' }), 'fail_command')
    for (const each of made) await end(boss, each)
  })

  test('[G11] a person has one delegation to another, which a new one replaces, and twenty in all', async () => {
    const giver = await duties.hire('giver')
    const live = async () =>
      (await duties.send<{ items: DelegationView[] }>(giver, 'GET', '/delegations?limit=100')).body.items.filter(
        ({ ended_at }) => ended_at === null,
      )
    for (let round = 0; round < 3; round++) await delegate(giver, ben)
    await delegate(boss, ben, giver)
    assert.deepEqual(
      (await live()).map(({ made_by }) => made_by),
      [`user_${boss.principal.userId.replaceAll('-', '')}`],
    )
    for (let count = 1; count < 20; count++) await delegate(giver, await duties.hire(`taker-${count}`))
    for (const by of [giver, boss]) {
      const { status, body } = await ask(by, cleo, giver)
      assert.equal(`${status} ${body.code}`, '409 identity.delegation.too_many')
    }
    // One between the same persons, one by somebody else, and one after an end are no further one.
    await delegate(giver, ben)
    await delegate(dora, cleo)
    const [last] = await live()
    assert.ok(last)
    await end(giver, last)
    await delegate(giver, cleo)
    assert.equal((await live()).length, 20)
    assert.equal(
      (await Promise.all([ask(giver, ana), ask(giver, bob)])).every(({ status }) => status === 409),
      true,
    )
  })

  test('[D3] an administrator delegates for others, not to themselves, and not for their own open request', async () => {
    const id = await submit(boss)
    const late = await delegate(boss, ben, dora)
    assert.equal(await outcome(ben, id), 'approvals.approver.not_asked')
    assert.equal(await outcome(ben, await submit(ana)), 'run_command')
    assert.equal(await outcome(ben, await submit(boss)), 'run_command')
    await end(dora, late)
    // To a person of their own it does not count, no matter who asks.
    await duties.room.rows(
      `update identity.users set issuers = array['${boss.principal.userId}']::uuid[] where id = $1`,
      [cleo.principal.userId],
    )
    const puppet = await delegate(boss, cleo, dora)
    assert.equal(await outcome(cleo, await submit(ana)), 'approvals.approver.not_asked')
    await end(boss, puppet)

    const { userId } = boss.principal
    const role = { orgId: duties.api.ours.orgId, userId, role: 'finance' }
    accepted(await grantOrgRole(duties.api.world, bySystem(TRACE), role))
    for (const [by, to, from, answer] of [
      [boss, boss, dora, '403 identity.delegation.to_maker'],
      [ana, ben, dora, '403 identity.role.insufficient'],
      [ana, ana, dora, '403 identity.role.insufficient'],
      [dora, dora, undefined, '422 identity.delegation.self'],
      [duties.api.ours.people.reader, ben, undefined, '403 identity.role.insufficient'],
    ] as const) {
      const { status, body } = await ask(by, to, from)
      assert.equal(`${status} ${body.code}`, answer)
    }
    for (const [more, answer] of [
      [{ until: '2020-01-01T00:00:00Z' }, '422 time_range'],
      [{ until: '2999-01-01T00:00:00Z' }, '422 time_range'],
      [{ to: 'nobody' }, '404 identity.user.not_found'],
    ] as const) {
      const asked = { to: nameOf(ben), until: until(), ...more }
      const { status, body } = await duties.send(dora, 'POST', '/delegations', asked)
      assert.equal(`${status} ${body.code}`, answer)
    }
    // A stranger neither sees nor ends it.
    const made = await delegate(dora, ben)
    assert.equal((await end(ana, made)).status, 404)
    const list = async (who: TestPerson) =>
      (await duties.send<{ items: DelegationView[] }>(who, 'GET', '/delegations')).body.items
    assert.deepEqual(await list(duties.api.ours.people.writer), [])
    for (const who of [dora, ben, boss])
      assert.ok((await list(who)).some(({ delegation_id }) => delegation_id === made.delegation_id))
    const inbox = await duties.send<{ items: { subject: string }[] }>(ben, 'GET', '/notifications')
    assert.match(inbox.body.items[0]?.subject ?? '', /-ben stands in for local:.*-dora/)
  })
})
