/**
 * Statements of one transaction that are sent without waiting in between. All of them have ended before anybody hears of the first failure:
 * what goes on after it would still be sent, behind the rollback, on a connection that is somebody else's by then.
 */
export async function together<T extends readonly unknown[]>(
  works: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
