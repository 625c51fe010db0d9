/** The few questions to GitHub that the connector asks, each through the guarded dial, each answer checked before it is believed. */
import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Clock } from '#kernel/clock'
import { type CallContext, ConnectorFailure } from '../connector.ts'
import { decideUrl, httpReachOf } from '../http/reach.ts'
import { sendRequest, systemResolve } from '../http/send-request.ts'
import { failureOfGithub } from './github-failure.ts'
import { type GithubConnectorInput, MARKER } from './github-settings.ts'

const PAGE_ITEMS = 50
/** So far back a look-up goes; further than that is a question for a person, not a no. */
const PAGES_MAX = 10
/** Texts of issues have up to 64 KiB each. */
const PAGE_BYTES_MAX = 4_194_304

export const saidIssue = z.object({
  number: z.int(),
  title: z.string(),
  state: z.enum(['open', 'closed']),
  html_url: z.string(),
  body: z.string().nullable().optional(),
})
export const saidComment = z.object({ id: z.int(), html_url: z.string(), body: z.string().nullable().optional() })

/** Unlike the key it tells nothing about what was asked for. */
export function markerOf(key: string): string {
  return `${MARKER}${createHash('sha256').update(key).digest('hex').slice(0, 40)} -->`
}

export type GithubApi = {
  ask<T>(method: 'GET' | 'POST' | 'PATCH', path: string, shape: z.ZodType<T>, body?: object): Promise<T>
  /** The first item with the marker of the key, newest page first where GitHub can; null only when all were seen. */
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
    const url = decideUrl(`${base.href.replace(/\/$/, '')}${path}`, reach)
    if (!url.ok) throw new ConnectorFailure('permission_denied', url.reason, 'no')
    const text = body === undefined ? undefined : JSON.stringify(body)
    const answer = await sendRequest({
      url: url.value,
      method,
      body: text,
      headers: {
        accept: 'application/vnd.github+json',
        'x-github-api-version': '2022-11-28',
        'user-agent': 'concord',
        authorization: `Bearer ${await context.secret(input.secret_ref)}`,
        ...(text === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': String(Buffer.byteLength(text)) }),
      },
      signal: context.signal,
      bytesMax: PAGE_BYTES_MAX,
      reach,
      resolve: input.resolve ?? systemResolve,
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
      // The address of the next page is GitHub's to say, but not ours to follow: only whether there is one.
      if (!String(answer.headers['link'] ?? '').includes('rel="next"')) return null
    }
    throw new ConnectorFailure(
      'validation_error',
      `not among the last ${PAGES_MAX * PAGE_ITEMS}; a person must look`,
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
    throw new ConnectorFailure('transient_connector_error', 'the answer is not one of GitHub', 'unknown')
  }
}
