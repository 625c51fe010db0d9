/** The classic words beside submit, wait, cancel and signal, as they stand in turns: register, step, transaction, sleep, receive, status. */
import assert from 'node:assert/strict'
import { durableProtocol, type Runtime } from '#runtime'
import { type AddCase, aGate, type CaseStore, note } from './runtime-bench.case.ts'
import { rowsOf } from './runtime-cancel.case.ts'

const handle = { name: 'trip', id: 't' }
const protocolOf = (runtime: Runtime, store: CaseStore) => durableProtocol(runtime, () => rowsOf(store))

export function wordCases(add: AddCase): void {
  add(
    '[RUN-06] a registered workflow steps once, sleeps, receives what was sent, writes in a transaction, and shows its status',
    async (open) => {
      const gate = aGate()
      let calls = 0
      const bench = await open((runtime, store) => {
        const protocol = protocolOf(runtime, store)
        protocol.registerWorkflow('trip', async (id, fence) => {
          const room = await protocol.step(handle, fence, 'book', async () => ({ room: (calls += 1) }))
          // The first worker ends here, after its step and before its turn has ended.
          if (fence.attempt === 1 && calls === 1 && !(await store.read('crashed'))) await gate.pass()
          const answer = await protocol.receive(handle, 'answer')
          if (!answer) return protocol.sleep(new Date(Date.UTC(2100, 0, 1)))
          await protocol.transaction('trip', async (tx) => {
            await tx.write(id, { room, answer: answer.payload })
            await note(tx, `${id}:log`, 'over')
          })
          return { t: 'done' }
        })
      })
      const protocol = () => protocolOf(bench.runtime, bench.store)
      assert.equal(await protocol().getStatus(handle), 'idle')
      assert.equal((await protocol().submitWorkflow({ ...handle, input: {} })).ok, true)
      await gate.reached
      assert.equal(await protocol().getStatus(handle), 'running')
      await bench.store.transaction((tx) => tx.write('crashed', true))
      await bench.crash()
      gate.open()
      await bench.reach(async () => (await protocol().getStatus(handle)) === 'waiting')
      // Another name is not what it waits for: it wakes, finds nothing, and sleeps on.
      await protocol().signal(handle, 'other', 'no', 'm0')
      await bench.reach(async () => (await protocol().getStatus(handle)) === 'waiting')
      assert.equal(await bench.store.read('t'), undefined)
      await protocol().signal(handle, 'answer', 'yes', 'm1')
      const result = await protocol().waitForResult(handle)
      assert.deepEqual(result, { status: 'succeeded', value: { room: { room: 1 }, answer: 'yes' } })
      assert.equal(await protocol().getStatus(handle), 'succeeded')
      assert.equal(calls, 1, 'a step whose outcome is on the row is not done again')
    },
  )

  add(
    '[RUN-06] the outcome of a step that a later turn has overtaken is not kept, and its turn writes nothing',
    async (open) => {
      const bench = await open(() => {})
      const protocol = protocolOf(bench.runtime, bench.store)
      const [early, late] = ['00000000-0000-8001-8000-000000000000', '00000000-0000-8002-8000-000000000000']
      const fenceOf = (token: string) => ({ token, turn: 'turn:trip:t:1', attempt: 1, signal: AbortSignal.abort() })
      assert.equal(await protocol.step(handle, fenceOf(late), 'a', async () => 'late'), 'late')
      await assert.rejects(
        protocol.step(handle, fenceOf(early), 'b', async () => 'early'),
        /a later turn has this process/,
      )
      assert.equal(await bench.store.read('t:step:b'), undefined)
    },
  )
}
