/** What a case may use: a runtime, rows beside it, crashes and time. */
import type { TestContext } from 'node:test'
import type { JoinableTx, Runtime } from '#runtime'

export type CaseTx = JoinableTx & {
  read<T>(key: string): Promise<T | undefined>
  write(key: string, value: unknown): Promise<void>
  /** Puts the token on the row; false when a later turn was faster, and the transaction must be rolled back. */
  fence(key: string, token: string): Promise<boolean>
}

/** A few rows beside the runtime, in the same store if the engine shares it. */
export type CaseStore = {
  read<T>(key: string): Promise<T | undefined>
  transaction<T>(work: (tx: CaseTx) => Promise<T>): Promise<T>
}

export type CaseBench = {
  /** A new object after a crash. */
  readonly runtime: Runtime
  readonly store: CaseStore
  /** Kills the worker and starts another one with the same code on the same store. */
  crash(): Promise<void>
  /** Opens a second worker. It ends every turn with `done` and writes the row `stranger:{kind}:{id}`. */
  join(): Promise<void>
  /** Lets time pass for due turns, really or on the clock of the test. */
  pass(ms: number): Promise<void>
  /** Lets time pass for schedules, as if no worker had run. */
  passForSchedules(ms: number): Promise<void>
  /** Waits for a condition; only the limit of the runner ends the wait. */
  reach<T>(fact: () => Promise<T | undefined | false>): Promise<T>
  close(): Promise<void>
}

export type OpenCase = (setUp: (runtime: Runtime, store: CaseStore) => void | Promise<void>) => Promise<CaseBench>

/** One case; `skip` names its title without the name of the engine. */
export type AddCase = (title: string, run: (open: OpenCase, t: TestContext) => Promise<void>) => void

/** Appends to a list on a row. */
export async function note(tx: CaseTx, key: string, entry: unknown): Promise<void> {
  await tx.write(key, [...((await tx.read<unknown[]>(key)) ?? []), entry])
}

/** A gate at which a drive waits until the test opens it. */
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
