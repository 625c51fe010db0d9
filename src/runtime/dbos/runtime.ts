/** The default runtime: the book, with DBOS as its carrier. */
import { type BookOptions, type BookRuntime, createRuntime } from '#runtime/book'
import { createDbosCarrier, type DbosCarrierOptions } from './carrier.ts'

export type DbosOptions = Omit<BookOptions, 'carrier'> & DbosCarrierOptions

export function createDbosRuntime({ internals, retainMs, cleanMs, ...options }: DbosOptions): BookRuntime {
  const carrier = createDbosCarrier({
    ...(internals === undefined ? {} : { internals }),
    ...(retainMs === undefined ? {} : { retainMs }),
    ...(cleanMs === undefined ? {} : { cleanMs }),
  })
  return createRuntime({ ...options, carrier })
}
