/** The runtime as the service opens it, with the options of the DBOS carrier. */
import { type BookOptions, type BookRuntime, createRuntime } from '#runtime/book'
import { createDbosCarrier } from '#runtime/dbos'

export type DbosOptions = Omit<BookOptions, 'carrier'> & NonNullable<Parameters<typeof createDbosCarrier>[0]>

export function createDbosRuntime({ internals, retainMs, cleanMs, ...options }: DbosOptions): BookRuntime {
  const carrier = createDbosCarrier({
    ...(internals === undefined ? {} : { internals }),
    ...(retainMs === undefined ? {} : { retainMs }),
    ...(cleanMs === undefined ? {} : { cleanMs }),
  })
  return createRuntime({ ...options, carrier })
}
