/** The declaration of the GitHub connector, and the parts of its contract. */
import { z } from 'zod'
import type { defineConnector } from '../define-connector.ts'
import type { Reach } from '../http/reach.ts'
import type { Resolve } from '../http/send-request.ts'

type ConnectorInput = Parameters<typeof defineConnector>[0]

export type GithubConnectorInput = Partial<
  Pick<
    ConnectorInput,
    'name' | 'description' | 'connector_id' | 'rate_limits' | 'breaker' | 'risk_level' | 'data_class_max'
  >
> & {
  /** A reference to a token that may read and write issues of these repositories. */
  readonly secret_ref: string
  /** `owner/name`; no other is touched, whatever the token may do. */
  readonly repositories: readonly string[]
  /** `https://api.github.com` unless said; a GitHub Enterprise server has `https://host/api/v3`. */
  readonly base_url?: string
  readonly reach?: Partial<Reach>
  readonly ca?: string
  readonly resolve?: Resolve
  readonly timeout_ms?: number
  readonly approval_required?: boolean
}

export const REPOSITORY = /^[A-Za-z0-9][A-Za-z0-9-]{0,38}\/(?!\.{1,2}$)[\w.-]{1,100}$/

/** How an issue or a comment says for which deed it was made: a comment of HTML that nobody sees. */
export const MARKER = '<!-- concord:'

export const number = z.int().min(1).max(2_147_483_647)
export const title = z.string().trim().min(1).max(256)
export const body = z
  .string()
  .max(60_000)
  .refine((text) => !text.includes(MARKER), 'it holds a marker of ours')

export const issue = z.object({
  number,
  title: z.string(),
  state: z.enum(['open', 'closed']),
  closed: z.boolean(),
  html_url: z.string(),
})
export const comment = z.object({ comment_id: z.int(), html_url: z.string() })
