/**
 * Waits for a server without a free connection, as a pool waits for its own: other processes return theirs. If it failed at once, every turn of a
 * surplus worker would fail and back off, with its own pool half idle (measured: the last of 400 commands 35 s late).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { callbackify } from 'node:util'
import pg from 'pg'
import { sqlStateOf } from './faults.ts'

/** `too_many_connections`: of the server, of the database or of the role. Nothing was sent yet, so a retry is harmless. */
const FULL = '53300'
export function isFull(error: unknown): boolean {
  return sqlStateOf(error) === FULL
}

const PAUSE_MS = 25
const PAUSE_MS_MAX = 400

/** Retries `connect` until it succeeds; after the time limit throws the server's last error. */
export async function connectPatiently<T>(connect: () => Promise<T>, withinMs: number): Promise<T> {
  let waitedMs = 0
  for (let pauseMs = PAUSE_MS; ; pauseMs = Math.min(PAUSE_MS_MAX, pauseMs * 2)) {
    try {
      return await connect()
    } catch (error) {
      if (!isFull(error) || waitedMs >= withinMs) throw error
      await sleep(pauseMs)
      waitedMs += pauseMs
    }
  }
}

type Connected = (error: Error | undefined, client: pg.PoolClient | undefined, done: pg.PoolClient['release']) => void

export class PatientPool extends pg.Pool {
  readonly #withinMs: number

  constructor(config: pg.PoolConfig) {
    super(config)
    this.#withinMs = config.connectionTimeoutMillis ?? 0
  }

  /** Both forms: the pool's own `query` uses the one with a callback. */
  override connect(): Promise<pg.PoolClient>
  override connect(callback: Connected): void
  override connect(callback?: Connected): Promise<pg.PoolClient> | void {
    const connect = () => connectPatiently(() => super.connect(), this.#withinMs)
    if (!callback) return connect()
    callbackify(connect)((error, client) => {
      const failed = error ?? undefined
      callback(failed, failed ? undefined : client, failed ? () => {} : client.release)
    })
  }
}
