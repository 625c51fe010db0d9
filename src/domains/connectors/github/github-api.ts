/** The requests to GitHub, each to a checked address, each answer checked against its schema. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Clock } from '#kernel/clock'
import { type CallContext, ConnectorFailure, type DeclaredInput } from '../connector.ts'
import { httpReachOf } from '../http/reach.ts'
import {
  allowedUrl,
  failureOfStatus,
  type HttpAnswer,
  jsonHeaders,
  type Network,
  sendRequest,
} from '../http/request.ts'

export type GithubConnectorInput = DeclaredInput &
  Network & {
    /** A reference to a token that may read and write issues of these repositories. */
    readonly secret_ref: string
    /** `owner/name`; the connector uses no other repository, whatever the token allows. */
    readonly repositories: readonly string[]
    /** `https://api.github.com` by default; a GitHub Enterprise server has `https://host/api/v3`. */
    readonly base_url?: string
    readonly timeout_ms?: number
    readonly approval_required?: boolean
  }

export const REPOSITORY = /^[A-Za-z0-9][A-Za-z0-9-]{0,38}\/(?!\.{1,2}$)[\w.-]{1,100}$/

/** Marks an issue or comment with its effect, in an HTML comment. */
const MARKER = '<!-- concord:'

export const number = z.int().min(1).max(2_147_483_647)
export const title = z.string().trim().min(1).max(256)
export const body = z
  .string()
  .max(60_000)
  .refine((text) => !text.includes(MARKER), 'It contains a marker of Concord.')

export const issue = z.object({
  number,
  title: z.string(),
  state: z.enum(['open', 'closed']),
  closed: z.boolean(),
  html_url: z.string(),
})
export const comment = z.object({ comment_id: z.int(), html_url: z.string() })

/** GitHub requires at least a minute after a secondary limit without a time. */
const SECONDARY_MS = 60_000

const refusal = z.object({
  message: z.string().optional(),
  errors: z.array(z.object({ field: z.string().optional(), code: z.string().optional() })).optional(),
})

function failureOfGithub(answer: HttpAnswer, nowMs: number): ConnectorFailure {
  const { status } = answer
  const said = readRefusal(answer.body)
  const waitMs = status === 403 || status === 429 ? limitOf(answer, said.message ?? '', nowMs) : undefined
  if (waitMs !== undefined)
    return new ConnectorFailure('rate_limited', 'GitHub is limiting the request rate.', 'no', waitMs)
  if (status === 404 || status === 410)
    return new ConnectorFailure(
      'validation_error',
      `GitHub does not have it, or the token has no access to it (${status}).`,
      'no',
    )
  if (status === 422) {
    // Field names and codes are safe to show; the sentences of GitHub may repeat the input.
    const fields = (said.errors ?? []).slice(0, 5).map(({ field = '', code = '' }) => `${plain(field)} ${plain(code)}`)
    return new ConnectorFailure(
      'validation_error',
      `GitHub refused the input: ${fields.join(', ') || 'it gave no reason'}.`,
      'no',
    )
  }
  if (status >= 300 && status < 400)
    return new ConnectorFailure('validation_error', 'The repository has moved; declare its new name.', 'no')
  return failureOfStatus(answer)
}

/** Returns how long to wait, or undefined if it is not a limit. GitHub marks a limit in one of three ways. */
function limitOf({ status, headers }: HttpAnswer, message: string, nowMs: number): number | undefined {
  const after = seconds(headers['retry-after'])
  if (after !== undefined) return after * 1_000
  const reset = seconds(headers['x-ratelimit-reset'])
  if (headers['x-ratelimit-remaining'] === '0')
    return reset === undefined ? SECONDARY_MS : Math.max(1_000, reset * 1_000 - nowMs)
  return status === 429 || /secondary rate limit/i.test(message) ? SECONDARY_MS : undefined
}

function seconds(header: string | readonly string[] | undefined): number | undefined {
  return typeof header === 'string' && /^\d{1,12}$/.test(header) ? Number(header) : undefined
}

