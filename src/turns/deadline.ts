/** Makes one call under a deadline: it settles with the answer, at the deadline, or with one of the given watchers. */

/** Settles after the time, or at once when the signal is aborted. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>

export type Deadline = {
  readonly sleep: Sleep
  readonly ms: number
  /** Its abort is passed on to the call; the call's answer is still awaited. */
  readonly signal?: AbortSignal
}

/** The abort reason after the call has ended: a string, because an error object per call costs 8 µs. */
export const CALL_OVER = 'the call has ended'

/** Runs beside the call until `ended` is aborted; `stop` aborts the signal of the call. */
export type Watcher<T> = (ended: AbortSignal, stop: (reason: unknown) => void) => Promise<T>

/** No answer in time: the call's signal is aborted, and its answer is ignored. */
export const LATE = Symbol('late')

/** Rejects when the call throws. */
export async function withDeadline<T, W = never>(
  { sleep, ms, signal }: Deadline,
  call: (signal: AbortSignal) => Promise<T>,
  ...watchers: readonly Watcher<W>[]
): Promise<T | W | typeof LATE> {
  const [stop, ended] = [new AbortController(), new AbortController()]
  const passOn = () => stop.abort(signal?.reason)
  if (signal?.aborted) passOn()
  signal?.addEventListener('abort', passOn, { once: true })
  const late = sleep(ms, ended.signal).then((): typeof LATE => LATE)
  const watching = watchers.map((watch) => watch(ended.signal, (reason) => stop.abort(reason)))
  try {
    return await Promise.race([call(stop.signal), late, ...watching])
  } finally {
    signal?.removeEventListener('abort', passOn)
    stop.abort(CALL_OVER)
    ended.abort(CALL_OVER)
  }
}
