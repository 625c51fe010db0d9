/** A cancellation is a flag on a row and a wake; facts are rows and wakes, in order and once each. */
import assert from 'node:assert/strict'
import type { Next, Runtime } from '#runtime'
import { type AddCase, aGate, type CaseBench, type CaseStore, note } from './runtime-bench.case.ts'

const done: Next = { t: 'done' }

type Saga = { forward: readonly string[]; undone: readonly string[]; cancel: boolean }

/** Two steps with an undo each, as rows: one step per turn, and the flag is read before each. */
function registerSaga(runtime: Runtime, store: CaseStore, during: (step: string) => Promise<void>): void {
  runtime.register('saga', async (id) => {
    const saga: Saga = (await store.read<Saga>(id)) ?? { forward: [], undone: [], cancel: false }
    const steps = ['reserve', 'charge', 'ship']
    const doing = saga.cancel ? undefined : steps[saga.forward.length]
    const undoing = saga.cancel ? saga.forward[saga.forward.length - saga.undone.length - 1] : undefined
    const step = doing ?? undoing
    if (step === undefined) {
      await store.transaction((tx) => note(tx, `${id}:log`, 'over'))
      return done
    }
    const name = doing === undefined ? `undo ${step}` : step
    await store.transaction((tx) => note(tx, `${id}:log`, `begin ${name}`))
    await during(name)
    await store.transaction(async (tx) => {
      const now = (await tx.read<Saga>(id)) ?? saga
      const forward = doing === undefined ? now.forward : [...now.forward, step]
      const undone = doing === undefined ? [...now.undone, step] : now.undone
      await tx.write(id, { ...now, forward, undone })
      await note(tx, `${id}:log`, `end ${name}`)
    })
    return { t: 'again' }
  })
}

/** Cancels the saga: a flag on its row and a wake, in one commit. */
async function cancel({ runtime, store }: CaseBench, id: string): Promise<void> {
  await store.transaction(async (tx) => {
    const saga = (await tx.read<Saga>(id)) ?? assert.fail(id)
    await tx.write(id, { ...saga, cancel: true })
    await runtime.wake({ kind: 'saga', id }, { tx })
  })
}

export function cancelCases(add: AddCase): void {
  add(
    'a cancel during a step lets it end; what was done is undone in reverse, and a second cancel changes nothing',
    async (open) => {
      const [charging, undoing] = [aGate(), aGate()]
      const bench = await open((runtime, store) => {
        registerSaga(runtime, store, async (step) => {
          if (step === 'charge') await charging.pass()
          if (step === 'undo charge') await undoing.pass()
        })
      })
      await bench.runtime.wake({ kind: 'saga', id: 's' })
      await charging.reached
      await cancel(bench, 's')
      charging.open()
      await undoing.reached
      await cancel(bench, 's')
      undoing.open()
      await bench.reach(async () => (await bench.store.read<string[]>('s:log'))?.includes('over'))
      const log = ['reserve', 'charge', 'undo charge', 'undo reserve'].flatMap((name) => [
        `begin ${name}`,
        `end ${name}`,
      ])
      assert.deepEqual(await bench.store.read('s:log'), [...log, 'over'])
    },
  )

  add('a cancelled parent undoes its own work after its child has undone its own', async (open) => {
    const gate = aGate()
    const bench = await open((runtime, store) => {
      runtime.register('child', async (id) => {
        await store.transaction((tx) => note(tx, 'log', 'child works'))
        await gate.pass()
        await store.transaction(async (tx) => {
          if (await tx.read('cancel')) await note(tx, 'log', 'child undone')
          await tx.write(`${id}:over`, true)
          await runtime.wake({ kind: 'parent', id: 'p' }, { tx })
        })
        return done
      })
      runtime.register('parent', async () => {
        if (!(await store.read('c:over'))) {
          if (!(await store.read('spawned'))) {
            await store.transaction(async (tx) => {
              await tx.write('spawned', true)
              await runtime.wake({ kind: 'child', id: 'c' }, { tx })
            })
          }
          return { t: 'wait', until: null }
        }
        await store.transaction(async (tx) => {
          if (await tx.read('cancel')) await note(tx, 'log', 'parent undone')
        })
        return done
      })
    })
    const { runtime, store } = bench
    await runtime.wake({ kind: 'parent', id: 'p' })
    await gate.reached
    await store.transaction(async (tx) => {
      await tx.write('cancel', true)
      await runtime.wake({ kind: 'parent', id: 'p' }, { tx })
      await runtime.wake({ kind: 'child', id: 'c' }, { tx })
    })
    gate.open()
    await bench.reach(async () => (await store.read<string[]>('log'))?.includes('parent undone'))
    const log = (await store.read<string[]>('log')) ?? []
    assert.ok(log.indexOf('child undone') < log.indexOf('parent undone'), log.join(', '))
  })

  add('facts from before the first turn are seen in order, each once', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction(async (tx) => {
          const inbox = (await tx.read<string[]>(`${id}:inbox`)) ?? []
          const taken = (await tx.read<unknown[]>(`${id}:taken`)) ?? []
          for (const fact of inbox.slice(taken.length)) await note(tx, `${id}:taken`, fact)
        })
        return { t: 'wait', until: null }
      })
    })
    for (const fact of ['one', 'two', 'three']) {
      await bench.store.transaction(async (tx) => {
        await note(tx, 'j:inbox', fact)
        await bench.runtime.wake({ kind: 'job', id: 'j' }, { tx })
      })
    }
    await bench.reach(async () => (await bench.store.read<string[]>('j:taken'))?.length === 3)
    assert.deepEqual(await bench.store.read('j:taken'), ['one', 'two', 'three'])
  })
}
