/** Cancelling and signalling are rows and wakes: in order, once each, and never through the engine's own cancel. */
import assert from 'node:assert/strict'
import { durableProtocol, type Next, type ProcessRows, type Runtime } from '#runtime'
import { type AddCase, aGate, type CaseStore, type CaseTx, note } from './runtime-bench.case.ts'

const done: Next = { t: 'done' }

type Saga = { forward: readonly string[]; undone: readonly string[]; cancel: boolean }

/** Two forward steps with an undo each, as rows: one step per turn, the flag is read before each. */
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

export function rowsOf(store: CaseStore): ProcessRows<CaseTx> {
  return {
    transaction: (work) => store.transaction(work),
    async insert(tx, id, input) {
      const known = await tx.read<{ input: unknown }>(`${id}:spec`)
      if (known === undefined) await tx.write(`${id}:spec`, { input })
      else if (JSON.stringify(known.input) !== JSON.stringify(input)) {
        return { ok: false, code: 'key_reused', reason: 'the id was used with another input' }
      }
      return { ok: true, value: undefined }
    },
    async requestCancel(tx, id) {
      const saga = await tx.read<Saga>(id)
      if (saga === undefined) return 'unknown'
      if ((await tx.read<string[]>(`${id}:log`))?.includes('over')) return 'already_final'
      await tx.write(id, { ...saga, cancel: true })
      return 'requested'
    },
    async recordSignal(tx, id, signal) {
      const kept = (await tx.read<{ messageId: string }[]>(`${id}:inbox`)) ?? []
      if (kept.every(({ messageId }) => messageId !== signal.messageId))
        await tx.write(`${id}:inbox`, [...kept, signal])
    },
    async takeSignal(tx, id, name) {
      const inbox = (await tx.read<{ name: string; payload: unknown }[]>(`${id}:inbox`)) ?? []
      const taken = (await tx.read<number[]>(`${id}:taken`)) ?? []
      const at = inbox.findIndex((signal, index) => signal.name === name && !taken.includes(index))
      if (at < 0) return undefined
      await tx.write(`${id}:taken`, [...taken, at])
      return { payload: inbox[at]?.payload }
    },
    findStep: (id, key) => store.read(`${id}:step:${key}`),
    async recordStep(tx, id, token, { key, value }) {
      if (!(await tx.fence(`${id}:fence`, token))) return false
      await tx.write(`${id}:step:${key}`, { value })
      return true
    },
    async findResult(id) {
      const isOver = (await store.read<string[]>(`${id}:log`))?.includes('over')
      return isOver ? { status: 'succeeded', value: await store.read(id) } : undefined
    },
    changed: () => new Promise((resolve) => setTimeout(resolve, 5)),
  }
}

export function cancelCases(add: AddCase): void {
  add(
    '[CAN-04] [RUN-06] [RUN-14] a cancel during a step lets it end; what was done is undone in reverse, and a second cancel changes nothing',
    async (open) => {
      const [charging, undoing] = [aGate(), aGate()]
      const aborts: string[] = []
      const bench = await open((runtime, store) => {
        runtime.register('other', async () => done)
        registerSaga(runtime, store, async (step) => {
          if (step === 'charge') await charging.pass()
          if (step === 'undo charge') await undoing.pass()
        })
        const abort = runtime.abort.bind(runtime)
        Object.assign(runtime, {
          abort: (...args: Parameters<Runtime['abort']>) => (aborts.push('abort'), abort(...args)),
        })
      })
      const protocol = durableProtocol(bench.runtime, () => rowsOf(bench.store))
      const submitted = await protocol.submitWorkflow({ name: 'saga', id: 's', input: { of: 1 } })
      assert.equal(submitted.ok, true)
      await charging.reached
      assert.equal(await protocol.cancel({ name: 'saga', id: 's' }, 'compensate_then_stop'), 'requested')
      charging.open()
      await undoing.reached
      assert.equal(await protocol.cancel({ name: 'saga', id: 's' }, 'compensate_then_stop'), 'requested')
      undoing.open()
      await protocol.waitForResult({ name: 'saga', id: 's' })
      const log = ['reserve', 'charge', 'undo charge', 'undo reserve'].flatMap((name) => [
        `begin ${name}`,
        `end ${name}`,
      ])
      assert.deepEqual(await bench.store.read('s:log'), [...log, 'over'])
      assert.equal(await protocol.cancel({ name: 'saga', id: 's' }, 'graceful'), 'already_final')
      assert.equal(await protocol.cancel({ name: 'saga', id: 'nobody' }, 'graceful'), 'unknown')
      // The engine's own cancel is for operators; cancelling never reaches for it.
      assert.deepEqual(aborts, [])
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

  add('[RUN-01] signals from before the first turn arrive in order, each once', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id) => {
        await store.transaction(async (tx) => {
          const inbox = (await tx.read<{ payload: unknown }[]>(`${id}:inbox`)) ?? []
          const taken = (await tx.read<unknown[]>(`${id}:taken`)) ?? []
          for (const { payload } of inbox.slice(taken.length)) await note(tx, `${id}:taken`, payload)
        })
        return { t: 'wait', until: null }
      })
    })
    const protocol = durableProtocol(bench.runtime, () => rowsOf(bench.store))
    const handle = { name: 'job', id: 'j' }
    for (const [payload, messageId] of [
      ['one', 'm1'],
      ['two', 'm2'],
      ['two', 'm2'],
      ['three', 'm3'],
    ] as const) {
      await protocol.signal(handle, 'tell', payload, messageId)
    }
    await bench.reach(async () => (await bench.store.read<string[]>('j:taken'))?.length === 3)
    assert.deepEqual(await bench.store.read('j:taken'), ['one', 'two', 'three'])
  })

  add(
    '[RUN-07] [RUN-08] the same id with the same input is one workflow, with another input it is refused',
    async (open) => {
      const bench = await open((runtime, store) => {
        registerSaga(runtime, store, async () => {})
      })
      const protocol = durableProtocol(bench.runtime, () => rowsOf(bench.store))
      const spec = { name: 'saga', id: 'same', input: { amount: 1 } }
      const [first, second] = [await protocol.submitWorkflow(spec), await protocol.submitWorkflow(spec)]
      assert.deepEqual([first, second], [{ ok: true, value: { name: 'saga', id: 'same' } }, first])
      const other = await protocol.submitWorkflow({ ...spec, input: { amount: 2 } })
      assert.equal(other.ok ? '' : other.code, 'key_reused')
      const result = await protocol.waitForResult({ name: 'saga', id: 'same' })
      assert.deepEqual(result, {
        status: 'succeeded',
        value: { forward: ['reserve', 'charge', 'ship'], undone: [], cancel: false },
      })
      const step = await protocol.enqueueStep('connector_calls', { name: 'saga', id: 'step', input: {} })
      assert.equal(step.ok, true)
      await protocol.waitForResult({ name: 'saga', id: 'step' })
    },
  )
}
