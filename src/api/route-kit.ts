/** The parts every route file is made of: a router that explains what is wrong, bodies, answers, problems and pages. */
import { OpenAPIHono, type RouteConfig, z } from '@hono/zod-openapi'
import { PAGE_LIMIT_DEFAULT } from '#kernel/page-limit'
import type { Refusal } from '#kernel/refusal'
import { answerProblem, type ApiContext, type ApiEnv } from './request-context.ts'
import { explainIssues } from './validation.ts'

type Hooked = {
  readonly success: boolean
  readonly target: string
  readonly data: unknown
  readonly error?: z.ZodError
}

/** A router whose validation answers with problems. */
export function newRouter(): OpenAPIHono<ApiEnv> {
  return new OpenAPIHono<ApiEnv>({
    defaultHook: (result, c) => {
      const { success, target, data, error } = result as Hooked
      if (success) return undefined
      const invalid = explainIssues(error?.issues ?? [], data, schemaOf(c.get('access')?.config, target))
      return answerProblem(c, invalid.refusal, invalid.errors)
    },
  })
}

function schemaOf(config: RouteConfig | undefined, target: string): unknown {
  const body = config?.request?.body?.content['application/json']
  if (target === 'json') return body && 'schema' in body ? body.schema : undefined
  return target === 'query' ? config?.request?.query : config?.request?.params
}

/** Routes promise typed answers; a refusal is none of them, and `never` says that the handler ends here. */
export function refused(c: ApiContext, refusal: Refusal): never {
  return answerProblem(c, refusal) as never
}

export function jsonBody<S extends z.ZodType>(schema: S, description: string) {
  return { content: { 'application/json': { schema } }, description, required: true as const }
}

export function jsonAnswer<S extends z.ZodType>(schema: S, description: string) {
  return { content: { 'application/json': { schema } }, description }
}

const problemShape = z
  .object({
    type: z.string().meta({ example: 'urn:concord:problem:workspace_unknown' }),
    title: z.string().meta({ example: 'Not found' }),
    status: z.int().meta({ example: 404 }),
    detail: z.string().meta({ example: 'There is no such workspace.', description: 'What was wrong.' }),
    code: z.string().meta({ example: 'workspace_unknown', description: 'Stable; switch on this.' }),
    path: z.string().optional().meta({ example: 'payload.items[2].price', description: 'Where.' }),
    hint: z.string().meta({ example: 'GET /workspaces lists yours.', description: 'What to do next.' }),
    facts: z.record(z.string(), z.unknown()).optional().meta({ description: 'The same for machines.' }),
    errors: z
      .array(z.object({ code: z.string(), detail: z.string(), path: z.string().optional(), hint: z.string() }))
      .optional()
      .meta({ description: 'All findings, when there is more than one.' }),
    trace_id: z.string().meta({ example: 'trace_4bf92f3577b34da6a3ce929d0e0e4736' }),
    request_id: z.string().meta({ example: 'req_0b7c3d5e9f1a4c2d8e6f7a8b9c0d1e2f' }),
  })
  .meta({ id: 'Problem', description: 'Every answer that is not a success (RFC 9457).' })

const PROBLEMS = {
  400: 'The request makes no sense as it was sent.',
  401: 'The credential is missing or not valid.',
  403: 'The credential may not do this.',
  404: 'There is no such thing, or not for you.',
  408: 'The request did not arrive in time.',
  409: 'Not possible in the present state.',
  410: 'It was there, and lies in the archive now.',
  413: 'The body is too large.',
  415: 'The body is not JSON in UTF-8.',
  416: 'The part that was asked for is not in it.',
  422: 'A value is not allowed.',
  429: 'Too many requests; Retry-After says when.',
  503: 'The database does not answer; Retry-After says when to ask again.',
} as const
type ProblemStatus = keyof typeof PROBLEMS

const problem = (status: ProblemStatus) => ({
  description: PROBLEMS[status],
  content: { 'application/problem+json': { schema: problemShape } },
})

/** The problems that a route may answer with: those named, and those that every route behind a credential has. */
export function problems<const S extends ProblemStatus>(...statuses: readonly S[]) {
  const all = [...new Set<ProblemStatus>([...statuses, 401, 403, 429, 503])].sort((one, other) => one - other)
  return Object.fromEntries(all.map((status) => [status, problem(status)])) as Record<
    S | 401 | 403 | 429 | 503,
    ReturnType<typeof problem>
  >
}

/** What a body can do wrong before its fields are looked at. */
export const bodyProblems = [400, 408, 413, 415, 422] as const

/** The query of a route: its own fields, and the workspace, which every request may name there. */
export function queryOf<S extends z.ZodRawShape>(fields: S) {
  return z.strictObject({
    ...fields,
    workspace_id: z.string().optional().meta({ description: 'Workspace, where no header names it.', example: 'ws_…' }),
  })
}

export function limitOf(query: { readonly limit?: number | undefined }): number {
  return query.limit ?? PAGE_LIMIT_DEFAULT
}
