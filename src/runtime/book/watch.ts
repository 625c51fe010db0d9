/** Repeats work at an interval until it is closed; one run at a time, and a failed run does not end the series. */
export type Watch = {
  /** Runs as soon as the current run has ended, instead of at the next interval. */
  soon(): void
  /** Starts no more runs and waits for the current one. */
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