function readRefusal(body: Buffer): z.infer<typeof refusal> {
  try {
    return refusal.parse(JSON.parse(body.toString('utf8')))
  } catch {
    return {}
  }
}

function plain(word: string): string {
  return /^[a-z_]{1,40}$/i.test(word) ? word : '?'
}

const PAGE_ITEMS = 50
/** How far back a look-up goes. Beyond that a person must check; it does not prove that nothing happened. */
const PAGES_MAX = 10
/** An issue has up to 64 KiB of text. */
const PAGE_BYTES_MAX = 4_194_304

export const saidIssue = z.object({
  number: z.int(),
  title: z.string(),
  state: z.enum(['open', 'closed']),
  html_url: z.string(),
  body: z.string().nullable().optional(),
})
export const saidComment = z.object({ id: z.int(), html_url: z.string(), body: z.string().nullable().optional() })

/** A hash: unlike the key, it reveals nothing about the request. */
export function markerOf(key: string): string {
  return `${MARKER}${createHash('sha256').update(key).digest('hex').slice(0, 40)} -->`
}

export type GithubApi = {
  ask<T>(method: 'GET' | 'POST' | 'PATCH', path: string, shape: z.ZodType<T>, body?: object): Promise<T>
  /** Returns the first item with the marker of the key, or null after all were checked. GitHub lists the newest first where it can. */
  find<T extends { readonly body?: string | null | undefined }>(
    path: string,
    shape: z.ZodType<T>,
    key: string,
  ): Promise<T | null>
}

export function openGithubApi(input: GithubConnectorInput, context: CallContext, now: Clock): GithubApi {
  const base = new URL(input.base_url ?? 'https://api.github.com')
  const reach = httpReachOf(base, input.reach)

  async function send(method: string, path: string, body?: object) {
    const url = allowedUrl(`${base.href.replace(/\/$/, '')}${path}`, reach)
    const text = body === undefined ? undefined : JSON.stringify(body)
    const answer = await sendRequest({
      url,
      method,
      body: text,
      headers: {
        accept: 'application/vnd.github+json',
        'x-github-api-version': '2022-11-28',
        'user-agent': 'concord',
        authorization: `Bearer ${await context.secret(input.secret_ref)}`,
        ...jsonHeaders(text),
      },
      signal: context.signal,
      bytesMax: PAGE_BYTES_MAX,
      reach,
      resolve: input.resolve,
      ca: input.ca,
    })
    if (answer.status < 200 || answer.status >= 300) throw failureOfGithub(answer, now().getTime())
    return answer
  }

  async function find<T extends { readonly body?: string | null | undefined }>(
    path: string,
    shape: z.ZodType<T>,
    key: string,
  ): Promise<T | null> {
    const marker = markerOf(key)
    for (let page = 1; page <= PAGES_MAX; page += 1) {
      const answer = await send('GET', `${path}${path.includes('?') ? '&' : '?'}per_page=${PAGE_ITEMS}&page=${page}`)
      const found = read(answer.body, z.array(shape)).find(({ body }) => body?.includes(marker))
      if (found) return found
      // The URL of the next page is not followed; the header only shows whether there is one.
      if (!String(answer.headers['link'] ?? '').includes('rel="next"')) return null
    }
    throw new ConnectorFailure(
      'validation_error',
      `It is not among the last ${PAGES_MAX * PAGE_ITEMS} items; a person must check.`,
      'unknown',
    )
  }

  return {
    async ask(method, path, shape, body) {
      return read((await send(method, path, body)).body, shape)
    },
    find,
  }
}

function read<T>(body: Buffer, shape: z.ZodType<T>): T {
  try {
    return shape.parse(JSON.parse(body.toString('utf8')))
  } catch {
    throw new ConnectorFailure('transient_connector_error', 'The answer does not match the API of GitHub.', 'unknown')
  }
}
