/**
 * Takes over the turns of dead workers. Every worker runs it; there is no leader. Declaring a living worker dead costs only a
 * repeated turn: its fence is old, so its writes and its end are refused.
 */
import { type Db, failpoint } from '#store'
import { deleteOldExecutors, findOwnTurns, findSuspects, requeueTurn, takeOver } from './statements.ts'
import type { TurnRunner } from './turn-runner.ts'
import { openWatch, type Watch } from './watch.ts'

type ReaperOptions = {
  readonly executorId: string
  readonly everyMs: number
  readonly turns: Pick<TurnRunner, 'isUnderWay'>
  /** These queues have turns to take. */
  readonly onTakenOver: (executorId: string, queues: readonly string[]) => void
  readonly onError: (error: unknown) => void
}

export function openReaper(db: Db, { executorId, everyMs, turns, onTakenOver, onError }: ReaperOptions): Watch {
  /** Workers seen without a lock in the last run; a session that only lost its connection has it back by the second run. */
  let unlocked = new Set<string>()
  let unattended = new Set<string>()
  let looks = 0

  async function reap(): Promise<void> {
    const suspects = await db.run(findSuspects, [executorId])
    const dead = suspects.filter(
      ({ executor_id, is_expired, is_unlocked }) => is_expired || (is_unlocked && unlocked.has(executor_id)),
    )
    unlocked = new Set(suspects.filter(({ is_unlocked }) => is_unlocked).map(({ executor_id }) => executor_id))
    for (const { executor_id } of dead) {
      // The lease goes first: a living worker finds it gone at its next heartbeat and gives up its turns.
      await db.query('delete from runtime.executors where executor_id = $1', [executor_id])
      await failpoint('runtime.reaping')
      const rows = await db.run(takeOver, [executor_id])
      onTakenOver(
        executor_id,
        rows.map(({ queue }) => queue),
      )
    }
  }

  /** A start whose commit was never answered is stored under this worker's name, and no code works on it. */
  async function requeueUnattended(): Promise<void> {
    const idle = (await db.run(findOwnTurns, [executorId])).filter(
      ({ kind, id, fence }) => !turns.isUnderWay({ kind, id }, Number(fence)),
    )
    const twice = idle.filter(({ fence }) => unattended.has(fence))
    unattended = new Set(idle.map(({ fence }) => fence))
    const queues = new Set<string>()
    for (const { kind, id, fence } of twice) {
      for (const { queue } of await db.run(requeueTurn, [kind, id, fence, executorId])) queues.add(queue)
    }
    if (queues.size > 0) onTakenOver(executorId, [...queues])
  }

  return openWatch(
    everyMs,
    async () => {
      await reap()
      // Runs less often: the time between two runs is longer than a start ever takes.
      if (looks++ % 8 !== 7) return
      await requeueUnattended()
      await db.run(deleteOldExecutors, [])
    },
    onError,
  )
}
