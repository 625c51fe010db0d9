/** Work that cannot continue by itself is stopped, is visible, and continues when an operator resumes it. */
import assert from 'node:assert/strict'
import type { Next } from '#runtime'
import { type AddCase, aGate, type CaseTx, note } from './runtime-bench.case.ts'

const done: Next = { t: 'done' }

export function stuckCases(add: AddCase): void {
  add('a drive that throws is tried again a few times, then it is stuck and says why', async (open) => {
    let isBroken = true
    const bench = await open((runtime, store) => {
      runtime.register(
        'job',
        async (id) => {
          await store.transaction((tx) => note(tx, `${id}:tries`, 'try'))
          if (isBroken) throw new Error('a bug')
          await store.transaction((tx) => tx.write(`${id}:over`, true))
          return done
        },
        { failuresMax: 2 },
      )
    })
    const { runtime, store } = bench
    await runtime.wake({ kind: 'job', id: 'p' })
    await bench.reach(async () => (await store.read<string[]>('p:tries'))?.length === 1)
    await bench.pass(500)
    const [stuck] = await bench.reach(async () => {
      const found = await runtime.stuck()
      return found.length > 0 && found
    })
    assert.deepEqual([stuck?.kind, stuck?.id, stuck?.why], ['job', 'p', 'failing'])
    assert.match(stuck?.detail ?? '', /a bug/)
    // A wake does not restart it without the operator.
    await runtime.wake({ kind: 'job', id: 'p' })
    assert.equal((await runtime.describe({ kind: 'job', id: 'p' }))?.state, 'stuck')
    isBroken = false
    const resumed = await runtime.resume({ kind: 'job', id: 'p' })
    assert.equal(resumed.ok, true)
    await bench.reach(() => store.read('p:over'))
    assert.equal((await store.read<string[]>('p:tries'))?.length, 3)
    assert.deepEqual(await runtime.stuck(), [])
    const again = await runtime.resume({ kind: 'job', id: 'p' })
    assert.equal(again.ok ? '' : again.code, 'runtime.process.not_stuck')
  })

  add('a drive that answers something else than done, again or wait is stuck as if it had thrown', async (open) => {
    const answers = [
      undefined,
      { t: 'soon' },
      { t: 'wait', until: new Date(Number.NaN) },
      { t: 'wait', until: 'tomorrow' },
    ]
    const bench = await open((runtime) => {
      runtime.register('job', async (id) => answers[Number(id)] as Next, { failuresMax: 1 })
    })
    for (const id of answers.keys()) await bench.runtime.wake({ kind: 'job', id: String(id) })
    const stuck = await bench.reach(async () => {
      const found = await bench.runtime.stuck()
      return found.length === answers.length && found
    })
    assert.ok(stuck.every(({ why, detail }) => why === 'failing' && detail.includes('A drive must return')))
    for (const id of answers.keys()) await bench.runtime.abort({ kind: 'job', id: String(id) }, 'the test is over')
  })

  add('a turn in which worker after worker ends is stuck, not tried for ever', async (open) => {
    const bench = await open((runtime, store) => {
      runtime.register(
        'job',
        async (id, { attempt }) => {
          await store.transaction((tx) => note(tx, id, attempt))
          return new Promise(() => {})
        },
        { attemptsMax: 2 },
      )
    })
    await bench.runtime.wake({ kind: 'job', id: 'p' })
    for (const attempts of [1, 2]) {
      await bench.reach(async () => (await bench.store.read<number[]>('p'))?.length === attempts)
      await bench.crash()
    }
    const [stuck] = await bench.reach(async () => {
      const found = await bench.runtime.stuck()
      return found.length > 0 && found
    })
    assert.equal(stuck?.why, 'crashing')
    assert.deepEqual(await bench.store.read('p'), [1, 2])
    await bench.runtime.abort({ kind: 'job', id: 'p' }, 'the test is over')
  })

  add('a kind that nobody drives is seen as stuck', async (open) => {
    const bench = await open(() => {})
    await bench.runtime.wake({ kind: 'orphan', id: 'p' })
    const [stuck] = await bench.reach(async () => {
      const found = await bench.runtime.stuck()
      return found.length > 0 && found
    })
    assert.deepEqual([stuck?.kind, stuck?.why], ['orphan', 'no_driver'])
    await bench.runtime.abort({ kind: 'orphan', id: 'p' }, 'the test is over')
  })

  add('an aborted process gets no more turns, and the one under way is told', async (open) => {
    const gate = aGate()
    const told: string[] = []
    const bench = await open((runtime, store) => {
      runtime.register('job', async (id, { signal }) => {
        await store.transaction((tx) => note(tx, id, 'turn'))
        signal.addEventListener('abort', () => told.push('aborted'))
        await gate.pass()
        // Without the abort, the next turn would be due at once.
        return (await store.read<string[]>(id))?.length === 1 ? { t: 'again' } : done
      })
    })
    const { runtime, store } = bench
    await runtime.wake({ kind: 'job', id: 'p' })
    await gate.reached
    await runtime.abort({ kind: 'job', id: 'p' }, 'an operator said so')
    await bench.reach(async () => told.length > 0)
    gate.open()
    await runtime.wake({ kind: 'job', id: 'p' })
    const [stuck] = await runtime.stuck()
    assert.deepEqual([stuck?.why, stuck?.detail], ['aborted', 'an operator said so'])
    assert.deepEqual(await store.read('p'), ['turn'])
    await runtime.resume({ kind: 'job', id: 'p' })
    await bench.reach(async () => (await store.read<string[]>('p'))?.length === 2)
  })

  add('an operator acts in the transaction of the record: both are there, or neither', async (open) => {
    const { runtime, store } = await open((made) => made.register('job', async () => done))
    const process = { kind: 'job', id: 'q' }
    const inVain = async (act: (tx: CaseTx) => Promise<unknown>) => {
      const undone = store.transaction(async (tx) => {
        await act(tx)
        throw new Error('the record failed')
      })
      await assert.rejects(undone, /the record failed/)
    }
    await inVain((tx) => runtime.abort(process, 'no', { tx }))
    assert.equal(await runtime.describe(process), undefined)
    await store.transaction((tx) => runtime.abort(process, 'yes', { tx }))
    assert.equal((await runtime.stuck()).find(({ id }) => id === 'q')?.detail, 'yes')
    await inVain((tx) => runtime.resume(process, { tx }))
    assert.equal((await runtime.describe(process))?.state, 'stuck')
    await store.transaction(async (tx) => {
      const resumed = await runtime.resume(process, { tx })
      assert.ok(resumed.ok)
    })
    const again = await store.transaction((tx) => runtime.resume(process, { tx }))
    assert.ok(!again.ok && again.code === 'runtime.process.not_stuck')
  })

  add(
    'what is aborted without ever having had a turn waits in the queue that is named; what has a queue stays there',
    async (open) => {
      const { runtime } = await open((made) => made.register('job', async () => done))
      const [fresh, known] = [
        { kind: 'job', id: 'fresh' },
        { kind: 'job', id: 'known' },
      ]
      await runtime.wake(known, { queue: 'compensations', delayMs: 3_600_000 })
      for (const process of [fresh, known]) await runtime.abort(process, 'stop', { queue: 'connector_calls' })
      const queues = [await runtime.describe(fresh), await runtime.describe(known)].map((view) => view?.queue)
      assert.deepEqual(queues, ['connector_calls', 'compensations'])
    },
  )
}
