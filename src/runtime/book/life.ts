/**
 * Proves that a worker is alive: a session holds an advisory lock, which Postgres releases when the process dies, and a lease,
 * which expires when the process is frozen or cut off. The same session receives notices that other processes have due turns.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Db } from '#store'
import { CHANNEL } from './notices.ts'
import { beat, lockKey } from './statements.ts'
import { openWatch } from './watch.ts'

const RECONNECT_MS = 50

type LifeOptions = {
  /** Never reused by another process. */
  readonly executorId: string
  /** The kinds that it drives. */
  readonly kinds: readonly string[]
  /** The queues that it takes; default all. */
  readonly queues?: readonly string[]
  readonly leaseMs: number
  /** Another worker may hold some or all turns of this worker now. */
  readonly onLost: () => void
  /** Runs after each heartbeat. */
  readonly onBeat: () => Promise<void>
  /** Another process has put turns into this queue; empty after a reconnect, when notices may have been lost. */
  readonly onNotice: (queue: string) => void
  readonly onError: (error: unknown) => void
}

export type Life = {
  /** With `quietly` it withdraws nothing: other workers find out as they would after a crash. */
  close(options?: { readonly quietly?: boolean }): Promise<void>
}

type Session = Awaited<ReturnType<Db['connect']>>

export async function openLife(
  db: Db,
  { executorId, kinds, queues, leaseMs, onLost, onBeat, onNotice, onError }: LifeOptions,
): Promise<Life> {
  let session: Session | undefined
  let connecting: Promise<void> | undefined
  let [isClosed, heardAt] = [false, performance.now()]

  async function connect(): Promise<boolean> {
    const opened = await db.connect('concord-runtime-life')
    try {
      const { rows } = await opened.query<{ won: boolean }>(`select pg_try_advisory_lock(${lockKey('$1')}) as won`, [
        executorId,
      ])
      if (!rows[0]?.won) {
        await opened.end()
        return false
      }
      opened.on('notification', ({ payload = '' }) => onNotice(payload))
      await opened.query(`listen ${CHANNEL}`)
    } catch (error) {
      await opened.end().catch(onError)
      throw error
    }
    session = opened
    opened.on('end', () => {
      session = undefined
      reconnect()
    })
    return true
  }

  /** Retries until the session is back or the worker closes. */
  function reconnect(): void {
    connecting ??= (async () => {
      while (!isClosed && session === undefined) {
        const isBack = await connect().catch((error: unknown) => {
          onError(error)
          return false
        })
        if (isBack) onNotice('')
        else await sleep(RECONNECT_MS)
      }
    })().finally(() => {
      connecting = undefined
    })
  }

  async function prolong(): Promise<boolean> {
    const askedAt = performance.now()
    const [row] = await db.run(beat, [executorId, leaseMs, kinds, queues ?? null])
    heardAt = askedAt
    return row?.is_new ?? false
  }

  reconnect()
  await connecting
  await prolong()
  const beats = openWatch(
    Math.max(20, Math.floor(leaseMs / 4)),
    async () => {
      // By its own clock a worker must give up before the others take over.
      if (performance.now() - heardAt > leaseMs) onLost()
      if (await prolong()) onLost()
      await onBeat()
    },
    onError,
  )

  return {
    async close({ quietly = false } = {}) {
      isClosed = true
      await beats.close()
      await connecting
      if (!quietly) await db.query('delete from runtime.executors where executor_id = $1', [executorId]).catch(onError)
      await session?.end().catch(onError)
    },
  }
}
