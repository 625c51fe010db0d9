/** What a case may use: a runtime, rows beside it, crashes, and time. */
import type { TestContext } from 'node:test'
import type { JoinableTx, Runtime } from '#runtime'

export type CaseTx = JoinableTx & {
  read<T>(key: string): Promise<T | undefined>
  write(key: string, value: unknown): Promise<void>
  /** Puts the token on the row; false when a later turn was there: then nothing of this transaction may be kept. */
  fence(key: string, token: string): Promise<boolean>
}

/** A handful of rows beside the runtime, in the same store where the engine shares it. */
export type CaseStore = {
  read<T>(key: string): Promise<T | undefined>
  transaction<T>(work: (tx: CaseTx) => Promise<T>): Promise<T>
}

export type CaseBench = {
  /** Another object after a crash. */
  readonly runtime: Runtime
  readonly store: CaseStore
  /** The worker ends without a word; another one, with the same code, starts on the same store. */
  crash(): Promise<void>
  /** A second worker beside the first. It answers every turn with `done` and leaves the row `stranger:{kind}:{id}`. */
  join(): Promise<void>
  /** Time passes for due turns: really, or on a clock that the test holds. */
  pass(ms: number): Promise<void>
  /** Time passes for schedules, as if nobody had been there meanwhile. */
  passForSchedules(ms: number): Promise<void>
  /** Waits for a fact, however long it takes; only the runner's own limit ends it. */
  reach<T>(fact: () => Promise<T | undefined | false>): Promise<T>
  close(): Promise<void>
}

export type OpenCase = (setUp: (runtime: Runtime, store: CaseStore) => void | Promise<void>) => Promise<CaseBench>

/** One case; its title, without the name of the engine, is what `skip` names. */
export type AddCase = (title: string, run: (open: OpenCase, t: TestContext) => Promise<void>) => void

/** Adds to a list on a row. */
export async function note(tx: CaseTx, key: string, entry: unknown): Promise<void> {
  await tx.write(key, [...((await tx.read<unknown[]>(key)) ?? []), entry])
}

/** A door that a drive waits at until the test opens it. */
export function aGate(): {
  readonly reached: Promise<void>
  readonly opened: Promise<void>
  pass(): Promise<void>
  open(): void
} {
  let [reach, open] = [() => {}, () => {}]
  const reached = new Promise<void>((resolve) => (reach = resolve))
  const opened = new Promise<void>((resolve) => (open = resolve))
  return {
    reached,
    opened,
    pass() {
      reach()
      return opened
    },
    open: () => open(),
  }
}
