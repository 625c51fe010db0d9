/** Speaks to a running server over HTTP: the key, the address, and every failure as a refusal with the next step. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Config, readConfig, serverAddress } from '#app/config'
import { version } from '#app/version'
import { accept, type Decision, refuse, type Refusal } from '#kernel/refusal'
import { isRefusalCode } from '#refusals'
import type { Terminal } from './terminal.ts'

export type Client = {
  readonly address: string
  call<Answer>(method: 'GET' | 'POST' | 'PATCH' | 'DELETE', path: string, body?: unknown): Promise<Decision<Answer>>
  /** Opens a stream of server-sent events. */
  open(path: string, headers?: Record<string, string>): Promise<Decision<ReadableStream<Uint8Array>>>
}

type Problem = { code?: string; detail?: string; path?: string; hint?: string; facts?: Record<string, unknown> }

/** `none`: for the one call that needs no key, since it is how one gets a key. */
export function openClient(terminal: Terminal, { credential }: { credential?: 'none' } = {}): Decision<Client> {
  const config = readConfig(terminal.environment, terminal.folder)
  if (!config.ok) return config
  const address = serverAddress(config.value)
  const key = credential === 'none' ? accept(undefined) : findKey(config.value, address)
  if (!key.ok) return key
  const request = async (method: string, path: string, headers: Record<string, string>, body?: unknown) => {
    try {
      const response = await fetch(address + path, {
        method,
        headers: {
          ...(key.value === undefined ? {} : { authorization: `Bearer ${key.value}` }),
          ...(config.value.cliWorkspace === undefined ? {} : { 'x-workspace': config.value.cliWorkspace }),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        signal: terminal.stop,
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
        // Cut off in the middle, or something that is no Concord: either way the answer is not known.
        return unreachable(address, error)
      }
    },
    async open(path, headers = {}) {
      const response = await request('GET', path, { accept: 'text/event-stream', ...headers })
      if (!response.ok) return response
      const refusal = versionRefusal(response.value) ?? (await problemOf(response.value))
      if (refusal) return refusal
      const { body } = response.value
      return body ? accept(body) : refuse('app.server.unreachable', `${address} sent an empty answer`)
    },
  })
}

function findKey(config: Config, address: string): Decision<string> {
  if (config.key !== undefined) return accept(config.key)
  const file = join(config.home, 'admin.key')
  // The key of this folder belongs to the server of this folder; it is not shown to whoever else answers.
  if (!isLoopback(address)) {
    return refuse('cli.key.missing', `no API key for ${address}`, {
      path: 'CONCORD_KEY',
      hint: 'set CONCORD_KEY to a key of that server',
    })
  }
  try {
    return accept(readFileSync(file, 'utf8').trim())
  } catch {
    return refuse('cli.key.missing', `no API key: CONCORD_KEY is not set and ${file} cannot be read`, {
      path: 'CONCORD_KEY',
      hint: 'run the command in the folder where `concord up` runs, or set CONCORD_HOME to its data folder, or CONCORD_KEY',
    })
  }
}

function isLoopback(address: string): boolean {
  return URL.canParse(address) && /^(localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(address).hostname)
}

function unreachable(address: string, error: unknown): Refusal {
  const cause = error instanceof Error ? ((error.cause as Error | undefined)?.message ?? error.message) : String(error)
  return refuse('app.server.unreachable', `no Concord server answers at ${address} (${cause})`, {
    path: 'CONCORD_URL',
    hint: 'start one with `concord up`, or set CONCORD_URL',
  })
}

/** Same major and minor, or neither side knows what the other means. */
function versionRefusal(response: Response): Refusal | undefined {
  const server = response.headers.get('x-concord-version')
  const line = (text: string) => text.split('.').slice(0, 2).join('.')
  if (server === null || line(server) === line(version)) return undefined
  return refuse('app.server.version', `the server is ${server}, this command line is ${version}`, {
    hint: 'use the command line of the server’s version',
    facts: { server, client: version },
  })
}

async function problemOf(response: Response): Promise<Refusal | undefined> {
  if (response.ok) return undefined
  const problem = (await response.json().catch(() => ({}))) as Problem
  const code = problem.code !== undefined && isRefusalCode(problem.code) ? problem.code : 'app.server.unreachable'
  return refuse(code, problem.detail ?? `the server answered ${response.status}`, {
    ...(problem.path === undefined ? {} : { path: problem.path }),
    ...(problem.hint === undefined ? {} : { hint: problem.hint }),
    ...(problem.facts === undefined ? {} : { facts: problem.facts }),
  })
}
