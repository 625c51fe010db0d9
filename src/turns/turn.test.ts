/** A call under a deadline: what it waits for, and what it costs when it settles at once. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { LATE, withDeadline } from './turn.ts'

/** Counts the time limits that were started. The test ends each of them. */
function aTimer() {
  const started: (() => void)[] = []
  const sleep = (_ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      started.push(resolve)
      signal.addEventListener('abort', () => resolve())
    })
  return { started, sleep }
}
const never = () => new Promise<never>(() => {})

describe('a call under a deadline', () => {
  test('one that settles at once starts no timer and no watcher, and its signal is aborted', async () => {
    const { started, sleep } = aTimer()
    let watched = 0
    let given: AbortSignal | undefined
    const call = async (signal: AbortSignal) => {
      given = signal
      await Promise.resolve()
      return 'done'
    }
    const watcher = () => {
      watched += 1
      return never()
    }
    assert.equal(await withDeadline({ sleep, ms: 10 }, call, watcher), 'done')
    await assert.rejects(
      withDeadline({ sleep, ms: 10 }, () => Promise.reject(new Error('no'))),
      { message: 'no' },
    )
    await nextTurn()
    assert.deepEqual([started.length, watched, given?.aborted], [0, 0, true])
  })

  test('one that waits is late at its deadline, and its signal is aborted', async () => {
    const { started, sleep } = aTimer()
    let given: AbortSignal | undefined
    const answer = withDeadline({ sleep, ms: 10 }, (signal) => {
      given = signal
      return never()
    })
    await nextTurn()
    assert.deepEqual([started.length, given?.aborted], [1, false])
    started[0]?.()
    assert.equal(await answer, LATE)
    assert.equal(given?.aborted, true)
  })

  test('one that waits is answered by a watcher, which can stop it and learns of its end', async () => {
    const { sleep } = aTimer()
    let over: AbortSignal | undefined
    const call = (signal: AbortSignal) =>
      new Promise<string>((resolve) => {
        signal.addEventListener('abort', () => resolve(String(signal.reason)))
      })
    const watcher = (ended: AbortSignal, stop: (reason: unknown) => void) => {
      over = ended
      stop('the watcher')
      return never()
    }
    assert.equal(await withDeadline({ sleep, ms: 10 }, call, watcher), 'the watcher')
    assert.equal(over?.aborted, true)
    assert.equal(await withDeadline({ sleep, ms: 10 }, never, () => Promise.resolve('lost')), 'lost')
  })

  test('an abort of the caller reaches the call, also one from before it', async () => {
    const { sleep } = aTimer()
    const call = (signal: AbortSignal) =>
      new Promise<string>((resolve) => {
        const tell = () => resolve(String(signal.reason))
        if (signal.aborted) tell()
        signal.addEventListener('abort', tell)
      })
    const caller = new AbortController()
    const answer = withDeadline({ sleep, ms: 10, signal: caller.signal }, call)
    caller.abort('gone')
    assert.equal(await answer, 'gone')
    const cancelled = () => Promise.resolve('cancelled')
    const slow = (signal: AbortSignal) => call(signal).then((text) => Promise.resolve(text))
    assert.equal(await withDeadline({ sleep, ms: 10, signal: caller.signal }, slow, cancelled), 'cancelled')
  })
})
