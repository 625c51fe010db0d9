/** Builds routes from one description: access, input, output and problems. Knows no domain. */
import { createRoute, OpenAPIHono, type RouteConfig, z } from '@hono/zod-openapi'
import { idField, keyField, pageFields } from '#contract'
import type { PlatformRole, Principal } from '#domains/identity'
import { PAGE_LIMIT_DEFAULT } from '#kernel/page-limit'
import { accept, type Decision } from '#kernel/refusal'
import type { CursorScope, PageCursors, Position } from './page-cursor.ts'
import { bodyProblems, problems, type ProblemStatus } from './problem.ts'
import {
  answerProblem,
  type ApiContext,
  type ApiEnv,
  isRaw,
  needs,
  needsNothing,
  principalOf,
  workspaceOf,
} from './guards.ts'
import { explainIssues } from './validation.ts'

type Shape = z.ZodRawShape
type Values<S extends Shape> = z.output<z.ZodObject<S>>
type Awaitable<T> = T | Promise<T>

/** The input of a handler; each part is read on access. */
export class Call<Deps, Q extends Shape = Shape, P extends Shape = Shape, B extends z.ZodType = z.ZodType> {
  readonly deps: Deps
  readonly c: ApiContext
  constructor(deps: Deps, c: ApiContext) {
    this.deps = deps
    this.c = c
  }
  get principal(): Principal {
    return principalOf(this.c)
  }
  get workspaceId(): string {
    return workspaceOf(this.c).id
  }
  /** Set while the caller is only remembered. A write that compares its version confirms it (`confirmed`); anything else needs `confirm`. */
  get remembered() {
    return this.c.get('remembered')
  }
  confirmed(): void {
    this.c.set('remembered', undefined)
  }
  get traceId(): string {
    return this.c.get('ids').traceId
  }
  get requestId(): string {
    return this.c.get('ids').requestId
  }
  /** Aborted when the caller disconnects. */
  get signal(): AbortSignal {
    return this.c.req.raw.signal
  }
  get query(): Values<Q> {
    return this.c.req.valid('query' as never)
  }
  get params(): Values<P> {
    return this.c.req.valid('param' as never)
  }
  get body(): z.output<B> {
    return this.c.req.valid('json' as never)
  }
  /** The key of a request without a body. */
  get headerKey(): string | undefined {
    return (this.c.get('sent') as { readonly idempotency_key?: string } | undefined)?.idempotency_key
  }
  /** The body before its fields were parsed. */
  get sent(): z.input<B> {
    return this.c.get('sent') as z.input<B>
  }
}

/** The description of an answer and its shape; an answer without a shape has no JSON body. */
type Answers = Readonly<Record<number, readonly [text: string, shape?: z.ZodType]>>
type Shown<A extends Answers> = {
  [S in keyof A]: A[S] extends readonly [string, infer V extends z.ZodType] ? z.input<V> : undefined
}[keyof A]

type Description<Deps, Q extends Shape, P extends Shape> = {
  readonly summary: string
  readonly description?: string
  /** Null opens the route to callers without a credential. */
  readonly role: PlatformRole | null
  /** Opens the route to agents; closed by default. */
  readonly agents?: true
  readonly query?: Q
  readonly params?: P
  /** In addition to the problems of every route, and those of a body. */
  readonly problems?: readonly ProblemStatus[]
  /** A further check after the role, before anything else. */
  readonly allow?: (call: Call<Deps, Q, P>) => Decision<unknown>
}

/** A body of lines: the first is the body without the list at this path, and each of the others is one item of the list. */
export type BodyLines = { readonly at: readonly [string] | readonly [string, string]; readonly max: number }

type Handled<V> = Awaitable<Decision<V | Known<V>> | Response>

type Route<Deps, Q extends Shape, P extends Shape, B extends z.ZodType, A extends Answers> = Description<Deps, Q, P> & {
  readonly body?: readonly [shape: B, text: string]
  readonly headers?: z.ZodObject
  /** The handler reads the body itself, as the bytes that were sent, and checks what the description says. */
  readonly raw?: true
  /** The body may be NDJSON too. */
  readonly lines?: BodyLines
  readonly answers: A
  /** Answers that are not JSON. */
  readonly content?: Readonly<Record<string, { readonly schema: z.ZodType }>>
  readonly handle: (call: Call<Deps, Q, P, B>) => Handled<Shown<A>>
}

type List<Deps, Q extends Shape, P extends Shape, V extends z.ZodType> = Description<Deps, Q, P> & {
  readonly page: readonly [shape: V, text: string]
  /** The tenant and every filter. Together with the operation they bind a cursor to its list. */
  readonly scope: (call: Call<Deps, Q, P>) => CursorScope
  readonly read: (
    call: Call<Deps, Q, P>,
    from: Position | undefined,
    limit: number,
  ) => Awaitable<Decision<Omit<z.input<V>, 'next_cursor'> & { readonly next: Position | null | undefined }>>
}

