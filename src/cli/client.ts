/** Calls a running server over HTTP. Returns every failure as a refusal with the next step. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Config, readConfig, serverAddress } from '#app/config'
import { version } from '#app/version'
import { decodeId, idPrefixes } from '#kernel/ids'
import { accept, type Decision, quote, refuse, type Refusal } from '#kernel/refusal'
import { isRefusalCode } from '#refusals'
import { homes, type ServerKind, withHint } from './next-hint.ts'
import type { Cli, Terminal, VerbResult } from './terminal.ts'

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export type Client = {
  readonly address: string
  call<Answer>(method: Method, path: string, body?: unknown): Promise<Decision<Answer>>
  /** Posts a body of another protocol. Returns the text of the answer, whatever its status; a problem is a refusal. */
  send(path: string, body: unknown, headers: Record<string, string>, signal: AbortSignal): Promise<Decision<string>>
  /** Opens a stream of server-sent events. */
  open(path: string, headers?: Record<string, string>): Promise<Decision<ReadableStream<Uint8Array>>>
}

type Problem = {
  code?: string
  detail?: string
  path?: string
  hint?: string
  facts?: Record<string, unknown>
  errors?: readonly unknown[]
}

/**
 * `credential: 'none'` is for redeeming an invitation: the caller has no key yet. `agent` prefers the key of the agent to that of the person
 * in the same environment.
 */
