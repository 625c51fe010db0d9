/** A typed client of the HTTP API: every operation by its path, and commands by their definitions. It throws refusals. */
import createClient, { type Client as ApiClient } from 'openapi-fetch'
import type { components, paths } from './api-types.ts'
import { readServerEvents } from './server-events.ts'

type CommandRow = components['schemas']['Command']
export type Explanation = components['schemas']['Explanation']
export type EventView = components['schemas']['DomainEvent']
type Problem = components['schemas']['Problem']

/** The parts of a definition that a client uses, so that a browser can import the type alone. */
export type CommandRef<Input extends object, Result> = {
  readonly taskName: string
  readonly input: { readonly _zod: { readonly input: Input } }
  readonly resultType?: Result
}

/** A command that was recorded. */
export type CommandHandle<Result = unknown> = {
  readonly command_id: string
  readonly status: CommandRow['status']
  /** Only a type. */
  readonly resultType?: Result
}

export type ApprovalCard = components['schemas']['Approval']

/** A command, or its id. */
type Named<Result = unknown> = string | CommandHandle<Result> | CommandOf<Result>

export type CommandOf<Result = unknown> = Omit<CommandRow, 'result'> & {
  /** Null until the command has succeeded. */
  readonly result: Result | null
  /** Only a type. */
  readonly resultType?: Result
}

/** A refusal of the server: a stable code, what was wrong, where, and what to do. */
export class ConcordError extends Error {
  readonly status: number
  readonly code: string
  readonly hint: string | undefined
  readonly path: string | undefined
  readonly facts: Readonly<Record<string, unknown>>

  constructor(status: number, { code, detail, hint, path, facts }: Partial<Problem>) {
    super([detail ?? `The server answered ${status}.`, hint].filter(Boolean).join(' '))
    this.name = 'ConcordError'
    this.status = status
    this.code = code ?? 'unknown'
    this.hint = hint
    this.path = path
    this.facts = facts ?? {}
  }
}

export type ConnectOptions = {
  readonly url: string
  readonly key: string
  /** The short name of a workspace. Default: the workspace of the key. */
  readonly workspace?: string | undefined
  /** Replaces the `fetch` of the platform. */
  readonly fetch?: (request: Request) => Promise<Response>
}

type SubmitOptions = {
  /** The idempotency key of the request: the same for every repetition. */
  readonly key?: string | undefined
}
type SignalOf = { readonly key: string; readonly payload?: object | undefined; readonly id?: string | undefined }
type WaitOptions = { readonly timeoutMs?: number; readonly signal?: AbortSignal }

export type ConcordClient = {
  /** Every operation of the API by its path, with typed parameters, bodies and answers. */
  readonly api: ApiClient<paths>
  /** Records a command. It runs after the answer. */
  submit<Input extends object, Result>(
    command: CommandRef<Input, Result>,
    input: Input,
    options?: SubmitOptions,
  ): Promise<CommandHandle<Result>>
  get<Result = unknown>(command: Named<Result>): Promise<CommandOf<Result>>
  /** Waits until the command has ended or needs a person. */
  wait<Result = unknown>(command: Named<Result>, options?: WaitOptions): Promise<CommandOf<Result>>
  why(command: Named): Promise<Explanation>
  /**
   * Sends an event that commands wait for. It ends every wait for its name and key, or is kept for the first that begins. The same `id` is
   * received once.
   */
  signal(name: string, signal: SignalOf): Promise<components['schemas']['Signal']>
  cancel(command: Named, reason?: string): Promise<CommandRow>
  /** Submits the command that undoes this one, and returns it. */
  undo(command: Named, reason?: string): Promise<CommandRow>
  /** The approvals that wait for the caller, of one command or of all: what is asked, and why. */
  inbox(command?: Named): Promise<readonly ApprovalCard[]>
  /** Approves what the card shows. A request that has changed since is refused. */
  approve(card: Pick<ApprovalCard, 'approval_id' | 'payload_hash'>, reason?: string): Promise<void>
  reject(card: Pick<ApprovalCard, 'approval_id' | 'payload_hash'>, reason: string): Promise<void>
  /** Events from the first, or after a cursor; each has its own to continue from. Ends with the signal. */
  events(options?: {
    readonly after?: string
    readonly signal?: AbortSignal
  }): AsyncIterable<EventView & { readonly cursor: string }>
}

const POLL_FIRST_MS = 25
const POLL_LAST_MS = 1_000
const WAIT_MS = 600_000
const PAGE = 500
const RESTS: ReadonlySet<string> = new Set([
  'succeeded',
  'failed',
  'cancelled',
  'expired',
  'waiting_for_approval',
  'waiting_for_input',
])

