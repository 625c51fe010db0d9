/** The default runtime as an operator opens it: it runs no turns, but shows, stops and resumes those of others. */
import type { BookRuntime } from '../../src/runtime/book/index.ts'
import { createDbosRuntime } from './dbos-runtime.ts'
import type { Db } from '../../src/store/db.ts'
import { accepted } from './tenant.ts'

export async function openOperatorRuntime(db: Db): Promise<BookRuntime> {
  const runtime = createDbosRuntime({ db, works: false })
  accepted(await runtime.open())
  return runtime
}
