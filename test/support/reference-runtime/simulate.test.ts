import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { proofSize } from '#test/proof-size'
import type { Drive } from '#runtime'
import type { MemoryStore } from './memory-store.ts'
import { explore, faultModes, type Simulation, simulate, type SimulationWorld } from './simulate.ts'

type Order = { readonly state: 'open' | 'charged' | 'shipped' | 'done'; readonly by: string }

function stateOf(store: MemoryStore, id: string): Order['state'] | undefined {
  return (store.get(id) as Order | undefined)?.state
}

/** Charge, ship and finish, each at most once for the provider. `careless` leaves one safeguard out. */
function anOrder(careless: 'none' | 'no key' | 'no fence' | 'no wake' = 'none'): () => Simulation {
  return () => {
    const far: string[] = []
    /** The provider deduplicates by our key, unless we send none. */
    const provide = (key: string) => {
      if (careless === 'no key' || !far.includes(key)) far.push(key)
    }
    const drives = ({ store, act, runtime }: SimulationWorld): Record<string, Drive> => ({
      order: async (id, { token }) => {
        const move = (from: Order['state'], to: Order['state']) =>
          store.transaction(async (tx) => {
            const order = tx.get(id) as Order | undefined
            if (careless !== 'no fence' && !tx.fence(id, token).ok) return false
            // Without the fence a late driver would overwrite the work of the next one.
            if (careless !== 'no fence' && order?.state !== from) return false
            tx.set(id, { state: to, by: token })
            if (to === 'shipped' && careless !== 'no wake') await runtime.wake({ kind: 'mail', id }, { tx })
            return true
          })
        if (stateOf(store, id) === 'open') {
          await act(() => provide(`charge:${id}`))
          if (!(await move('open', 'charged'))) return { t: 'again' }
        }
        if (stateOf(store, id) === 'charged') {
          await act(() => provide(`ship:${id}`))
          if (!(await move('charged', 'shipped'))) return { t: 'again' }
          return { t: 'again' }
        }
        if (stateOf(store, id) === 'shipped') await move('shipped', 'done')
        return stateOf(store, id) === 'done' ? { t: 'done' } : { t: 'again' }
      },
      mail: async (id) => {
        await act(() => provide(`mail:${id}`))
        return { t: 'done' }
      },
    })
    return {
      drives,
      async start({ store, runtime }) {
        for (const id of ['a', 'b']) {
          await store.transaction(async (tx) => {
            tx.set(id, { state: 'open', by: 'nobody' })
            await runtime.wake({ kind: 'order', id }, { tx })
          })
        }
      },
      check({ store }) {
        for (const id of ['a', 'b']) assert.equal(stateOf(store, id), 'done')
        const expected = ['a', 'b'].flatMap((id) => [`charge:${id}`, `mail:${id}`, `ship:${id}`]).toSorted()
        assert.deepEqual(far.toSorted(), expected)
      },
    }
  }
}

describe('simulation', () => {
  test('[RUN-16] an order survives its worker being killed or frozen at every write, one, two or three times', async (t) => {
    const from = performance.now()
    const { runs, hits, points } = await explore(anOrder(), 7, proofSize(300, 2_000))
    t.diagnostic(
      `${runs} runs over ${points} points, ${hits} faults, ${Math.round(runs / ((performance.now() - from) / 1_000))} runs/s`,
    )
    assert.ok(points >= 12, `${points} points`)
    assert.ok(hits >= points * faultModes.length, `${hits} faults struck`)
  })

  for (const careless of ['no key', 'no fence', 'no wake'] as const) {
    test(`it bites: the same order with ${careless} is caught`, async () => {
      await assert.rejects(explore(anOrder(careless), 7, 300), { code: 'reference.simulate.broken' })
    })
  }

  test('the same seed and the same faults give the same run', async () => {
    const faults = [
      { at: 3, mode: 'freeze' },
      { at: 5, mode: 'before' },
    ] as const
    const runs = await Promise.all([simulate(anOrder(), faults, 5), simulate(anOrder(), faults, 5)])
    assert.deepEqual(runs[0], runs[1])
    assert.equal(runs[0].hits, 2)
  })

  test('a drive that never comes to rest is told so', async () => {
    const restless = (): Simulation => ({
      drives: ({ runtime }) => ({
        order: async () => ({ t: 'wait', until: new Date(runtime.clock.now().getTime() + 1_000) }),
      }),
      start: ({ runtime }) => runtime.wake({ kind: 'order', id: 'a' }),
      check: () => {},
    })
    await assert.rejects(simulate(restless, [], 1), { code: 'reference.simulate.restless' })
  })
})
