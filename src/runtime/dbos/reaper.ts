/**
 * Takes over what dead workers left, in every process and without anybody in charge. Declaring a living worker dead costs a
 * repeated turn and nothing else: its fence is old, the engine refuses its result.
 */
import { type Db, failpoint } from '#store'
import { findOwnTurns, findSuspects, requeueTurns } from './statements.ts'
import { openWatch, type Watch } from './watch.ts'

export type ReaperOptions = {
  readonly executorId: string
  readonly everyMs: number
  readonly recover: (executorId: string) => Promise<void>
  /** Names of the turns that this process is working on or about to start. */
  readonly isMine: (turn: string) => boolean
  /** There are turns to take. */
  readonly onRecovered: (executorId: string) => void
  readonly onError: (error: unknown) => void
}

export function openReaper(
  db: Db,
  { executorId, everyMs, recover, isMine, onRecovered, onError }: ReaperOptions,
): Watch {
  /** Seen without a lock the last time; a session that only lost its connection has it back by the second look. */
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
      // First the line: a worker that lives finds it gone at its next beat and lets go of its turns.
      await db.query('delete from runtime.executors where executor_id = $1', [executor_id])
      await failpoint('runtime.reaping')
      await recover(executor_id)
      onRecovered(executor_id)
    }
  }

  /** A start whose commit was never answered, or a claim that could not be carried out, stands in our name. */
  async function requeueUnattended(): Promise<void> {
    const own = await db.run(findOwnTurns, [executorId])
    const idle = own.map(({ workflow_uuid }) => workflow_uuid).filter((turn) => !isMine(turn))
    const twice = idle.filter((turn) => unattended.has(turn))
    unattended = new Set(idle)
    if (twice.length === 0) return
    await db.run(requeueTurns, [twice, executorId])
    onRecovered(executorId)
  }

  return openWatch(
    everyMs,
    async () => {
      await reap()
      // Less often: two looks lie further apart than a start ever takes.
      if (looks++ % 8 === 7) await requeueUnattended()
    },
    onError,
  )
}
