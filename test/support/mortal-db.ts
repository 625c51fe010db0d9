/** A database whose client can be made to die before or after each of its writes: what was committed stays, what comes after never happens. */
import type { Db } from '../../src/store/db.ts'
import { ProcessDied } from './fake-providers.ts'

export type Mortal = {
  /** Passages so far: one before and one after everything that is written. */
  readonly passage: () => number
  /** From here on; the count begins anew. `Infinity`: it lives. */
  dieAt(passage: number): void
  /** Another process takes over; it dies no more. */
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
