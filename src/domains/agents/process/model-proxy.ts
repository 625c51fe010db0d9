/**
 * The only way to a model for a program: a server on the loopback address for one turn. The program has the token of the turn and no key of a
 * provider. Each request asks through the budget of the run. The tools in a request are replaced by those of the run; when the model
 * calls one, the turn ends with the calls, and the program never sees them.
 */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AgentAnswer, AgentTurn } from '../agent-runtime.ts'
import { modelOf } from '../models/ai-sdk-runtime.ts'
import { blockMessages, chatCompletions, readRequest, responses, type WireFormat } from './wire-formats.ts'

const REQUEST_BYTES_MAX = 1_048_576

const routes: Readonly<Record<string, WireFormat>> = {
  '/v1/chat/completions': chatCompletions,
  '/v1/messages': blockMessages,
  '/v1/responses': responses,
}

export type ModelProxy = {
  readonly url: string
  readonly token: string
  close(): Promise<void>
}

export type ProxyEvents = {
  /** The model has called tools: the answer of the turn. */
  readonly onCalls: (answer: AgentAnswer) => void
  /** The model could not be asked: the turn ends with this error. */
  readonly onError: (error: unknown) => void
}

export async function openModelProxy(turn: AgentTurn, events: ProxyEvents): Promise<ModelProxy> {
  const token = randomBytes(32).toString('hex')
  const server = createServer((request, response) => {
    serve(turn, token, events, request, response).catch((error: unknown) => {
      events.onError(error)
      response.destroy()
    })
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  return {
    url: `http://127.0.0.1:${port}`,
    token,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

async function serve(
  turn: AgentTurn,
  token: string,
  { onCalls }: ProxyEvents,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  if (!isAllowed(request, token)) return refuse(response, 401, 'The token of the turn is missing or wrong.')
  const path = new URL(request.url ?? '/', 'http://127.0.0.1').pathname
  const format = Object.hasOwn(routes, path) ? routes[path] : undefined
  if (request.method !== 'POST' || !format) return refuse(response, 404, 'There is no such route.')
  const text = await readBody(request)
  if (text === undefined) return refuse(response, 413, 'The request is too large.')
  const asked = readAsked(text)
  if (!asked) return refuse(response, 400, 'The request cannot be read.')
  // The run decides about the model and the tools, not the program.
  const { model, outputTokensMax } = modelOf(turn)
  const answer = await turn.askModel({
    model,
    messages: asked.messages,
    tools: turn.isLast ? [] : turn.tools,
    outputTokensMax: Math.min(asked.outputTokensMax ?? outputTokensMax, outputTokensMax),
  })
  if (answer.calls.length > 0 && !turn.isLast) {
    onCalls({ text: answer.text, calls: answer.calls, final: null })
    return
  }
  if (!asked.isStream) return send(response, 200, JSON.stringify(format.whole(answer)))
  response.writeHead(200, { 'content-type': 'text/event-stream' }).end(format.stream(answer))
}

function readAsked(text: string) {
  try {
    return readRequest(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Compares digests, so that the time says nothing about the token. */
function isAllowed({ headers }: IncomingMessage, token: string): boolean {
  const bearer = /^Bearer (.+)$/.exec(headers.authorization ?? '')?.[1]
  const given = bearer ?? headers['x-api-key']
  const digest = (text: string) => createHash('sha256').update(text).digest()
  return typeof given === 'string' && timingSafeEqual(digest(given), digest(token))
}

async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = []
  let sizeBytes = 0
  for await (const chunk of request) {
    // No encoding is set, so chunks are bytes.
    const bytes = chunk as Buffer
    sizeBytes += bytes.length
    if (sizeBytes > REQUEST_BYTES_MAX) return undefined
    chunks.push(bytes)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function refuse(response: ServerResponse, status: number, message: string): void {
  send(response, status, JSON.stringify({ error: { type: 'invalid_request_error', message } }))
}

function send(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}
