/**
 * Sends statements of one transaction without waiting in between. Waits for all of them before it reports the first failure:
 * otherwise a later one could be sent after the rollback, on a connection that another caller uses by then.
 */
export async function together<T extends readonly unknown[]>(
  works: T,
): Promise<{ -readonly [K in keyof T]: Awaited<T[K]> }> {
  await Promise.allSettled(works)
  return Promise.all(works)
}
