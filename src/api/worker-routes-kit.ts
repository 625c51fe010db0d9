/** The routes of workers that take work from a queue: the long poll of a claim. Knows no domain. */
import { type Decision, accept } from '#kernel/refusal'
import type { Notices } from '#store'
import type { Call } from './resource.ts'

export type WorkerPolls = {
  readonly notices?: Notices | undefined
  /** How often a claim looks again without a notice: a notice can be lost. */
  readonly pollMs?: number | undefined
  /** Aborted when the server shuts down. */
  readonly closing?: AbortSignal | undefined
}

const POLL_MS = 2_000

type Poll<T> = {
  /** Announced when there may be work, with the workspace as its payload. */
  readonly channel: string
  readonly waitMs: number
  readonly claim: () => Promise<T | null>
}

/** Tries at once, then at each notice and each poll, until there is work, the time is over, or the caller is gone. Nothing is held in between. */
export async function claimOrWait<T>(
  { signal, workspaceId }: Pick<Call<unknown>, 'signal' | 'workspaceId'>,
  { notices, pollMs = POLL_MS, closing }: WorkerPolls,
  { channel, waitMs, claim }: Poll<T>,
): Promise<Decision<T | null>> {
  const leaving = AbortSignal.any([signal, ...(closing ? [closing] : []), AbortSignal.timeout(waitMs)])
  let isNew = false
  let wake = () => {}
  const stop = notices?.listen(channel, (about) => {
    // An empty payload means: look again.
    if (about !== '' && about !== workspaceId) return
    isNew = true
    wake()
  })
  try {
    for (;;) {
      isNew = false
      // A caller that has gone must not be given work: it would be held until its lease ends.
      const claimed = signal.aborted ? null : await claim()
      if (claimed !== null || leaving.aborted || waitMs === 0) return accept(claimed)
      if (!isNew) await nextLook(leaving, pollMs, (woken) => (wake = woken))
      if (leaving.aborted) return accept(null)
    }
  } finally {
    stop?.()
  }
}

function nextLook(leaving: AbortSignal, pollMs: number, onNotice: (wake: () => void) => void): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      leaving.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, pollMs)
    leaving.addEventListener('abort', end, { once: true })
    onNotice(end)
  })
}
