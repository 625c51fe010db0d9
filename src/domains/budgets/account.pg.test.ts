import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import fc from 'fast-check'
import { bySystem } from '#kernel/actor'
import { formatMoney, maxMoney, type Money } from '#kernel/money'
import type { Decision } from '#kernel/refusal'
import { constraintOf } from '#store'
import { aBudgetPlace, assertSound, type BudgetPlace, units } from '#test/budgets'
import { openTestDb, type TestDb } from '#test/database'
import { accepted, TRACE } from '#test/tenant'
import {
  amountOf,
  closeAccount,
  freeOf,
  listChildren,
  openAccount,
  raiseLimit,
  readAccount,
  releaseCost,
  reserveCost,
  settleCost,
  type StoredAccount,
} from './account.ts'
import { toBudgetView } from './contract.ts'
import { liftQuarantine, listQuarantines } from './quarantine.ts'

const at = new Date('2026-05-01T10:00:00.000Z')
const actor = bySystem(TRACE)
const codeOf = (decision: Decision<unknown>) => (decision.ok ? 'accepted' : decision.code)

describe('budget accounts', () => {
  let opened: TestDb
  let place: BudgetPlace
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine', poolMax: 8 })
    place = await aBudgetPlace(opened.db)
  })
  after(() => opened.close())

  const run = <T>(work: (tx: Parameters<Parameters<TestDb['db']['transaction']>[0]>[0]) => Promise<T>) =>
    opened.db.transaction(work)
  const open = (limit: string, parentId: string | null = null, accountId: string = randomUUID()) =>
    run((tx) => openAccount(tx, { ...place, accountId, parentId, limit: units(limit), at }))
  const idOf = async (limit: string, parentId: string | null = null) => accepted(await open(limit, parentId)).account_id
  const of = (accountId: string, key: string, amount: string) => ({
    workspaceId: place.workspaceId,
    accountId,
    key,
    amount: units(amount),
    at,
  })
  const take = (id: string, key: string, amount: string) => run((tx) => reserveCost(tx, of(id, key, amount)))
  const pay = (id: string, key: string, amount: string) => run((tx) => settleCost(tx, actor, of(id, key, amount)))
  const add = (id: string, key: string, amount: string) => run((tx) => raiseLimit(tx, actor, of(id, key, amount)))
  const close = (accountId: string) => run((tx) => closeAccount(tx, { workspaceId: place.workspaceId, accountId, at }))
  const look = async (id: string) => accepted(await readAccount(opened.db, place.workspaceId, id))
  const balances = (account: StoredAccount) =>
    [account.limit_units, account.reserved_units, account.spent_units, account.carved_units, account.excess_units]
      .map((text) => Number(text))
      .join(' ')
  const eventsOf = (id: string) =>
    opened.db.query<{ event_type: string; payload: Record<string, unknown> }>(
      `select event_type, payload from concord.domain_events where payload->>'target_id' = $1 order by seq`,
      [id],
    )

  test('a call reserves its worst case, costs less, and the rest is free again', async () => {
    const id = await idOf('10')
    assert.equal(balances(accepted(await take(id, 'turn:1', '6'))), '10 6 0 0 0')
    assert.equal(codeOf(await take(id, 'turn:2', '4.000001')), 'budgets.account.exhausted')
    const account = accepted(await pay(id, 'turn:1', '2.5'))
    assert.equal(balances(account), '10 0 2.5 0 0')
    assert.equal(formatMoney(freeOf(account)), '7.500000')
    accepted(await take(id, 'turn:2', '7.5'))
    accepted(await run((tx) => releaseCost(tx, actor, of(id, 'turn:2', '0'))))
    assert.equal(balances(await look(id)), '10 0 2.5 0 0')
  })

  test('a repeat after a crash changes nothing, and a key stands for one amount and one call', async () => {
    const id = await idOf('10')
    for (const _ of [1, 2]) accepted(await take(id, 'turn:1', '6'))
    assert.equal(codeOf(await take(id, 'turn:1', '5')), 'budgets.key.reused')
    accepted(await pay(id, 'turn:1', '4'))
    const again = accepted(await pay(id, 'turn:1', '6'))
    assert.equal(balances(again), '10 0 4 0 0')
    assert.equal(codeOf(await take(id, 'turn:1', '6')), 'budgets.key.reused')
    assert.equal(codeOf(await pay(id, 'turn:9', '1')), 'budgets.reservation.not_found')
    for (const _ of [1, 2]) accepted(await add(id, 'ask:1', '5'))
    assert.equal(balances(await look(id)), '15 0 4 0 0')
    const other = await idOf('10')
    assert.equal(codeOf(await open('10', null, id)), 'accepted')
    assert.equal(codeOf(await open('1', other, id)), 'budgets.key.reused')
    assert.equal(balances(await look(other)), '10 0 0 0 0')
  })

  test('the limit of a child is carved out of its parent, and closing returns what is left', async () => {
    const root = await idOf('10')
    const child = await idOf('6', root)
    accepted(await open('6', root, child))
    assert.equal(balances(await look(root)), '10 0 0 6 0')
    assert.equal(codeOf(await open('4.5', root)), 'budgets.account.exhausted')
    const grandchild = await idOf('2', child)
    accepted(await take(grandchild, 'turn:1', '2'))
    accepted(await pay(grandchild, 'turn:1', '1.25'))
    assert.equal(codeOf(await close(child)), 'budgets.account.has_children')
    accepted(await close(grandchild))
    accepted(await take(child, 'turn:1', '3'))
    // A call that nobody heard of again counts at its worst case.
    for (const _ of [1, 2]) assert.equal(balances(accepted(await close(child))), '6 0 4.25 0 0')
    assert.equal(balances(await look(root)), '10 0 4.25 0 0')
    assert.equal(balances(accepted(await pay(child, 'turn:1', '0.5'))), balances(await look(child)))
    for (const refused of [await take(child, 'turn:2', '1'), await add(child, 'ask', '1'), await open('1', child)])
      assert.equal(codeOf(refused), 'budgets.account.closed')
    const view = toBudgetView(await look(root), await listChildren(opened.db, await look(root)))
    assert.deepEqual(
      [view.status, view.free_units, view.children.map(({ status, spent_units }) => [status, spent_units])],
      ['open', '5.750000', [['closed', '4.250000']]],
    )
    await assertSound(opened.db, place)
  })

  test('a call above its reservation is a breach: on record, told to the caller, and no longer free', async () => {
    const root = await idOf('10')
    const id = await idOf('5', root)
    accepted(await take(id, 'turn:1', '2'))
    const account = accepted(await pay(id, 'turn:1', '4.5'))
    assert.equal(balances(account), '5 0 2 0 2.5')
    assert.equal(formatMoney(freeOf(account)), '0.500000')
    assert.equal(codeOf(await take(id, 'turn:2', '0.6')), 'budgets.account.exhausted')
    const [event] = await eventsOf(id)
    assert.equal(event?.event_type, 'budget_breached')
    assert.deepEqual([event.payload['key'], event.payload['excess_units']], ['turn:1', '2.500000'])
    assert.equal(toBudgetView(account, []).status, 'breached')
    accepted(await close(id))
    assert.equal(balances(await look(root)), '10 0 2 0 2.5')
    // The highest amount that can be named, twice.
    const huge = await idOf('1')
    for (const key of ['a', 'b']) accepted(await take(huge, key, '0.1'))
    for (const key of ['a', 'b']) accepted(await pay(huge, key, formatMoney(maxMoney)))
    assert.equal(formatMoney(freeOf(await look(huge))), '0.000000')
    await assertSound(opened.db, place)
  })

  test('a model that cost more than its worst case is not called until an administrator lifts it', async () => {
    const id = await idOf('10')
    const elsewhere = await aBudgetPlace(opened.db)
    const model = `model ${randomUUID()}`
    const call = (key: string, by = model) => run((tx) => reserveCost(tx, { ...of(id, key, '1'), model: by }))
    const paid = (key: string, amount: string) => run((tx) => settleCost(tx, actor, { ...of(id, key, amount), model }))
    for (const key of ['a', 'b', 'c']) accepted(await call(key))
    accepted(await paid('a', '1'))
    const list = async (workspaceId: string) =>
      (await listQuarantines(opened.db, workspaceId)).filter((row) => row.model === model)
    assert.deepEqual(await list(place.workspaceId), [])
    for (const key of ['b', 'c']) accepted(await paid(key, '1.5'))
    assert.equal(codeOf(await call('d')), 'budgets.model.quarantined')
    accepted(await call('d', 'another'))
    const listed = await list(place.workspaceId)
    assert.deepEqual(
      listed.map((row) => [row.model, row.key, Number(row.excess_units)]),
      [[model, 'b', 0.5]],
    )
    assert.deepEqual(await list(elsewhere.workspaceId), [])
    const world = { db: opened.db, now: () => at, newId: () => randomUUID() }
    const admin = { id: `user:${randomUUID()}`, kind: 'user' as const, traceId: TRACE }
    const lift = (workspaceId: string) => liftQuarantine(world, admin, { workspaceId, model, reason: 'corrected' })
    assert.equal(codeOf(await lift(elsewhere.workspaceId)), 'budgets.quarantine.not_found')
    accepted(await lift(place.workspaceId))
    assert.equal(codeOf(await lift(place.workspaceId)), 'budgets.quarantine.not_found')
    accepted(await call('e'))
    const events = await eventsOf(listed[0]?.quarantine_id ?? '')
    assert.deepEqual(
      events.map(({ event_type, payload }) => [event_type, payload['model']]),
      [
        ['model_quarantined', model],
        ['model_quarantine_lifted', model],
      ],
    )
    await assertSound(opened.db, place)
  })

  test('a raise reaches every account that the limit is carved out of, and ends at the highest amount', async () => {
    const root = await idOf('10')
    const child = await idOf('10', root)
    accepted(await take(child, 'turn:1', '10'))
    assert.equal(balances(accepted(await add(child, 'ask:1', '3'))), '13 10 0 0 0')
    assert.equal(balances(await look(root)), '13 0 0 13 0')
    assert.deepEqual(
      (await eventsOf(child)).map(({ event_type }) => event_type),
      ['budget_raised'],
    )
    assert.equal(codeOf(await add(child, 'ask:2', formatMoney(maxMoney))), 'money.range')
    assert.equal(balances(await look(child)), '13 10 0 0 0')
    await assertSound(opened.db, place)
  })

  test('an account of another workspace looks like a missing one', async () => {
    const id = await idOf('10')
    const elsewhere = await aBudgetPlace(opened.db)
    const foreign = { ...of(id, 'turn:1', '1'), workspaceId: elsewhere.workspaceId }
    for (const work of [
      () => run((tx) => reserveCost(tx, foreign)),
      () => run((tx) => settleCost(tx, actor, foreign)),
      () => run((tx) => raiseLimit(tx, actor, foreign)),
      () => run((tx) => closeAccount(tx, foreign)),
      () => readAccount(opened.db, elsewhere.workspaceId, id),
      () =>
        run((tx) => openAccount(tx, { ...elsewhere, accountId: randomUUID(), parentId: id, limit: units('1'), at })),
    ])
      assert.equal(codeOf(await work()), 'row.not_found')
    assert.equal(balances(await look(id)), '10 0 0 0 0')
  })

  test('64 calls at once on a limit for ten: ten begin', async () => {
    const id = await idOf('10')
    const results = await Promise.all(Array.from({ length: 64 }, (_, n) => take(id, `turn:${n}`, '1')))
    assert.equal(results.filter(({ ok }) => ok).length, 10)
    assert.equal(balances(await look(id)), '10 10 0 0 0')
    await assertSound(opened.db, place)
  })

  test('the same call at once from eight callers: one reservation and one settlement', async () => {
    const id = await idOf('10')
    const eight = async (work: () => Promise<Decision<unknown>>) => {
      const done = await Promise.allSettled(Array.from({ length: 8 }, work))
      for (const each of done)
        if (each.status === 'rejected')
          assert.match(constraintOf(each.reason) ?? '', /^(budget_entries_pk|cost_units_ck)$/)
      assert.ok(done.some((each) => each.status === 'fulfilled' && each.value.ok))
    }
    await eight(() => take(id, 'turn:1', '4'))
    assert.equal(balances(await look(id)), '10 4 0 0 0')
    await eight(() => pay(id, 'turn:1', '5'))
    assert.equal(balances(await look(id)), '10 0 4 0 1')
    await assertSound(opened.db, place)
  })

  type Step = {
    readonly act: 'open' | 'reserve' | 'settle' | 'release' | 'raise' | 'close'
    readonly of: number
    readonly key: number
    readonly micros: number
  }
  const aStep: fc.Arbitrary<Step> = fc.record({
    act: fc.constantFrom('open', 'reserve', 'reserve', 'settle', 'settle', 'release', 'raise', 'close'),
    of: fc.nat(7),
    key: fc.nat(5),
    micros: fc.integer({ min: 1, max: 4_000_000 }),
  })

  /** Applies steps to the accounts of a tree; the accounts are known by their place. Returns what was accepted. */
  function openProgram(ids: readonly string[]) {
    return async ({ act, of: n, key, micros }: Step): Promise<boolean> => {
      const amount = formatMoney(BigInt(micros) as Money)
      const id = ids[n] ?? ''
      const parent = n === 0 ? null : (ids[Math.floor((n - 1) / 2)] ?? '')
      const work = {
        open: () => open(amount, parent, id),
        reserve: () => take(id, `k${key}`, amount),
        settle: () => pay(id, `k${key}`, amount),
        release: () => run((tx) => releaseCost(tx, actor, of(id, `k${key}`, '0'))),
        raise: () => add(id, `r${key}`, amount),
        close: () => close(id),
      }[act]
      try {
        return (await work()).ok
      } catch (error) {
        // Two steps with one key at the same instant.
        assert.match(constraintOf(error) ?? String(error), /^(budget_(entries|accounts)_pk|cost_units_ck)$/)
        return false
      }
    }
  }

  test('any program over a tree of accounts, at once: sums exact, no account above its limit, entries give the balances', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(aStep, { maxLength: 12 }), { minLength: 1, maxLength: 6 }), async (lanes) => {
        const ids = Array.from({ length: 8 }, () => randomUUID())
        const apply = openProgram(ids)
        accepted(await open('20', null, ids[0] ?? ''))
        await Promise.all(
          lanes.map(async (lane) => {
            for (const step of lane) await apply(step)
          }),
        )
        await assertSound(opened.db, place)
      }),
      { numRuns: 60 },
    )
  })

  test('any program, one step after the other, has the balances of a plain sum', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(aStep, { maxLength: 40 }), async (steps) => {
        const ids = Array.from({ length: 8 }, () => randomUUID())
        const apply = openProgram(ids)
        accepted(await open('20', null, ids[0] ?? ''))
        const model = openModel(20_000_000)
        for (const step of steps) assert.equal(await apply(step), model.apply(step), JSON.stringify(step))
        for (const [n, id] of ids.entries()) {
          const row = await readAccount(opened.db, place.workspaceId, id)
          const found = row.ok ? row.value : undefined
          const columns = ['limit', 'reserved', 'spent', 'carved', 'excess'] as const
          const shown = found && columns.map((name) => Number(amountOf(found[`${name}_units`])))
          const known = model.account(n)
          assert.deepEqual(shown, known && columns.map((name) => known[name]))
        }
      }),
      { numRuns: 60 },
    )
  })

  /** The same accounts in memory, in millionths. */
  function openModel(limit: number) {
    const fresh = (limit: number) => ({
      limit,
      reserved: 0,
      spent: 0,
      carved: 0,
      excess: 0,
      isClosed: false,
      held: new Map<number, number>(),
      settled: new Set<number>(),
      raises: new Set<number>(),
    })
    const known = new Map([[0, fresh(limit)]])
    const parentOf = (n: number) => (n === 0 ? undefined : known.get(Math.floor((n - 1) / 2)))
    const chainOf = (n: number): number[] => (n === 0 ? [0] : [n, ...chainOf(Math.floor((n - 1) / 2))])
    return {
      account: (n: number) => known.get(n),
      apply({ act, of: n, key, micros }: Step): boolean {
        const account = known.get(n)
        const parent = parentOf(n)
        if (act === 'open') {
          if (account) return true
          const free = parent && parent.limit - parent.reserved - parent.spent - parent.carved - parent.excess
          if (!parent || free === undefined || parent.isClosed || free < micros) return false
          parent.carved += micros
          known.set(n, fresh(micros))
          return true
        }
        if (!account) return false
        const held = account.held.get(key)
        switch (act) {
          case 'reserve': {
            if (account.isClosed) return false
            if (held !== undefined) return !account.settled.has(key) && held === micros
            const free = account.limit - account.reserved - account.spent - account.carved - account.excess
            if (free < micros) return false
            account.held.set(key, micros)
            account.reserved += micros
            return true
          }
          case 'settle':
          case 'release': {
            if (account.settled.has(key)) return true
            if (held === undefined) return false
            const cost = act === 'release' ? 0 : micros
            account.settled.add(key)
            account.reserved -= held
            account.spent += Math.min(cost, held)
            account.excess += Math.max(cost - held, 0)
            return true
          }
          case 'raise': {
            if (account.isClosed) return false
            if (account.raises.has(key)) return true
            account.raises.add(key)
            for (const m of chainOf(n)) {
              const each = known.get(m)
              if (!each) continue
              each.limit += micros
              if (m !== n) each.carved += micros
            }
            return true
          }
          case 'close': {
            if (account.isClosed) return true
            if (account.carved > 0) return false
            for (const each of account.held.keys()) account.settled.add(each)
            account.spent += account.reserved
            account.reserved = 0
            account.isClosed = true
            if (parent) {
              parent.carved -= account.limit
              parent.spent += account.spent
              parent.excess += account.excess
            }
            return true
          }
        }
      },
    }
  }
})
