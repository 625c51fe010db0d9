/** `concord mcp`: the MCP server over standard input and output. It sends each message to `/mcp` of the server, so it keeps nothing and decides nothing. */
import { randomUUID } from 'node:crypto'
import { createInterface } from 'node:readline'
import { setTimeout as pause } from 'node:timers/promises'
import { parseGuardedObject } from '#kernel/json-guard'
import { accept, type Refusal, refuse } from '#kernel/refusal'
import { hintOf } from '#refusals'
import { type Client, openClient } from './client.ts'
import { action, type Add } from './noun.ts'
import type { Cli } from './terminal.ts'

type Message = {
  readonly id?: string | number
  readonly method?: string
  readonly params?: Readonly<Record<string, unknown>> & { readonly _meta?: Readonly<Record<string, unknown>> }
}

type Answer = { readonly result?: { readonly protocolVersion?: string } }

const KEY_META = 'concord/idempotency-key'
const VERSION_META = 'io.modelcontextprotocol/protocolVersion'
/** A server that restarts on a busy machine is back within two minutes. */
const RETRIES = 240
const RETRY_MS = 500

export const mcp = (cli: Cli): Add =>
  action({
    description: 'serve the Model Context Protocol over standard input and output, for agents that start a program',
    examples: ['CONCORD_AGENT_KEY=ck_… concord mcp'],
    async run() {
      const client = openClient(cli.terminal, { credential: 'agent' })
      if (!client.ok) return client
      await serveLines(cli, client.value)
      return accept(undefined)
    },
  })

async function serveLines({ terminal }: Cli, client: Client): Promise<void> {
  const running = new Map<unknown, AbortController>()
  const open = new Set<Promise<void>>()
  const write = (message: object) => terminal.out(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  /** Set by the handshake of the revisions before 2026-07-28. */
  let revision: string | undefined

  async function answer(message: Message, signal: AbortSignal): Promise<void> {
    const sent = withKey(message)
    for (let tries = 0; ; tries += 1) {
      const answered = await client.send('/mcp', sent, headersOf(sent, revision), signal)
      if (signal.aborted) return
      if (answered.ok) {
        const messages = messagesIn(answered.value)
        revision = versionIn(message, messages) ?? revision
        return messages.forEach(write)
      }
      // Sent again with the same key, a call is still one command.
      if (answered.code !== 'app.server.unreachable' || tries === RETRIES) return fail(message, answered)
      await pause(RETRY_MS, undefined, { signal }).catch(() => {})
    }
  }

  function fail({ id = null as never }: Message, refusal: Refusal): void {
    const { code, reason } = refusal
    write({ id, error: { code: -32_603, message: `${reason} ${hintOf(refusal)}`, data: { code } } })
  }

  const input = terminal.stdin()
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })
  const end = () => lines.close()
  terminal.stop.addEventListener('abort', end, { once: true })
  for await (const line of lines) {
    if (line.trim() === '') continue
    const parsed = parseGuardedObject(line)
    const message: Message = parsed.ok ? parsed.value : {}
    if (!parsed.ok) write({ id: null, error: { code: -32_700, message: parsed.reason, data: { code: parsed.code } } })
    else if (message.id === undefined) {
      // The server keeps nothing between two messages, so the end of a wait is the only notification that matters.
      if (message.method === 'notifications/cancelled') running.get(message.params?.['requestId'])?.abort()
    } else {
      const stop = new AbortController()
      running.set(message.id, stop)
      const done = answer(message, AbortSignal.any([stop.signal, terminal.stop]))
        .catch((error: unknown) =>
          fail(message, refuse('app.server.unreachable', `The answer cannot be read: ${String(error)}.`)),
        )
        .finally(() => {
          running.delete(message.id)
          open.delete(done)
        })
      open.add(done)
    }
  }
  // The requests under way are held for 20 s at most.
  await Promise.all(open)
}

/** A call without a key gets one, so that it can be sent again after a lost connection. */
function withKey(message: Message): Message {
  const { method, params } = message
  if (method !== 'tools/call' || params?._meta?.[KEY_META] !== undefined) return message
  return { ...message, params: { ...params, _meta: { ...params?._meta, [KEY_META]: randomUUID() } } }
}

/** The headers repeat what the body says. */
function headersOf({ method = '', params }: Message, revision: string | undefined): Record<string, string> {
  const version = params?._meta?.[VERSION_META] ?? revision
  const name = params?.['name'] ?? params?.['taskId']
  return {
    accept: 'application/json, text/event-stream',
    ...(typeof version === 'string' ? { 'mcp-protocol-version': version } : {}),
    ...(params?._meta?.[VERSION_META] === undefined ? {} : { 'mcp-method': method }),
    ...(typeof name === 'string' ? { 'mcp-name': encodeName(name) } : {}),
  }
}

const encodeName = (name: string) =>
  /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/.test(name) && !name.startsWith('=?')
    ? name
    : `=?base64?${Buffer.from(name).toString('base64')}?=`

/** An answer is one JSON text, or the data of server-sent events. */
function messagesIn(text: string): readonly Answer[] {
  const data = text.split('\n').flatMap((line) => (line.startsWith('data:') ? [line.slice(5)] : []))
  const all = data.length > 0 ? data : [text]
  return all.flatMap((each) => (each.trim() === '' ? [] : [JSON.parse(each) as Answer]))
}

/** The revision that the handshake has agreed on. */
function versionIn({ method }: Message, [answer]: readonly Answer[]): string | undefined {
  return method === 'initialize' ? answer?.result?.protocolVersion : undefined
}
