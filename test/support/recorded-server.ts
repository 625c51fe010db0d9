/** A server with recorded answers, and the command line against it. Only the server is fake. */
import { createServer } from 'node:http'
import { Readable } from 'node:stream'
import type { AddressInfo } from 'node:net'
import type { z } from 'zod'
import { runProgram } from '../../src/cli/program.ts'
import type { ApprovalView } from '../../src/domains/approvals/index.ts'
import type { commandView } from '../../src/domains/commands/index.ts'

export const COMMAND_ID = 'cmd_0197f3b2c4d57a8e9b0c1d2e3f405170'
export const APPROVAL_ID = 'appr_0197f3b2c4d57a8e9b0c1d2e3f405165'

export type Heard = { readonly line: string; readonly body: unknown; readonly headers: Record<string, unknown> }
/** Answers by `METHOD /path?query`. A list is used in order, and its last answer repeats. */
export type Answers = Readonly<Record<string, unknown>>

export class Problem {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
  constructor(status: number, code: string, more: Readonly<Record<string, unknown>> = {}) {
    this.status = status
    this.body = { type: 'about:blank', title: code, status, code, detail: 'No.', ...more }
  }
}

/** Answers with these events as a stream that ends. */
export class EventFrames {
  readonly text: string
  constructor(events: readonly object[]) {
    const frames = events.map((event, index) => `id: 1.${index}\ndata: ${JSON.stringify(event)}\n\n`)
    this.text = `${frames.join('')}event: end\ndata:\n\n`
  }
}

export type Said = {
  readonly code: number
  readonly out: string
  readonly err: string
  readonly heard: readonly Heard[]
}

/** Runs one command line against these answers; every other request gets a 404. */
/** A body of lines is the list of its lines. */
function bodyOf(text: string, type: string | undefined): unknown {
  if (text === '') return undefined
  return type === 'application/x-ndjson' ? text.trimEnd().split('\n') : JSON.parse(text)
}

export async function runAgainst(
  answers: Answers,
  args: readonly string[],
  more: {
    readonly folder?: string
    readonly stdin?: string
    readonly version?: string
    /** The width of the terminal. Undefined: the output is not a terminal. */
    readonly columns?: number
    readonly environment?: Readonly<Record<string, string>>
    readonly stop?: AbortSignal
    readonly onHeard?: (count: number) => void
  } = {},
): Promise<Said> {
  const heard: Heard[] = []
  const given = new Map<string, number>()
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const line = `${request.method} ${request.url}`
      const text = Buffer.concat(chunks).toString()
      heard.push({ line, body: bodyOf(text, request.headers['content-type']), headers: request.headers })
      more.onHeard?.(heard.length)
      const turn = given.get(line) ?? 0
      given.set(line, turn + 1)
      const found = answers[line] ?? new Problem(404, 'api.route.not_found', { detail: line })
      const answer: unknown = Array.isArray(found) ? found[Math.min(turn, found.length - 1)] : found
      if (answer === 'hang up') return void request.socket.destroy()
      if (answer === 'silence') return
      const isProblem = answer instanceof Problem
      response.writeHead(isProblem ? answer.status : 200, {
        'content-type': isProblem ? 'application/problem+json' : 'application/json',
        ...(more.version === undefined ? {} : { 'x-concord-version': more.version }),
      })
      response.end(answer instanceof EventFrames ? answer.text : JSON.stringify(isProblem ? answer.body : answer))
    })
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const said = { out: '', err: '' }
  try {
    const code = await runProgram(args, {
      out: (text) => (said.out += text),
      err: (text) => (said.err += text),
      environment: {
        CONCORD_KEY: 'ck_test',
        CONCORD_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
        ...more.environment,
      },
      folder: more.folder ?? '/',
      isTty: more.columns !== undefined,
      columns: more.columns,
      now: () => new Date('2026-05-01T12:00:00.000Z'),
      zone: 'UTC',
      stdin: () => Readable.from(more.stdin === undefined ? [] : [Buffer.from(more.stdin)]),
      stop: more.stop ?? new AbortController().signal,
    })
    return { code, ...said, heard }
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

export function aCommandView(more: Partial<z.infer<typeof commandView>> = {}): z.infer<typeof commandView> {
  const status = more.status ?? 'queued'
  return {
    command_id: COMMAND_ID,
    command_type: 'refund',
    task_name: 'Refund Order',
    status,
    undo: null,
    requested_by: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163',
    requested_by_name: 'local:ana',
    ingress: 'user_request',
    payload: { order: '17' },
    result: null,
    error: null,
    error_class: null,
    cancellation_mode: 'graceful',
    cancellation_requested: false,
    attempt: 1,
    current_step: null,
    waiting_reason: null,
    labels: [],
    trace_id: 'trace_4bf92f3577b34da6a3ce929d0e0e4736',
    created_at: '2026-05-01T10:00:00.000Z',
    updated_at: '2026-05-01T10:00:01.000Z',
    completed_at: null,
    next: [],
    ...more,
  }
}

export function anApprovalView(more: Partial<ApprovalView> = {}): ApprovalView {
  return {
    not_counted: [],
    approved_for: [],
    approved_for_names: [],
    may_decide_for: null,
    counts_invited: false,
    approval_id: APPROVAL_ID,
    command_id: COMMAND_ID,
    domain_effect_id: null,
    approval_type: 'command_approval',
    counted_elsewhere: [],
    edited: null,
    status: 'pending',
    requested_by: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163',
    requested_by_name: 'local:ana',
    approver: 'role:finance',
    approver_name: null,
    approvers: [],
    approver_roles: [],
    approvals_required: 1,
    approved_by: [],
    approved_by_names: [],
    may_decide: true,
    decision_values: ['approved', 'rejected', 'request_changes'],
    meanings: { approved: 'Run it as shown.', rejected: 'Do not run it.' },
    reason_required: [],
    edits_allowed: true,
    payload_hash: '6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b',
    packet: {
      requested_action: { summary: 'Refund an order.', arguments: { amount: '80.00' }, effects: [] },
      requester: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163',
      why: 'It came back.',
      affected: ['order 17'],
      policy: 'cost',
      after_approval: 'Money is sent.',
      risk_level: 'medium',
      expiration: '2999-05-01T10:00:00.000Z',
      hidden_characters: [],
    },
    expires_at: '2999-05-01T10:00:00.000Z',
    created_at: '2026-05-01T10:00:00.000Z',
    decided_at: null,
    decided_by: null,
    decided_by_name: null,
    decision_reason: null,
    superseded_by: null,
    blocked_by: null,
    ...more,
  }
}
