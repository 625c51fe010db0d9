/**
 * An unreliable hotel vendor: slow, failing before or after an effect, repeating rows, and sometimes answering wrongly. It is a
 * separate process with its own ledger, so that its answers can be compared with its effects.
 *
 *   node examples/hotel-vendor.ts [--port 0] [--ledger :memory:] [--seed 1] [--trouble 0] [--confirmation ready|later] [--life-line]
 *
 *   POST /reservations   { client_reference, hotel_name, … }   header idempotency-key
 *   POST /cancellations  { client_reference }                  header idempotency-key
 *   GET  /reservations/{client_reference}/confirmation         503 with --confirmation later
 *   GET  /offers?city=Berlin&check_in=…&check_out=…            its offers
 *   GET  /offers/{offer_id}/rooms?check_in=…&check_out=…       free rooms, price and terms
 *   GET  /rates                                                what Sync Vendor Data reads
 *   GET  /ledger                                               its ledger; never fails
 *
 * `--trouble 2 --seed 7`: the first two calls of each operation fail in ways that the seed determines. It runs until Ctrl-C, in the
 * background too; with `--life-line` it ends when its standard input is closed, for example because its parent died.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { openLedger } from './vendor/ledger.ts'
import { findRooms, listOffers } from './vendor/offers.ts'
import { type Operation, planTrouble } from './vendor/trouble.ts'
import { parseArgs } from 'node:util'

const { values: given } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    ledger: { type: 'string', default: ':memory:' },
    seed: { type: 'string', default: '1' },
    trouble: { type: 'string', default: '0' },
    confirmation: { type: 'string', default: 'ready' },
    'life-line': { type: 'boolean', default: false },
  },
})

const SLOW_MS = 150
/** Larger than any valid answer of this vendor, and than its callers read. */
const TOO_LARGE_BYTES = 1_048_576
const rates = [
  { rate_id: 'R-1', hotel_name: 'Hotel Adler', night: '2026-06-01', price_usd: 300 },
  { rate_id: 'R-2', hotel_name: 'Hotel Adler', night: '2026-06-02', price_usd: 310 },
  { rate_id: 'R-3', hotel_name: 'Pension Linde', night: '2026-06-01', price_usd: 120 },
]

const ledger = openLedger(given.ledger)
const plan = planTrouble(Number(given.seed), Number(given.trouble))
const seen: Record<Operation, number> = { book: 0, cancel: 0, rates: 0, search: 0, rooms: 0 }

type Answer = { readonly status: number; readonly body: object }
type Call = { readonly operation: Operation; readonly key: string; readonly body: string }

/** Records the call, applies it unless it must fail first, and answers or fails. */
async function serveCall(call: Call, response: ServerResponse, act: (arrival: number) => Answer): Promise<void> {
  const trouble = plan[call.operation].at(seen[call.operation]++) ?? 'none'
  const arrival = ledger.arrive({ ...call, trouble })
  if (trouble === 'fail_before') return send(response, { status: 503, body: { error: 'down for a moment' } })
  if (trouble === 'rate_limited') return send(response, { status: 429, body: { error: 'too many requests' } })
  const answer = act(arrival)
  switch (trouble) {
    case 'fail_after':
      return send(response, { status: 500, body: { error: 'something broke' } })
    case 'silent_after':
      return
    case 'reset_after':
      response.destroy()
      return
    case 'wrong_type_after':
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome</h1>')
      return
    case 'too_large_after':
      return send(response, { status: 200, body: { ...answer.body, padding: 'x'.repeat(TOO_LARGE_BYTES) } })
    case 'lie_after':
      return send(response, { status: 200, body: { ...answer.body, key: 'book_hotel:somebody_else' } })
    case 'repeat':
      return send(response, { status: 200, body: twice(answer.body) })
    case 'slow':
      await wait(SLOW_MS)
      return send(response, answer)
    case 'none':
      return send(response, answer)
  }
}

/** Repeats every row of every list. */
function twice(body: object): object {
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => [name, Array.isArray(value) ? [...value, ...value] : value]),
  )
}

function send(response: ServerResponse, { status, body }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function readBody(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += String(chunk)
  return text
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method = 'GET', url = '/' } = request
  const { pathname, searchParams } = new URL(url, 'http://vendor')
  const key = String(request.headers['idempotency-key'] ?? '')
  const body = await readBody(request)
  const sent = (body === '' ? {} : JSON.parse(body)) as { client_reference?: string; hotel_name?: string }
  const { client_reference = '', hotel_name = '' } = sent
  const confirmed = /^\/reservations\/([^/]+)\/confirmation$/.exec(url)?.[1]
  if (method === 'GET' && url === '/ledger') return send(response, { status: 200, body: ledger.books() })
  if (method === 'GET' && url === '/rates')
    return serveCall({ operation: 'rates', key, body }, response, () => ({ status: 200, body: { rates } }))
  if (method === 'GET' && pathname === '/offers')
    return serveCall({ operation: 'search', key, body }, response, () => ({
      status: 200,
      body: { offers: listOffers(searchParams.get('city') ?? '') },
    }))
  const offer = /^\/offers\/([^/]+)\/rooms$/.exec(pathname)?.[1]
  if (method === 'GET' && offer !== undefined)
    return serveCall({ operation: 'rooms', key, body }, response, () => {
      const found = findRooms(decodeURIComponent(offer))
      return found ? { status: 200, body: found } : { status: 404, body: { error: 'no such offer' } }
    })
  if (method === 'GET' && confirmed !== undefined) return sendConfirmation(response, decodeURIComponent(confirmed))
  if (key === '' || client_reference === '')
    return send(response, { status: 400, body: { error: 'needs an idempotency-key and a client_reference' } })
  if (method === 'POST' && url === '/reservations')
    return serveCall({ operation: 'book', key, body }, response, (arrival) => ({
      status: 201,
      body: ledger.book(arrival, key, { client_reference, hotel_name }),
    }))
  if (method === 'POST' && url === '/cancellations')
    return serveCall({ operation: 'cancel', key, body }, response, (arrival) => {
      const cancelled = ledger.cancel(arrival, key, client_reference)
      return cancelled
        ? { status: 200, body: { ...cancelled, key } }
        : { status: 404, body: { error: 'no such reservation' } }
    })
  return send(response, { status: 404, body: { error: 'no such page' } })
}

function sendConfirmation(response: ServerResponse, clientReference: string): void {
  const found = ledger.findReservation(clientReference)
  if (!found) return send(response, { status: 404, body: { error: 'no such reservation' } })
  if (given.confirmation === 'later') return send(response, { status: 503, body: { error: 'it is written at night' } })
  const text = `${found.hotel_name}: reservation ${found.reservation_id} is ${found.status}.`
  return send(response, { status: 200, body: { reservation_id: found.reservation_id, text } })
}

const server = createServer((request, response) => {
  serve(request, response).catch(() => send(response, { status: 400, body: { error: 'not understood' } }))
})
server.once('error', (error: NodeJS.ErrnoException) => {
  const why =
    error.code === 'EADDRINUSE'
      ? `port ${given.port} is taken: another vendor may be running there; end it, or choose another with --port`
      : error.message
  console.error(`The vendor cannot start: ${why}`)
  ledger.close()
  process.exitCode = 1
})
server.listen(Number(given.port), '127.0.0.1', () => {
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  console.log(JSON.stringify({ ready: true, url: `http://127.0.0.1:${port}`, trouble: plan }))
})

function stop(): void {
  server.close()
  server.closeAllConnections()
  ledger.close()
}

if (given['life-line']) process.stdin.once('end', stop).resume()