/** Nothing happens any more unless a person acts. */
function isAtRest({ status, next, cancellation_requested }: CommandRow): boolean {
  if (status === 'compensated') return !cancellation_requested
  if (status === 'blocked') return next.some(({ action }) => action === 'reconcile_effect')
  return RESTS.has(status)
}

export function connect({ url, key, workspace, fetch: send }: ConnectOptions): ConcordClient {
  const headers = { authorization: `Bearer ${key}`, ...(workspace === undefined ? {} : { 'x-workspace': workspace }) }
  const api = createClient<paths>({ baseUrl: url, headers, ...(send && { fetch: send }) })

  async function get<Result>(command: Named<Result>): Promise<CommandOf<Result>> {
    const params = { path: { command_id: idOf(command) } }
    return valueOf(await api.GET('/commands/{command_id}', { params })) as CommandOf<Result>
  }

  async function wait<Result>(command: Named<Result>, { timeoutMs = WAIT_MS, signal }: WaitOptions = {}) {
    const until = AbortSignal.any([AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])])
    for (let pauseMs = POLL_FIRST_MS; ; pauseMs = Math.min(pauseMs * 1.5, POLL_LAST_MS)) {
      const found = await get<Result>(command)
      if (isAtRest(found)) return found
      until.throwIfAborted()
      await pause(pauseMs, until)
    }
  }

  async function decide(
    { approval_id, payload_hash }: Pick<ApprovalCard, 'approval_id' | 'payload_hash'>,
    decision: 'approved' | 'rejected',
    reason: string | undefined,
  ) {
    const params = { path: { approval_id } }
    const body = { decision, payload_hash, ...(reason === undefined ? {} : { reason }) }
    valueOf(await api.POST('/approvals/{approval_id}/resolve', { params, body }))
  }

  async function inbox(command?: Named): Promise<readonly ApprovalCard[]> {
    const cards: ApprovalCard[] = []
    const asked = {
      mine: 'true' as const,
      limit: PAGE,
      ...(command === undefined ? {} : { command_id: idOf(command) }),
    }
    for (let cursor: string | undefined; ; ) {
      const query = cursor === undefined ? asked : { ...asked, cursor }
      const { items, next_cursor } = valueOf(await api.GET('/approvals', { params: { query } }))
      cards.push(...items)
      if (!next_cursor) return cards
      cursor = next_cursor
    }
  }

  return {
    api,
    async submit<Input extends object, Result>(
      { taskName }: CommandRef<Input, Result>,
      input: Input,
      { key: idempotency_key }: SubmitOptions = {},
    ) {
      const body = { task_name: taskName, payload: input as Record<string, never> }
      return valueOf(
        await api.POST('/commands', { body: idempotency_key === undefined ? body : { ...body, idempotency_key } }),
      )
    },
    get,
    wait,
    async why(command) {
      const params = { path: { command_id: idOf(command) } }
      return valueOf(await api.GET('/commands/{command_id}/explanation', { params }))
    },
    async signal(name, { key: about, payload = {}, id }) {
      const body = { name, key: about, payload: payload as Record<string, never>, ...(id === undefined ? {} : { id }) }
      return valueOf(await api.POST('/signals', { body }))
    },
    async cancel(command, reason) {
      const params = { path: { command_id: idOf(command) } }
      return valueOf(
        await api.POST('/commands/{command_id}/cancel', { params, body: reason === undefined ? {} : { reason } }),
      )
    },
    async undo(command, reason) {
      const params = { path: { command_id: idOf(command) } }
      const undo = valueOf(
        await api.POST('/commands/{command_id}/undo', { params, body: reason === undefined ? {} : { reason } }),
      )
      return get(undo)
    },
    inbox,
    approve: (card, reason) => decide(card, 'approved', reason),
    reject: (card, reason) => decide(card, 'rejected', reason),
    async *events({ after, signal } = {}) {
      const query = after === undefined ? {} : { after }
      const { data, error, response } = await api.GET('/events', {
        params: { query },
        parseAs: 'stream',
        ...(signal && { signal }),
      })
      if (!data) throw new ConcordError(response.status, error ?? {})
      for await (const event of readServerEvents(data as ReadableStream<Uint8Array>))
        if (event.data !== '') yield { ...(JSON.parse(event.data) as EventView), cursor: event.id ?? '' }
    },
  }
}

function idOf(command: Named): string {
  return typeof command === 'string' ? command : command.command_id
}

function valueOf<Data>({ data, error, response }: { data?: Data; error?: unknown; response: Response }): Data {
  if (data !== undefined) return data
  throw new ConcordError(response.status, error ?? {})
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => (clearTimeout(timer), reject(signal.reason as Error))
    const timer = setTimeout(() => (signal.removeEventListener('abort', stop), resolve()), ms)
    signal.addEventListener('abort', stop, { once: true })
  })
}
