/** When a process gets a turn: after a wake, with the commit of its fact, again, and at a due time. None is lost. */
import assert from 'node:assert/strict'
import type { Next } from '#runtime'
import { type AddCase, aGate, note } from './runtime-bench.case.ts'

const done: Next = { t: 'done' }

export function turnCases(add: AddCase): void {
  add('[RUN-01] a wake gives the process a turn, and done ends it', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, { token, turn, attempt }) => {
        await store.transaction((tx) => note(tx, id, { token, turn, attempt }))
        return done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'one' })
    const turns = await bench.reach(() => bench.store.read<{ token: string; turn: string; attempt: number }[]>('one'))
    assert.equal(turns.length, 1)
    assert.equal(turns[0]?.attempt, 1)
    assert.match(turns[0]?.turn ?? '', /^turn:job:one:\d+$/)
    assert.match(turns[0]?.token ?? '', /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8000-0{12}$/)
    await bench.reach(async () => (await bench.runtime.describe({ kind: 'job', id: 'one' })) === undefined)
  })

  add('a wake commits with its fact, or neither does', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction(async (tx) => tx.write(`${id}:saw`, (await tx.read(`${id}:fact`)) ?? 'nothing'))
        return done
      })
    })
    const { runtime, store } = bench
    const rolledBack = store.transaction(async (tx) => {
      await tx.write('a:fact', 'written')
      await runtime.wake({ kind: 'job', id: 'a' }, { tx })
      throw new Error('no')
    })
    await assert.rejects(rolledBack, /no/)
    assert.equal(await runtime.describe({ kind: 'job', id: 'a' }), undefined)
    await store.transaction(async (tx) => {
      await tx.write('b:fact', 'written')
      await runtime.wake({ kind: 'job', id: 'b' }, { tx })
    })
    assert.equal(await bench.reach(() => store.read('b:saw')), 'written')
    assert.equal(await store.read('a:saw'), undefined)
  })

  add('no turn sees less than the facts of the wakes before it', async (open) => {
    const gate = aGate()
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        const seen = (await store.read<number[]>(`${id}:facts`)) ?? []
        if (seen.length === 1) await gate.pass()
        await store.transaction((tx) => tx.write(`${id}:seen`, seen.length))
        return { t: 'wait', until: null }
      })
    })
    const { runtime, store } = bench
    const tell = (fact: number) =>
      store.transaction(async (tx) => {
        await note(tx, 'p:facts', fact)
        await runtime.wake({ kind: 'job', id: 'p' }, { tx })
      })
    await tell(1)
    await gate.reached
    // The running turn has already read its rows; without another turn these facts would be lost.
    await Promise.all([tell(2), tell(3), tell(4)])
    gate.open()
    await bench.reach(async () => (await store.read<number>('p:seen')) === 4)
  })

  add('wakes that nobody has answered count once', async (open) => {
    const gate = aGate()
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction((tx) => note(tx, `${id}:turns`, 'turn'))
        await gate.pass()
        return done
      })
    })
    const { runtime, store } = bench
    await runtime.wake({ kind: 'job', id: 'p' })
    await gate.reached
    for (let count = 0; count < 20; count++) await runtime.wake({ kind: 'job', id: 'p' })
    gate.open()
    await bench.reach(async () => (await runtime.describe({ kind: 'job', id: 'p' })) === undefined)
    assert.equal((await store.read<string[]>('p:turns'))?.length, 2)
  })

  add('again gives another turn with a greater token', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, { token }) => {
        const tokens = await store.transaction(async (tx) => {
          await note(tx, id, token)
          return tx.read<string[]>(id)
        })
        return (tokens?.length ?? 0) < 3 ? { t: 'again' } : done
      })
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    await bench.reach(async () => (await bench.store.read<string[]>('p'))?.length === 3)
    const tokens = (await bench.store.read<string[]>('p')) ?? []
    assert.deepEqual(tokens, [...new Set(tokens)].toSorted())
  })

  add('a turn may wait until a due time, and a wake brings it forward', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        const turns = await store.transaction(async (tx) => {
          await note(tx, id, 'turn')
          return (await tx.read<string[]>(id))?.length
        })
        return turns === 1 ? { t: 'wait', until: new Date(Date.UTC(2100, 0, 1)) } : done
      })
    })
    const { runtime, store } = bench
    await runtime.wake({ kind: 'job', id: 'p' })
    const waiting = await bench.reach(async () => {
      const view = await runtime.describe({ kind: 'job', id: 'p' })
      return view?.state === 'waiting' && view
    })
    assert.deepEqual(waiting.dueAt, new Date(Date.UTC(2100, 0, 1)))
    // A wake starts the turn earlier.
    await runtime.wake({ kind: 'job', id: 'p' })
    await bench.reach(async () => (await store.read<string[]>('p'))?.length === 2)
  })

  add(
    'a delayed wake comes at its time; an earlier one brings it forward, a later one does not push it back',
    async (open) => {
      const bench = await open((runtime, store) => {
        runtime.register('job', async (id) => {
          await store.transaction((tx) => note(tx, id, 'turn'))
          return done
        })
      })
      const { runtime, store } = bench
      await runtime.wake({ kind: 'job', id: 'p' }, { delayMs: 3_600_000 })
      await runtime.wake({ kind: 'job', id: 'p' }, { delayMs: 400 })
      await runtime.wake({ kind: 'job', id: 'p' }, { delayMs: 3_600_000 })
      assert.equal((await runtime.describe({ kind: 'job', id: 'p' }))?.state, 'waiting')
      assert.equal(await store.read('p'), undefined)
      await bench.pass(400)
      await bench.reach(async () => (await store.read<string[]>('p'))?.length === 1)
    },
  )

  add('a wake for nothing neither ends a wait nor loses its due time', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        const { turns, dueAt } = await store.transaction(async (tx) => {
          await note(tx, `${id}:turns`, 'turn')
          return {
            turns: (await tx.read<string[]>(`${id}:turns`))?.length ?? 0,
            dueAt: await tx.read<string>(`${id}:due`),
          }
        })
        if (turns < 3) return { t: 'wait', until: new Date(dueAt ?? 0) }
        await store.transaction((tx) => tx.write(`${id}:over`, true))
        return done
      })
    })
    const { runtime, store } = bench
    const dueAt = new Date(Date.UTC(2100, 0, 1)).toISOString()
    await store.transaction((tx) => tx.write('p:due', dueAt))
    for (const turns of [1, 2]) {
      await runtime.wake({ kind: 'job', id: 'p' })
      await bench.reach(async () => {
        const view = await runtime.describe({ kind: 'job', id: 'p' })
        const given = await store.read<string[]>('p:turns')
        return view?.state === 'waiting' && given?.length === turns && view.dueAt.toISOString() === dueAt
      })
    }
    assert.equal(await store.read('p:over'), undefined)
  })

  add('[RUN-08] waking what is done drives it again, and the row says that nothing is left to do', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction(async (tx) => {
          await note(tx, `${id}:turns`, 'turn')
          if ((await tx.read(`${id}:state`)) !== 'done') await note(tx, `${id}:effects`, 'effect')
          await tx.write(`${id}:state`, 'done')
        })
        return done
      })
    })
    const { runtime, store } = bench
    for (const turns of [1, 2]) {
      await runtime.wake({ kind: 'job', id: 'p' })
      await bench.reach(async () => (await store.read<string[]>('p:turns'))?.length === turns)
    }
    assert.deepEqual(await store.read('p:effects'), ['effect'])
  })
}