/** One route: its OpenAPI description and its handler. `name` is the operation id. */
type Operation<in Deps> = {
  readonly config: Omit<RouteConfig, 'operationId'>
  readonly handle: (deps: Deps, c: ApiContext, name: string, cursors: PageCursors) => Promise<Response>
}

/** An existing resource, answered with 200 where a new one is 201 or 202. */
export class Known<V> {
  readonly view: V
  constructor(view: V) {
    this.view = view
  }
}

export function resource<Deps>(tag: string, where: 'workspace' | 'org' = 'workspace') {
  const route =
    (method: 'get' | 'post' | 'put' | 'patch' | 'delete') =>
    <const A extends Answers, Q extends Shape = {}, P extends Shape = {}, B extends z.ZodType = z.ZodUndefined>(
      path: string,
      given: Route<Deps, Q, P, B, A>,
    ): Operation<Deps> => {
      const status = Math.max(...Object.keys(given.answers).map(Number))
      return {
        config: configOf(tag, where, method, path, given),
        async handle(deps, c) {
          const call = new Call<Deps, Q, P, B>(deps, c)
          const allowed = given.allow?.(call)
          if (allowed && !allowed.ok) return answerProblem(c, allowed)
          const done = await given.handle(call)
          if (done instanceof Response) return done
          if (!done.ok) return answerProblem(c, done)
          const { value } = done
          if (value instanceof Known) return c.json(value.view as object, 200)
          return value === undefined ? c.body(null, status as 204) : c.json(value as object, status as 200)
        },
      }
    }
  const get = route('get')
  return {
    get,
    post: route('post'),
    put: route('put'),
    patch: route('patch'),
    delete: route('delete'),
    /** A list in pages. Opens the cursor before the read and seals the next one. A bad cursor is a 400. */
    list<V extends z.ZodType, Q extends Shape = {}, P extends Shape = {}>(
      path: string,
      given: List<Deps, Q, P, V>,
    ): Operation<Deps> {
      const { page, scope, read, ...rest } = given
      const [shape, text] = page
      const described = {
        ...rest,
        problems: [400 as const, ...(given.problems ?? [])],
        query: { ...pageFields, ...given.query },
        answers: { 200: [text, shape] } as const,
      }
      return {
        config: configOf(tag, where, 'get', path, described),
        async handle(deps, c, name, cursors) {
          const call = new Call<Deps, Q, P>(deps, c)
          const allowed = given.allow?.(call)
          if (allowed && !allowed.ok) return answerProblem(c, allowed)
          const { cursor, limit = PAGE_LIMIT_DEFAULT } = call.query as { cursor?: string; limit?: number }
          const within = [name, ...scope(call)]
          const from = cursor === undefined ? accept(undefined) : cursors.open(within, cursor)
          if (!from.ok) return answerProblem(c, from)
          const done = await read(call, from.value, limit)
          if (!done.ok) return answerProblem(c, done)
          const { next, ...shown } = done.value as { next?: Position | null }
          return c.json({ ...shown, next_cursor: next ? cursors.seal(within, next) : null }, 200)
        },
      }
    },
  }
}

type Described = Omit<Description<never, Shape, Shape>, 'allow'> & {
  readonly body?: readonly [shape: z.ZodType, text: string]
  readonly headers?: z.ZodObject
  readonly raw?: true
  readonly lines?: BodyLines
  readonly answers: Answers
  readonly content?: Readonly<Record<string, { readonly schema: z.ZodType }>>
}

function configOf(
  tag: string,
  where: 'workspace' | 'org',
  method: RouteConfig['method'],
  path: string,
  {
    summary,
    description,
    role,
    agents,
    query,
    params,
    headers,
    raw,
    lines,
    body,
    answers,
    content,
    problems: own = [],
  }: Described,
): Operation<never>['config'] {
  // An open route without a body has no problems.
  const isPlain = role === null && !body
  const key = keyOf(body?.[0])
  const sent = headers ?? (key && keyHeaderOf(key, 'The same as the field `idempotency_key` of the body.'))
  return {
    method,
    path,
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [tag],
    ...(role === null ? needsNothing() : needs(role, where, agents)),
    ...(raw ? { 'x-raw-body': true } : {}),
    ...(lines ? { 'x-lines': lines } : {}),
    ...(isPlain
      ? {}
      : {
          request: {
            ...(sent ? { headers: sent } : {}),
            ...(raw ? {} : { query: queryOf(query ?? {}) }),
            ...(params && { params: z.object(params) }),
            ...(body && {
              body: {
                content: { 'application/json': { schema: body[0] }, ...(lines && linesContent(lines)) },
                description: body[1],
                required: true,
              },
            }),
          },
        }),
    responses: {
      ...Object.fromEntries(
        Object.entries(answers).map(([status, [text, shape]]) => [
          status,
          {
            ...(shape ? { content: { 'application/json': { schema: shape } } } : content && { content }),
            description: text,
          },
        ]),
      ),
      // An unknown workspace is a 404, whatever the route does there.
      ...(isPlain
        ? {}
        : problems(
            ...own,
            ...(where === 'workspace' ? ([404] as const) : []),
            ...(body ? bodyProblems : ([400, 422] as const)),
          )),
    },
  }
}

