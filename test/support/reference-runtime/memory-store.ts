/**
 * Rows in memory with atomic transactions, for tests. A transaction that read a row which has changed runs again, as with a
 * database; the wakes that joined it commit with it.
 */
import { KernelFault } from '#kernel/errors'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { JoinableTx } from '#runtime'

type MemoryTx = JoinableTx & {
  /** Undefined when there is no such row; the value is known to its owner. */
  get(key: string): unknown
  set(key: string, value: unknown): void
  delete(key: string): void
  /** Writes the token on the row unless a later turn was faster; later writes of the earlier turn are refused. */
  fence(key: string, token: string): Decision<void>
  readonly afterCommit: (work: () => void) => void
}

export type MemoryStore = {
  get(key: string): unknown
  keys(): readonly string[]
  transaction<T>(work: (tx: MemoryTx) => Promise<T> | T): Promise<T>
}

/** Called around every commit; a simulation stops the process here with a promise that never resolves. */
export type CommitPoint = (point: 'before' | 'after') => Promise<void> | undefined

type Row = { readonly value: unknown; readonly version: number }
/** Several stores may share the rows, as processes share a database; versions count over all of them. */
export type MemoryRows = { readonly byKey: Map<string, Row>; version: number }

export function newMemoryRows(): MemoryRows {
  return { byKey: new Map(), version: 0 }
}

const ATTEMPTS_MAX = 1_000
/** Kept beside the row, so that the values of a test stay plain. */
const tokenKey = (key: string) => `${key}#turn_token`

export function openMemoryStore(rows: MemoryRows = newMemoryRows(), pass: CommitPoint = () => undefined): MemoryStore {
  const { byKey } = rows

  function begin() {
    const seen = new Map<string, number>()
    const written = new Map<string, unknown>()
    const committed: (() => void)[] = []
    const get = (key: string): unknown => {
      if (written.has(key)) return written.get(key)
      const row = byKey.get(key)
      seen.set(key, row?.version ?? 0)
      return row?.value
    }
    const tx: MemoryTx = {
      inTransaction: true,
      get: (key) => copy(get(key)),
      set: (key, value) => void written.set(key, copy(value)),
      delete: (key) => void written.set(key, undefined),
      fence(key, token) {
        const current = get(tokenKey(key)) as string | undefined
        if (current !== undefined && current > token)
          return refuse('lease.lost', 'A later turn has taken over the row.')
        written.set(tokenKey(key), token)
        return accept(undefined)
      },
      afterCommit: (work) => void committed.push(work),
    }
    const isFresh = () => [...seen].every(([key, at]) => (byKey.get(key)?.version ?? 0) === at)
    const apply = () => {
      for (const [key, value] of written) {
        rows.version += 1
        if (value === undefined) byKey.delete(key)
        else byKey.set(key, { value, version: rows.version })
      }
      for (const work of committed) work()
    }
    return { tx, isFresh, apply }
  }

  return {
    get: (key) => copy(byKey.get(key)?.value),
    keys: () => [...byKey.keys()].filter((key) => !key.endsWith('#turn_token')),
    async transaction(work) {
      for (let attempt = 1; attempt <= ATTEMPTS_MAX; attempt++) {
        const { tx, isFresh, apply } = begin()
        const value = await work(tx)
        await pass('before')
        // Nothing runs between the check and the write: the commit is atomic.
        if (!isFresh()) continue
        apply()
        await pass('after')
        return value
      }
      throw new KernelFault('reference.store.conflict', 'a transaction did not get through')
    },
  }
}

/** Rows hold plain values; `structuredClone` takes forty times as long. */
function copy<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  // The shape stays the same, but the compiler cannot see it.
  if (Array.isArray(value)) return value.map(copy) as T
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, copy(each)])) as T
}
