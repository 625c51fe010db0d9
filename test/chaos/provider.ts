/**
 * A payment provider in a process of its own, the judge of a run: it writes down every payment before it answers, and by a
 * seeded plan it is slow, fails before or after paying, hangs up after paying, or asks to slow down.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { openChance } from '../support/chance.ts'

const [file = '', seed = ''] = process.argv.slice(2)
const chance = openChance(seed)
/** How often each key was really paid. The file outlives the process, the map is its copy. */
const paid = new Map<string, number>()
for (const line of readBook()) paid.set(line, (paid.get(line) ?? 0) + 1)
let calls = 0

function readBook(): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

function pay(key: string): void {
  appendFileSync(file, `${key}\n`)
  paid.set(key, (paid.get(key) ?? 0) + 1)
}

const server = createServer((request, response) => void serve(request, response))

async function serve(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const url = new URL(request.url ?? '/', 'http://provider')
  const key = url.searchParams.get('key') ?? ''
  const answer = (status: number, body: object) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (url.pathname === '/book') return answer(200, { calls, paid: Object.fromEntries(paid) })
  if (request.method === 'GET') return answer(200, { found: paid.has(key) })
  calls++
  const mood = chance.whole(10)
  if (mood === 0) return answer(503, { error: 'down' })
  if (mood === 1) return answer(429, { error: 'slow down' })
  if (mood === 2) await sleep(chance.whole(120))
  // `keyed` dedupes; `queryable` pays whenever it is asked.
  if (url.pathname !== '/keyed' || !paid.has(key)) pay(key)
  if (mood === 3) return answer(500, { error: 'broke after paying' })
  if (mood === 4) return request.socket.destroy()
  return answer(200, { key })
}
server.listen(0, '127.0.0.1', () => {
  const address = server.address()
  process.stdout.write(
    `${JSON.stringify({ url: `http://127.0.0.1:${typeof address === 'object' && address ? address.port : 0}` })}\n`,
  )
})