const linesContent = ({ at, max }: BodyLines) => ({
  [LINES_TYPE]: {
    schema: z.string().meta({
      description: `For long lists. The first line is the body without \`${at.join('.')}\`; then one item a line, at most ${max}.`,
    }),
  },
})

export const LINES_TYPE = 'application/x-ndjson'

export const KEY_HEADER = 'Idempotency-Key'

const keyHeaderOf = (field: z.ZodType, description: string) => z.object({ [KEY_HEADER]: field.meta({ description }) })

/** For a route whose body has no such field. */
export const keyHeader = keyHeaderOf(
  keyField('order-4711').optional(),
  'The same request with the same key is done once.',
)

/** A route takes the header if its body has an idempotency key, or if it says so. */
export function takesKeyHeader(config: RouteConfig | undefined): boolean {
  return config?.request?.headers === keyHeader || keyOf(bodySchemaOf(config)) !== undefined
}

function keyOf(schema: unknown): z.ZodType | undefined {
  return schema instanceof z.ZodObject ? (schema.shape['idempotency_key'] as z.ZodType | undefined) : undefined
}

/** The query of a route: its own fields, and `workspace_id`, which every request may send. */
function queryOf(fields: Shape) {
  return z.strictObject({
    ...fields,
    workspace_id: idField('workspace').optional().meta({ description: 'The workspace, if no header names it.' }),
  })
}

export type Routes<in Deps> = {
  readonly configs: readonly RouteConfig[]
  mount(deps: Deps, cursors: PageCursors): OpenAPIHono<ApiEnv>
}

/** The routes of a file by operation id, in matching order. */
export function routes<Deps>(operations: Readonly<Record<string, Operation<Deps>>>): Routes<Deps> {
  const all = Object.entries(operations).map(([operationId, { config, handle }]) => {
    const { method, path, ...rest } = config
    return { operationId, handle, config: { method, path, operationId, ...rest } }
  })
  return {
    configs: all.map(({ config }) => config),
    mount(deps, cursors) {
      const router = newRouter()
      for (const { operationId, config, handle } of all) {
        const answer = (c: ApiContext) => handle(deps, c, operationId, cursors)
        const route = createRoute(config)
        // The validators of the description run first, so the handler needs no types from it.
        if (!isRaw(config)) router.openapi(route, answer as never)
        else {
          router.openAPIRegistry.registerPath(route)
          router.on(config.method, route.getRoutingPath(), answer)
        }
      }
      return router
    },
  }
}

type Hooked = {
  readonly success: boolean
  readonly target: string
  readonly data: unknown
  readonly error?: z.ZodError
}

/** Creates a router that answers validation errors with problems. */
function newRouter(): OpenAPIHono<ApiEnv> {
  return new OpenAPIHono<ApiEnv>({
    defaultHook: (result, c) => {
      const { success, target, data, error } = result as Hooked
      if (success) return undefined
      const invalid = explainIssues(error?.issues ?? [], data, schemaOf(c.get('access')?.config, target))
      return answerProblem(c, invalid.refusal, invalid.errors)
    },
  })
}

export function linesOf(config: RouteConfig | undefined): BodyLines | undefined {
  return (config as { readonly 'x-lines'?: BodyLines } | undefined)?.['x-lines']
}

function bodySchemaOf(config: RouteConfig | undefined): unknown {
  const body = config?.request?.body?.content['application/json']
  return body && 'schema' in body ? body.schema : undefined
}

function schemaOf(config: RouteConfig | undefined, target: string): unknown {
  if (target === 'json') return bodySchemaOf(config)
  return target === 'query' ? config?.request?.query : config?.request?.params
}

/** Maps the value of a decision to its view. */
export async function shown<T, V>(
  decision: Awaitable<Decision<T>>,
  view: (value: T) => Awaitable<V>,
): Promise<Decision<V>> {
  const done = await decision
  return done.ok ? accept(await view(done.value)) : done
}
