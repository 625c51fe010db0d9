/** Queues with their limits, names that every engine accepts, and the profile that start-up checks. */
import assert from 'node:assert/strict'
import { capabilitiesOf, type Next } from '#runtime'
import { runtimeCapabilities, validateCatalog } from '#kernel/saga/catalog'
import { type AddCase, aGate, note } from './runtime-bench.case.ts'

const done: Next = { t: 'done' }

export function limitCases(add: AddCase): void {
  add(
    '[PLN-13] a queue never runs more turns at once than it may, and processes that wait take no room',
    async (open) => {
      const gates = Array.from({ length: 6 }, aGate)
      let [now, peak] = [0, 0]
      const bench = await open(async (runtime, store) => {
        await runtime.defineQueue('narrow', { concurrency: 2, perWorker: 2 })
        runtime.register(
          'job',
          async (id) => {
            const isSecond = (await store.read(`${id}:waited`)) !== undefined
            if (!isSecond) {
              await store.transaction((tx) => tx.write(`${id}:waited`, true))
              return { t: 'wait', until: new Date(Date.UTC(2100, 0, 1)) }
            }
            peak = Math.max(peak, ++now)
            await gates[Number(id)]?.pass()
            now -= 1
            return done
          },
          { queue: 'narrow' },
        )
      })
      const { runtime } = bench
      const all = gates.map((_, index) => ({ kind: 'job', id: String(index) }))
      for (const process of all) await runtime.wake(process)
      await bench.reach(async () => {
        const views = await Promise.all(all.map((process) => runtime.describe(process)))
        return views.every((view) => view?.state === 'waiting')
      })
      // Six wait without a slot; two of them get one.
      for (const process of all) await runtime.wake(process)
      await bench.reach(async () => now === 2)
      for (const gate of gates) gate.open()
      await bench.reach(async () => {
        const views = await Promise.all(all.map((process) => runtime.describe(process)))
        return views.every((view) => view === undefined)
      })
      assert.equal(peak, 2)
    },
  )

  add('[PLN-13] a smaller priority goes first', async (open) => {
    const gate = aGate()
    const order: string[] = []
    const bench = await open(async (runtime) => {
      await runtime.defineQueue('single', { concurrency: 1, perWorker: 1 })
      runtime.register(
        'job',
        async (id) => {
          if (id === 'first') await gate.pass()
          order.push(id)
          return done
        },
        { queue: 'single' },
      )
    })
    const { runtime } = bench
    await runtime.wake({ kind: 'job', id: 'first' })
    await gate.reached
    await runtime.wake({ kind: 'job', id: 'late' }, { priority: 9 })
    await runtime.wake({ kind: 'job', id: 'soon' }, { priority: 1 })
    await runtime.wake({ kind: 'job', id: 'middle' }, { priority: 5 })
    gate.open()
    await bench.reach(async () => order.length === 4)
    assert.deepEqual(order, ['first', 'soon', 'middle', 'late'])
  })

  add('[PLN-13] one partition of a queue does not wait for another', async (open) => {
    const gate = aGate()
    const order: string[] = []
    const bench = await open(async (runtime) => {
      await runtime.defineQueue('parts', { partition: { concurrency: 1 }, perWorker: 8 })
      runtime.register(
        'job',
        async (id) => {
          if (id === 'a1') await gate.pass()
          order.push(id)
          return done
        },
        { queue: 'parts' },
      )
    })
    const { runtime } = bench
    await assert.rejects(runtime.wake({ kind: 'job', id: 'lost' }), { code: 'runtime.wake.partition' })
    await runtime.wake({ kind: 'job', id: 'a1' }, { partition: 'a' })
    await gate.reached
    await runtime.wake({ kind: 'job', id: 'a2' }, { partition: 'a' })
    await runtime.wake({ kind: 'job', id: 'b1' }, { partition: 'b' })
    await bench.reach(async () => order.includes('b1'))
    assert.deepEqual(order, ['b1'])
    gate.open()
    await bench.reach(async () => order.length === 3)
    assert.deepEqual(order, ['b1', 'a1', 'a2'])
  })

  add('[PLN-12] the eight queues are there at start-up and give turns', async (open) => {
    const names = ['agent_runs', 'compensations', 'concord_default', 'connector_calls', 'notifications']
    const queues = [...names, 'registry_lifecycle', 'scheduled_maintenance', 'swarm_children']
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction((tx) => tx.write(id, true))
        return done
      })
    })
    for (const queue of queues) await bench.runtime.wake({ kind: 'job', id: queue }, { queue })
    for (const queue of queues) await bench.reach(() => bench.store.read(queue))
    await assert.rejects(bench.runtime.wake({ kind: 'job', id: 'x' }, { queue: 'nowhere' }), {
      code: 'runtime.queue.unknown',
    })
  })

  add(
    '[PLN-13] a kind on a queue that nobody defined is refused at start-up, a queue that makes no sense when it is defined',
    async (open) => {
      await assert.rejects(
        open((runtime) => {
          runtime.register('job', async () => done, { queue: 'concord_defualt' })
        }),
        /runtime\.queue\.unknown.*did you mean "concord_default"/s,
      )
      const bench = await open(() => {})
      for (const spec of [
        { concurrency: 0 },
        { perWorker: 1.5 },
        { concurrency: 1, perWorker: 2 },
        { rate: { turns: 1, perMs: 0 } },
        { priority: -1 },
      ]) {
        const refused = await bench.runtime.defineQueue('odd', spec)
        assert.equal(refused.ok ? '' : refused.code, 'runtime.queue.invalid', JSON.stringify(spec))
      }
      const named = await bench.runtime.defineQueue('Not A Name', {})
      assert.equal(named.ok ? '' : named.code, 'runtime.queue.invalid')
    },
  )

  add('a name or a delay that does not fit is refused before anything is written', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction((tx) => tx.write(`length:${id.length}`, true))
        return done
      })
    })
    const { runtime } = bench
    await assert.rejects(runtime.wake({ kind: 'job', id: 'x'.repeat(201) }), { code: 'runtime.process.id' })
    await assert.rejects(runtime.wake({ kind: 'job', id: '' }), { code: 'runtime.process.id' })
    await assert.rejects(runtime.wake({ kind: 'job', id: 'nul\0' }), { code: 'runtime.process.id' })
    await assert.rejects(runtime.wake({ kind: 'Job', id: 'x' }), { code: 'runtime.process.kind' })
    for (const delayMs of [-1, 0.5, Number.NaN, 367 * 86_400_000]) {
      await assert.rejects(runtime.wake({ kind: 'job', id: 'x' }, { delayMs }), { code: 'runtime.wake.delay' })
    }
    await runtime.wake({ kind: 'job', id: 'y'.repeat(200) })
    await bench.reach(() => bench.store.read('length:200'))
  })

  add(
    '[RUN-02] [RUN-04] the profile grades all nine capabilities, and a catalog that needs more is refused',
    async (open) => {
      const { runtime } = await open(() => {})
      assert.deepEqual(Object.keys(runtime.profile.capabilities).toSorted(), runtimeCapabilities.toSorted())
      assert.ok(
        Object.values(runtime.profile.capabilities).every((grade) => ['native', 'composed', 'none'].includes(grade)),
      )
      const has = capabilitiesOf(runtime.profile)
      const gap = runtimeCapabilities.find((capability) => !has.includes(capability))
      assert.ok(gap, 'no runtime has everything')
      const codeFor = (needed: (typeof runtimeCapabilities)[number]) => {
        const operation = {
          operation: 'wire_money',
          produces: [],
          requires_compensation: false,
          requires_capabilities: [needed],
        }
        const offered = { name: runtime.profile.name, capabilities: has }
        const catalog = validateCatalog({ operations: [operation], compensations: [] }, offered)
        return catalog.ok ? 'accepted' : catalog.code
      }
      for (const capability of has) assert.equal(codeFor(capability), 'accepted')
      assert.equal(codeFor(gap), 'saga.catalog.invalid')
    },
  )

  add('open means ready: the first wake after it is answered', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction((tx) => note(tx, id, 'turn'))
        return done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'first' })
    await bench.reach(() => bench.store.read('first'))
    const late = () => bench.runtime.register('late', async () => done)
    assert.throws(late, { code: 'runtime.register.late' })
  })
}
