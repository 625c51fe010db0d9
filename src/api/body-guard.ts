/** Accepts only bodies that are guarded JSON objects in UTF-8; everything else is refused before the route runs. */
import type { MiddlewareHandler } from 'hono'
import { parseGuardedObject } from '#kernel/json-guard'
import { formatPath, type JsonObject } from '#kernel/json-value'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { type BodyLimits, readBody } from './read-body.ts'
import { answerProblem, type ApiContext, type ApiEnv } from './request-context.ts'

const JSON_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset="?utf-8"?[ \t]*)?$/i

function wrongType(): Refusal {
  return refuse('media_type', 'The body must be application/json in UTF-8.', {
    path: 'Content-Type',
    hint: 'Send Content-Type: application/json.',
    facts: { allowed: ['application/json'] },
  })
}

function missing(): Refusal {
  return refuse('body_missing', 'The body is empty.', { hint: 'Send a JSON object.' })
}

// A byte order mark is kept, so that the parser refuses it like any other stray character.
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeText(bytes: Uint8Array): Decision<string> {
  try {
    return accept(utf8.decode(bytes))
  } catch {
    return refuse('invalid_unicode', 'The body is not valid UTF-8.')
  }
}

/** Reads the body as an object; undefined when it is empty and not required. */
async function readJsonBody(c: ApiContext, limits: BodyLimits): Promise<Decision<JsonObject | undefined>> {
  const isNeeded = c.get('access')?.body === 'required'
  const type = c.req.header('content-type')
  if (type !== undefined && !JSON_TYPE.test(type)) return wrongType()
  const bytes = await readBody(c.req.raw, limits)
  if (!bytes.ok) return bytes
  if (bytes.value.length === 0) return isNeeded ? missing() : accept(undefined)
  if (type === undefined) return wrongType()
  const text = decodeText(bytes.value)
  if (!text.ok) return text
  const parsed = parseGuardedObject(text.value)
  if (!parsed.ok || isNeeded) return parsed
  const [field] = Object.keys(parsed.value)
  if (field === undefined) return parsed
  return refuse('unknown_field', 'This route takes no fields.', {
    path: formatPath([field]),
    hint: 'Leave the body out.',
  })
}

export function bodyGuard(limits: BodyLimits): MiddlewareHandler<ApiEnv> {
  return async (c, next) => {
    const access = c.get('access')
    if (!access || access.body === 'raw' || c.req.method === 'GET' || c.req.method === 'HEAD') return next()
    const body = await readJsonBody(c, limits)
    if (!body.ok) return answerProblem(c, body)
    // Validators receive this checked value instead of parsing the body again.
    const value = body.value
    if (value) c.req.json = <T>() => Promise.resolve(value as T)
    await next()
  }
}
