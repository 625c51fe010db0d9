/**
 * A fake model server in its own process, with the API of OpenAI. It costs nothing, answers from a script, and misbehaves on purpose. It
 * records every request, so that a test can see a model that was asked twice.
 *
 *   node examples/model/fake-model.ts [--port 0] [--scripts scripts.json] [--key <the only key that it accepts>] [--life-line]
 *
 *   POST /v1/chat/completions   answers from the script of the model that the request names
 *   PUT  /scripts               replaces the scripts: { "<model>": [{ "text": "Hello." }], "<another>": "obedient" }
 *   GET  /requests              what was asked, in the order of arrival
 *
 * With `--life-line` it ends when its standard input is closed, for example because its parent died.
 */
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { answerTo, type ChatRequest, type ModelScripts, type ScriptedAnswer, type Trouble, turnOf } from './script.ts'

const { values: given } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    scripts: { type: 'string' },
    key: { type: 'string' },
    'life-line': { type: 'boolean', default: false },
  },
})

const SLOW_MS = 150
const TOO_LARGE_BYTES = 5_242_880

export type ModelRequestSeen = {
  /** The header `idempotency-key`: one per turn of a run. */
  readonly key: string | null
  readonly model: string
  /** How many answers of the model were in the request. */
  readonly turn: number
  readonly trouble: Trouble | null
  readonly body: ChatRequest
  /** Whether the caller hung up before the answer. */
  released: boolean
}

let scripts = (given.scripts === undefined ? {} : JSON.parse(await readFile(given.scripts, 'utf8'))) as ModelScripts
const seen: ModelRequestSeen[] = []

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const route = `${request.method} ${request.url}`
  if (route === 'GET /requests') return send(response, 200, seen)
  const text = await read(request)
  if (route === 'PUT /scripts') {
    scripts = JSON.parse(text) as ModelScripts
    seen.length = 0
    return send(response, 200, {})
  }
  if (route !== 'POST /v1/chat/completions') return send(response, 404, errorOf('There is no such route.'))
  const credential = request.headers.authorization
  if (given.key !== undefined && credential !== `Bearer ${given.key}`)
    return send(response, 401, errorOf('The key is wrong.'))
  const body = JSON.parse(text) as ChatRequest
  const answer = answerTo(scripts, body)
  const turn = turnOf(body)
  const key = request.headers['idempotency-key']
  const met = seen.filter((other) => other.model === body.model && other.turn === turn && other.trouble !== null)
  const trouble = answer?.trouble !== undefined && met.length < (answer.times ?? 1) ? answer.trouble : null
  const entry = { key: String(key ?? '') || null, model: body.model, turn, trouble, body, released: false }
  seen.push(entry)
  response.once('close', () => (entry.released = !response.writableFinished))
  if (!answer) return send(response, 404, errorOf(`There is no model ${body.model}.`))
  return answerWith(response, trouble, completion(body, answer, text), credential ?? '')
}

async function answerWith(response: ServerResponse, trouble: Trouble | null, body: object, credential: string) {
  switch (trouble) {
    case null:
      return send(response, 200, body)
    case 'slow':
      await wait(SLOW_MS)
      return send(response, 200, body)
    case 'silent':
      return
    case 'rate_limited':
      response.setHeader('retry-after', '1')
      return send(response, 429, errorOf('Too many requests.'))
    case 'fault':
      return send(response, 500, errorOf('Something broke.'))
    case 'not_json':
      response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>Welcome</h1>')
      return
    case 'too_large':
      return send(response, 200, { ...body, padding: 'x'.repeat(TOO_LARGE_BYTES) })
    case 'echo':
      return send(response, 400, errorOf(`The key ${credential} is not allowed to do this.`))
    case 'cut': {
      const text = JSON.stringify(body)
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': String(text.length) })
      response.write(text.slice(0, text.length / 2), () => response.destroy())
    }
  }
}

let answers = 0

function completion(request: ChatRequest, answer: ScriptedAnswer, asked: string): object {
  answers += 1
  const { text = null, calls = [], usage = usageOf(asked, answer) } = answer
  const tool_calls = calls.map((call, at) => ({
    id: `call_${answers}_${at}`,
    type: 'function',
    function: {
      name: call.name,
      arguments: typeof call.arguments === 'string' ? call.arguments : JSON.stringify(call.arguments),
    },
  }))
  return {
    id: `chatcmpl-${answers}`,
    object: 'chat.completion',
    created: 1,
    model: request.model,
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: text, ...(calls.length === 0 ? {} : { tool_calls }) },
        finish_reason: calls.length === 0 ? 'stop' : 'tool_calls',
      },
    ],
    ...(usage === 'missing' ? {} : { usage }),
  }
}

/** About four bytes a token, as real models count. */
function usageOf(asked: string, answer: ScriptedAnswer): object {
  const prompt_tokens = Math.ceil(asked.length / 4)
  const completion_tokens = Math.ceil(JSON.stringify(answer).length / 4)
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens }
}

function errorOf(message: string): object {
  return { error: { message, type: 'invalid_request_error' } }
}

function send(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

const server = createServer((request, response) => {
  serve(request, response).catch((error: unknown) => send(response, 400, errorOf(String(error))))
})
server.listen(Number(given.port), '127.0.0.1', () => {
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }))
})
if (given['life-line']) process.stdin.resume().once('end', () => process.exit(0))
