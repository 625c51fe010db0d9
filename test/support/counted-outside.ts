/**
 * An outside system on loopback that counts its calls, their callers and how many run at once. It deduplicates nothing; a test
 * makes it hold, fail or forget.
 */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

type OutsideCall = { readonly door: string; readonly key: string; readonly by: string; readonly atMs: number }

export type CountedOutside = {
  readonly url: string
  callsOf(door: string): readonly OutsideCall[]
  /** The number of calls now, and the highest number so far. */
  underWay(door: string): number
  peak(door: string): number
  /** Delays every answer of this path until `release`. */
  hold(door: string): void
  release(door: string): void
  close(): Promise<void>
}

/** `down` answers 503 and does nothing. `forgetful` answers 500 to the first call, after it has done it. */
const manners: Readonly<Record<string, (calls: number) => number>> = {
  down: () => 503,
  forgetful: (calls) => (calls === 1 ? 500 : 200),
}

export async function openCountedOutside(): Promise<CountedOutside> {
  const calls: OutsideCall[] = []
  const held = new Map<string, (() => void)[]>()
  const [now, most] = [new Map<string, number>(), new Map<string, number>()]
  const count = (door: string, by: number) => {
    const value = (now.get(door) ?? 0) + by
    now.set(door, value)
    most.set(door, Math.max(most.get(door) ?? 0, value))
  }
  const answer = (response: ServerResponse, door: string, key: string) => {
    const status = manners[door]?.(calls.filter((call) => call.door === door && call.key === key).length) ?? 200
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ id: key }))
  }
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://outside')
    const door = pathname.slice(1)
    const key = searchParams.get('key') ?? String(request.headers['idempotency-key'] ?? '')
    calls.push({ door, key, by: searchParams.get('by') ?? '', atMs: performance.now() })
    count(door, 1)
    response.once('close', () => count(door, -1))
    request.resume()
    const go = () => answer(response, door, key)
    const waiting = held.get(door)
    if (waiting) waiting.push(go)
    else go()
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    callsOf: (door) => calls.filter((call) => call.door === door),
    underWay: (door) => now.get(door) ?? 0,
    peak: (door) => most.get(door) ?? 0,
    hold: (door) => void held.set(door, []),
    release(door) {
      const waiting = held.get(door) ?? []
      held.delete(door)
      for (const go of waiting) go()
    },
    close: () =>
      new Promise<void>((done) => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  }
}