export function openClient(
  terminal: Terminal,
  { credential }: { credential?: 'none' | 'agent' } = {},
): Decision<Client> {
  const config = readConfig(terminal.environment, terminal.folder)
  if (!config.ok) return config
  const address = serverAddress(config.value)
  const agentKey = credential === 'agent' ? config.value.agentKey : undefined
  const known = credential === 'none' || agentKey !== undefined
  const key = known ? accept(agentKey) : findKey(config.value, terminal.environment, address)
  if (!key.ok) return key
  const request = async (
    method: string,
    path: string,
    headers: Record<string, string>,
    body?: unknown,
    signal = terminal.stop,
  ) => {
    // A text is a body of lines.
    const isText = typeof body === 'string'
    try {
      const response = await fetch(address + path, {
        method,
        headers: {
          ...(key.value === undefined ? {} : { authorization: `Bearer ${key.value}` }),
          ...(config.value.cliWorkspace === undefined ? {} : { 'x-workspace': config.value.cliWorkspace }),
          ...(body === undefined ? {} : { 'content-type': isText ? 'application/x-ndjson' : 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
        signal,
      })
      return accept(response)
    } catch (error) {
      return unreachable(address, error)
    }
  }
  return accept({
    address,
    async call<Answer>(method: string, path: string, body?: unknown) {
      const response = await request(method, path, {}, body)
      if (!response.ok) return response
      const refusal = versionRefusal(response.value) ?? (await problemOf(response.value))
      if (refusal) return refusal
      if (response.value.status === 204) return accept(undefined as Answer)
      try {
        return accept((await response.value.json()) as Answer)
      } catch (error) {
        // The answer was cut off, or it is not a Concord server.
        return unreachable(address, error)
      }
    },
    async send(path, body, headers, signal) {
      const response = await request('POST', path, headers, body, signal)
      if (!response.ok) return response
      try {
        const isProblem = response.value.headers.get('content-type')?.startsWith('application/problem+json')
        const refusal = versionRefusal(response.value) ?? (isProblem ? await problemOf(response.value) : undefined)
        return refusal ?? accept(await response.value.text())
      } catch (error) {
        return unreachable(address, error)
      }
    },
    async open(path, headers = {}) {
      const response = await request('GET', path, { accept: 'text/event-stream', ...headers })
      if (!response.ok) return response
      const refusal = versionRefusal(response.value) ?? (await problemOf(response.value))
      if (refusal) return refusal
      const { body } = response.value
      return body ? accept(body) : refuse('app.server.unreachable', `${address} sent an empty answer.`)
    },
  })
}

function findKey(config: Config, environment: Terminal['environment'], address: string): Decision<string> {
  // A script whose variable is empty must not act as the administrator.
  if (environment['CONCORD_KEY'] === '')
    return refuse('cli.key.missing', 'CONCORD_KEY is empty.', {
      path: 'CONCORD_KEY',
      hint: 'Set it to a key, or unset it.',
    })
  if (config.key !== undefined) return accept(config.key)
  const file = join(config.home, 'admin.key')
  // The key of this folder belongs to the server of this folder. It is never sent to another machine.
  if (!isLoopback(address)) {
    return refuse('cli.key.missing', `There is no API key for ${address}.`, {
      path: 'CONCORD_KEY',
      hint: 'Set CONCORD_KEY to a key of that server.',
    })
  }
  try {
    return accept(readFileSync(file, 'utf8').trim())
  } catch {
    return refuse('cli.key.missing', `There is no API key: CONCORD_KEY is not set and ${file} cannot be read.`, {
      path: 'CONCORD_KEY',
      hint: 'Run the command in the folder where `concord up` runs, or set CONCORD_HOME to its data folder, or set CONCORD_KEY.',
    })
  }
}

function isLoopback(address: string): boolean {
  return URL.canParse(address) && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(address).hostname)
}

function unreachable(address: string, error: unknown): Refusal {
  const cause = error instanceof Error ? ((error.cause as Error | undefined)?.message ?? error.message) : String(error)
  return refuse('app.server.unreachable', `No Concord server answers at ${address} (${cause}).`, {
    path: 'CONCORD_URL',
    hint: 'Start one with `concord up`, or set CONCORD_URL.',
  })
}

/** Client and server must have the same major and minor version. */
function versionRefusal(response: Response): Refusal | undefined {
  const server = response.headers.get('x-concord-version')
  const line = (text: string) => text.split('.').slice(0, 2).join('.')
  if (server === null || line(server) === line(version)) return undefined
  return refuse(
    'app.server.version',
    `The server has version ${server}, but this command line has version ${version}.`,
    {
      hint: 'Install the command line with the same version as the server.',
      facts: { server, client: version },
    },
  )
}

async function problemOf(response: Response): Promise<Refusal | undefined> {
  if (response.ok) return undefined
  const problem = (await response.json().catch(() => ({}))) as Problem
  const code = problem.code !== undefined && isRefusalCode(problem.code) ? problem.code : 'app.server.unreachable'
  return refuse(code, problem.detail ?? `The server answered ${response.status}.`, {
    ...(problem.path === undefined ? {} : { path: problem.path }),
    ...(problem.hint === undefined ? {} : { hint: problem.hint }),
    ...(problem.facts === undefined && problem.errors === undefined
      ? {}
      : { facts: { ...problem.facts, ...fieldsOf({ errors: problem.errors }) } }),
  })
}

/** Sends one request, and replaces the hint of a server refusal with one for the command line. */
export async function askServer<Answer>(
  { terminal }: Pick<Cli, 'terminal'>,
  method: Method,
  path: string | Decision<string>,
  body?: unknown,
): Promise<Decision<Answer>> {
  if (typeof path !== 'string' && !path.ok) return path
  const at = typeof path === 'string' ? path : path.value
  const client = openClient(terminal)
  if (!client.ok) return client
  const answer = await client.value.call<Answer>(method, at, body)
  return answer.ok ? answer : withHint(answer, at)
}

/** Returns the path of one resource. Refuses a mistyped id without asking the server. */
export function pathOf(kind: ServerKind, id: string, verb = ''): Decision<string> {
  const decoded = decodeId(kind, id)
  const home = homes[kind]
  if (decoded.ok) return accept(`${home.at}/${encodeURIComponent(id)}${verb}`)
  const other = (Object.keys(homes) as ServerKind[]).find(
    (each) => each !== kind && id.startsWith(`${idPrefixes[each]}_`),
  )
  const mixedUp = other ? `This is the id of ${homes[other].one}. ` : ''
  return { ...decoded, reason: `${quote(id)} is not the id of ${home.one}.`, path: '<id>', hint: mixedUp + home.list }
}

export function queryOf(fields: Readonly<Record<string, string | number | null | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value != null) query.set(name, String(value))
  return `?${query.toString().replaceAll('+', '%20')}`
}

export type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor?: string | null | undefined }

/** 50,000 rows. Ends the loop if a server never returns a last page. */
const PAGES_MAX = 100

/** Reads all pages of a list as one. */
export async function listAll<Item>(cli: Pick<Cli, 'terminal'>, path: string): Promise<Decision<Page<Item>>> {
  const items: Item[] = []
  let last: Page<Item> = { items }
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const page = await askServer<Page<Item>>(cli, 'GET', path + queryOf({ limit: 500, cursor: last.next_cursor }))
    if (!page.ok) return page
    last = page.value
    items.push(...last.items)
    if (!last.next_cursor) break
  }
  return accept({ ...last, items })
}

const LOOK_MS = 1_000

/** Looks every second until there is a result. A signal ends the watch without one: the request that it cut off is no error. */
export async function watchUntil(
  { stop }: Pick<Terminal, 'stop'>,
  look: () => Promise<VerbResult | undefined>,
): Promise<VerbResult> {
  while (!stop.aborted) {
    const result = await look()
    if (result && !stop.aborted) return result
    await pause(LOOK_MS, undefined, { signal: stop }).catch(() => undefined)
  }
  return accept(undefined)
}

/** Turns optional flags into the fields of a body. Leaves out missing flags. */
export function fieldsOf(flags: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(flags).filter(([, value]) => value !== undefined))
}
