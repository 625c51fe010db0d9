/** What a dead or slow worker leaves behind: the work continues, and nothing is done twice. */
import assert from 'node:assert/strict'
import type { Next } from '#runtime'
import { type AddCase, aGate, note } from './runtime-bench.case.ts'

const done: Next = { t: 'done' }

export function crashCases(add: AddCase): void {
  add('[RUN-08] a deed that was done but not recorded is done once at the far end, in two attempts', async (open) => {
    const far = new Map<string, number>()
    const gate = aGate()
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, fence) => {
        await store.transaction((tx) => note(tx, `${id}:attempts`, fence.attempt))
        // The provider deduplicates by key.
        far.set(`pay:${id}`, 1)
        if (fence.attempt === 1) await gate.pass()
        await store.transaction((tx) => tx.write(`${id}:paid`, true))
        return done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await gate.reached
    await bench.crash()
    await bench.reach(() => bench.store.read('p:paid'))
    assert.deepEqual(await bench.store.read('p:attempts'), [1, 2])
    assert.deepEqual([...far], [['pay:p', 1]])
  })

  add('[RUN-08] a worker that comes back after its turn was given away writes nothing', async (open) => {
    const gate = aGate()
    const late: boolean[] = []
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, { token, attempt }) => {
        const hold = () => store.transaction((tx) => tx.fence(id, token))
        await hold()
        if (attempt === 1) await gate.pass()
        await store.transaction(async (tx) => {
          const mine = await tx.fence(id, token)
          if (attempt === 1) late.push(mine)
          if (mine) await note(tx, id, attempt)
        })
        return done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await gate.reached
    await bench.crash()
    await bench.reach(() => bench.store.read('p'))
    gate.open()
    await bench.reach(async () => late.length === 1)
    assert.deepEqual(late, [false])
    assert.deepEqual(await bench.store.read('p'), [2])
  })

  add('a turn that takes long stays with its living worker', async (open) => {
    const gate = aGate()
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, { attempt }) => {
        await store.transaction((tx) => note(tx, id, attempt))
        await gate.pass()
        return done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await gate.reached
    await bench.pass(1_500)
    assert.equal((await bench.runtime.describe({ kind: 'job', id: 'p' }))?.state, 'running')
    gate.open()
    await bench.reach(async () => (await bench.runtime.describe({ kind: 'job', id: 'p' })) === undefined)
    assert.deepEqual(await bench.store.read('p'), [1])
  })

  add('a worker that starts does not disturb one that runs a turn', async (open) => {
    const gate = aGate()
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, { attempt }) => {
        await store.transaction((tx) => note(tx, id, attempt))
        await gate.pass()
        return done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await gate.reached
    await bench.join()
    assert.equal((await bench.runtime.describe({ kind: 'job', id: 'p' }))?.state, 'running')
    gate.open()
    await bench.reach(async () => (await bench.runtime.describe({ kind: 'job', id: 'p' })) === undefined)
    assert.deepEqual(await bench.store.read('p'), [1])
    assert.equal(await bench.store.read('stranger:job:p'), undefined)
  })

  add('a parent goes on after a crash between the end of its children and its own next turn', async (open) => {
    const gates = [aGate(), aGate(), aGate()]
    const parentGate = aGate()
    const bench = await open((runtime, store) => {
      runtime.register('child', async (id) => {
        await gates[Number(id)]?.pass()
        await store.transaction(async (tx) => {
          await note(tx, 'finished', id)
          await runtime.wake({ kind: 'parent', id: 'p' }, { tx })
        })
        return done
      })
      runtime.register('parent', async (_id, { attempt }) => {
        const finished = (await store.read<string[]>('finished')) ?? []
        if (finished.length < 3) return { t: 'wait', until: null }
        if (attempt === 1) await parentGate.pass()
        await store.transaction((tx) => tx.write('joined', finished))
        return done
      })
    })
    for (const id of ['0', '1', '2']) await bench.runtime.wake({ kind: 'child', id })
    for (const place of [2, 0, 1]) {
      gates[place]?.open()
      await bench.reach(async () => (await bench.store.read<string[]>('finished'))?.includes(String(place)))
    }
    await parentGate.reached
    await bench.crash()
    const joined = await bench.reach(() => bench.store.read<string[]>('joined'))
    assert.deepEqual(joined, ['2', '0', '1'])
  })

  add('what was decided before a crash stands after it, though the rule has changed', async (open) => {
    const gate = aGate()
    let rule = 'allow'
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, { attempt }) => {
        const decision = await store.transaction(async (tx) => {
          const known = await tx.read<string>(`${id}:decision`)
          if (known === undefined) await tx.write(`${id}:decision`, rule)
          return known ?? rule
        })
        if (attempt === 1) await gate.pass()
        await store.transaction((tx) => tx.write(`${id}:acted`, decision))
        return done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await gate.reached
    rule = 'deny'
    await bench.crash()
    assert.equal(await bench.reach(() => bench.store.read('p:acted')), 'allow')
  })

  add('a new version of the code takes over what the old one left waiting', async (open) => {
    let version = 1
    const bench = await open((runtime, store) => {
      const mine = version
      runtime.register('job', async (id) => {
        await store.transaction((tx) => note(tx, id, `v${mine}`))
        return mine === 1 ? { t: 'wait', until: null } : done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await bench.reach(async () => {
      const turns = await bench.store.read<string[]>('p')
      return turns?.length === 1 && (await bench.runtime.describe({ kind: 'job', id: 'p' })) === undefined
    })
    version = 2
    await bench.crash()
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await bench.reach(async () => (await bench.store.read<string[]>('p'))?.length === 2)
    assert.deepEqual(await bench.store.read('p'), ['v1', 'v2'])
  })
}
