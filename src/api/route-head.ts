/** The head that every route begins with: what it is called, what it is about, and who may call it. */
import type { needs, needsNothing } from './route-access.ts'

type Method = 'get' | 'post' | 'patch' | 'delete'
type Access = ReturnType<typeof needs> | ReturnType<typeof needsNothing>

/** For all routes of a file that have the same subject and the same callers: `...reads('get', '/x', 'listX', 'All x')`. */
export function headOf(tag: string, access: Access) {
  return <const M extends Method, const P extends string>(
    method: M,
    path: P,
    operationId: string,
    summary: string,
    description?: string,
  ) => ({
    method,
    path,
    operationId,
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [tag],
    ...access,
  })
}
