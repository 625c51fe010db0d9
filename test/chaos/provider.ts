/**
 * A payment provider as a process, and the reference of a run: it records every payment and refund before it answers. By a seeded
 * plan it is slow, fails before or after paying, hangs up after paying, or asks for fewer requests.
 */
import { appendFileSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { openChance } from '../support/chance.ts'

const [file = '', seed = '', latency = '0'] = process.argv.slice(2)
const chance = openChance(seed)
/**
 * How often each key was paid and refunded. `late`: paid again by a request that arrived after the time limit of its own call, from a caller that was frozen
 * while it called. Without a key, no caller can prevent that. The file outlives the process; the maps are a copy.
 */
const books = {
  paid: new Map<string, number>(),
  undone: new Map<string, number>(),
  late: new Map<string, number>(),
}
for (const line of readBook()) {
  const [kind, key] = line.split(' ')
  if (kind === 'paid' || kind === 'undone' || kind === 'late') note(kind, key ?? '')
}
let calls = 0

function readBook(): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

function note(kind: keyof typeof books, key: string): void {
  books[kind].set(key, (books[kind].get(key) ?? 0) + 1)
}

function write(kind: keyof typeof books, key: string): void {
  appendFileSync(file, `${kind} ${key}\n`)
  note(kind, key)
}

const server = createServer((request, response) => void serve(request, response))
type Answer = (status: number, body: object) => unknown

async function serve(request: IncomingMessage, response: ServerResponse): Promise<unknown> {
  const url = new URL(request.url ?? '/', 'http://provider')
  const key = url.searchParams.get('key') ?? ''
  const answer: Answer = (status, body) =>
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  if (url.pathname === '/book') {
    const { paid, undone, late } = books
    return answer(200, {
      calls,
      paid: Object.fromEntries(paid),
      undone: Object.fromEntries(undone),
      late: Object.fromEntries(late),
    })
  }
  if (request.method === 'GET') return answer(200, { found: books.paid.has(key) })
  calls++
  const isLate = Date.now() > Number(url.searchParams.get('until') ?? Number.POSITIVE_INFINITY)
  await sleep(Number(latency))
  switch (url.pathname) {
    // Always refused, for commands that wait for a cancellation.
    case '/held':
      return answer(503, { error: 'not yet' })
    case '/slow':
      await sleep(3_000)
      return payOnce(key, answer)
    // Refused until another run asks with a new key.
    case '/refused':
      return key.endsWith(':r2') ? payOnce(key, answer) : answer(422, { error: 'refused' })
    // Down until another run asks with a new key.
    case '/breaking':
      return /:r\d+$/.test(key) ? payOnce(key, answer) : answer(503, { error: 'down' })
    case '/declined':
      return answer(422, { error: 'refused' })
    // Never reveals the outcome.
    case '/doubtful':
      write('paid', key)
      return answer(500, { error: 'broke after paying' })
    case '/blind':
      if (chance.whole(2) === 0) write('paid', key)
      return request.socket.destroy()
    case '/undo':
      if (!books.undone.has(key)) write('undone', key)
      return answer(200, { key })
    case '/steady':
      return payOnce(key, answer)
    default:
      return misbehave(url.pathname, key, isLate, request, answer)
  }
}

function payOnce(key: string, answer: Answer): unknown {
  if (!books.paid.has(key)) write('paid', key)
  return answer(200, { key })
}

async function misbehave(
  path: string,
  key: string,
  isLate: boolean,
  request: IncomingMessage,
  answer: Answer,
): Promise<unknown> {
  const mood = chance.whole(10)
  if (mood === 0) return answer(503, { error: 'down' })
  if (mood === 1) return answer(429, { error: 'slow down' })
  if (mood === 2) await sleep(chance.whole(120))
  // `keyed` deduplicates; `queryable` pays on every call.
  const isPaid = books.paid.has(key)
  if (path !== '/keyed' || !isPaid) write(isLate && isPaid ? 'late' : 'paid', key)
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
