/** A database whose client dies before or after a chosen write: earlier commits stay, later statements never run. */
import type { Db } from '../../src/store/db.ts'
import { ProcessDied } from './fake-providers.ts'

export type Mortal = {
  /** The passages so far: one before and one after each write. */
  readonly passage: () => number
  /** Restarts the count; `Infinity` means that the client lives. */
  dieAt(passage: number): void
  /** Another process takes over and does not die. */
  resurrect(): void
  around<T>(work: () => Promise<T>): Promise<T>
  wrap(db: Db): Db
}

export function openMortal(): Mortal {
  let [passage, deadline, isDead] = [0, Number.POSITIVE_INFINITY, false]
  const pass = () => {
    passage += 1
    if (passage === deadline) isDead = true
    if (isDead) throw new ProcessDied(`died at passage ${passage}`)
  }
  const around = async <T>(work: () => Promise<T>): Promise<T> => {
    pass()
    const value = await work()
    pass()
    return value
  }
  return {
    passage: () => passage,
    dieAt(at) {
      ;[passage, deadline, isDead] = [0, at, false]
    },
    resurrect() {
      ;[deadline, isDead] = [Number.POSITIVE_INFINITY, false]
    },
    around,
    wrap: (db) =>
      new Proxy(db, {
        get(target, name) {
          if (name === 'transaction')
            return (work: Parameters<Db['transaction']>[0], opening?: string) =>
              around(() => target.transaction(work, opening))
          if (name === 'run') return (...args: Parameters<Db['run']>) => around(() => target.run(...args))
          return Reflect.get(target, name, target)
        },
      }),
  }
}
