/** Repeats a piece of work by the clock until it is closed; one run at a time, and a run that fails does not end the row. */
export type Watch = {
  /** Runs as soon as the run under way is over, in place of the next one by the clock. */
  soon(): void
  /** No run begins any more; waits for the one under way. */
  close(): Promise<void>
}

export function openWatch(everyMs: number, work: () => Promise<void>, onError: (error: unknown) => void): Watch {
  let timer: NodeJS.Timeout | undefined
  let running: Promise<void> | undefined
  let [isClosed, isWanted] = [false, false]

  function plan(ms: number): void {
    clearTimeout(timer)
    timer = setTimeout(run, ms)
  }

  function run(): void {
    isWanted = false
    running = work()
      .catch(onError)
      .finally(() => {
        running = undefined
        if (!isClosed) plan(isWanted ? 0 : everyMs)
      })
  }

  plan(everyMs)
  return {
    soon() {
      if (isClosed) return
      if (running) isWanted = true
      else plan(0)
    },
    async close() {
      isClosed = true
      clearTimeout(timer)
      await running
    },
  }
}
