import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type RefusalCode, type RefusalKind, refuse } from '#kernel/refusal'
import { refusals } from '#refusals'
import { judgeFault } from './fault.ts'
import { problemResponse, statusOf, toProblem } from './problem.ts'

const ids = { traceId: 'trace_1', requestId: 'req_1' }

/** Written out, because callers rely on it. */
const statuses: Record<RefusalKind, number> = {
  malformed: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method: 405,
  timeout: 408,
  conflict: 409,
  gone: 410,
  too_large: 413,
  unsupported: 415,
  invalid: 422,
  rate: 429,
  range: 416,
  headers_too_large: 431,
  unavailable: 503,
  usage: 500,
  configuration: 500,
  internal: 500,
}

test('every refusal code has the status of its kind', () => {
  for (const [code, [kind]] of Object.entries(refusals)) {
    assert.equal(statusOf({ code: code as RefusalCode }), statuses[kind], code)
  }
})

test('a problem has a detail, a path, a hint and both ids', async () => {
  const refusal = refuse('limit_range', 'The limit is wrong.', {
    path: 'limit',
    hint: 'Use 1.',
    facts: { maximum: 500 },
  })
  const response = problemResponse(refusal, ids)
  assert.equal(response.headers.get('content-type'), 'application/problem+json')
  assert.deepEqual(await response.json(), {
    type: 'urn:concord:problem:limit_range',
    title: 'Invalid value',
    status: 422,
    detail: 'The limit is wrong.',
    code: 'limit_range',
    path: 'limit',
    hint: 'Use 1.',
    facts: { maximum: 500 },
    trace_id: 'trace_1',
    request_id: 'req_1',
  })
})

test('a problem without a hint gets the hint of its code', () => {
  for (const [code, [, next]] of Object.entries(refusals)) {
    const { hint } = toProblem(refuse(code as RefusalCode, 'No.'), ids)
    assert.equal(hint, next, code)
  }
})

test('a temporary problem has Retry-After, and a missing credential the scheme', () => {
  const after = (refusal: ReturnType<typeof refuse>) => problemResponse(refusal, ids).headers.get('retry-after')
  assert.equal(after(refuse('api.rate.exceeded', 'x', { facts: { retry_after_s: 7 } })), '7')
  assert.equal(after(refuse('database_unavailable', 'x')), '2')
  assert.equal(after(refuse('limit_range', 'x')), null)
  assert.match(problemResponse(refuse('unauthenticated', 'x'), ids).headers.get('www-authenticate') ?? '', /^Bearer/)
  assert.equal(problemResponse(refuse('body_too_large', 'x'), ids).headers.get('connection'), 'close')
})

const pgError = (code: string) => Object.assign(new Error(`secret detail of ${code}`), { code, severity: 'ERROR' })

/** The error code of the driver or of Node, then the answer to the caller. */
const faults = [
  ['53100', 'storage_full', 'not_done'],
  ['25006', 'database_read_only', 'not_done'],
  ['53300', 'database_busy', 'not_done'],
  ['40001', 'database_conflict', 'not_done'],
  ['40P01', 'database_conflict', 'not_done'],
  ['57014', 'database_timeout', 'not_done'],
  ['57P01', 'database_unavailable', 'unknown'],
  ['57P03', 'database_unavailable', 'unknown'],
  ['08006', 'database_unavailable', 'unknown'],
  ['ECONNREFUSED', 'database_unavailable', 'unknown'],
  ['ECONNRESET', 'database_unavailable', 'unknown'],
  ['unknown_outcome', 'database_unavailable', 'unknown'],
] as const

for (const [code, told, outcome] of faults) {
  test(`a database fault ${code} is 503 ${told}, outcome ${outcome}, with Retry-After`, async () => {
    // As it comes, and inside the wrapper that a query builder puts around it.
    for (const error of [pgError(code), new Error('Failed query', { cause: pgError(code) })]) {
      const { refusal, bug } = judgeFault(error)
      assert.equal(bug, false)
      assert.equal(refusal.code, told)
      assert.equal(refusal.facts?.['outcome'], outcome)
      const response = problemResponse(refusal, ids)
      assert.equal(response.status, 503)
      assert.ok(Number(response.headers.get('retry-after')) >= 1)
      assert.equal((await response.text()).includes('secret'), false)
    }
  })
}

test('faults of the driver without a code are recognised by their message', () => {
  for (const text of [
    'timeout exceeded when trying to connect',
    'Connection terminated unexpectedly',
    'Connection terminated due to connection timeout',
  ]) {
    assert.equal(judgeFault(new Error(text)).refusal.code, 'database_unavailable')
  }
  const late = judgeFault(new Error('Query read timeout')).refusal
  assert.equal(late.code, 'database_timeout')
  assert.equal(late.facts?.['outcome'], 'unknown')
})

test('[SEC-06] everything else is an internal error: 500 with ids, and nothing of the exception', async () => {
  const cycle = new Error('secret')
  cycle.cause = cycle
  for (const thrown of [
    new Error('secret at /srv/app.ts:1'),
    pgError('42P01'),
    pgError('23505'),
    'secret',
    null,
    undefined,
    { code: '53100' },
    cycle,
  ]) {
    const { refusal, bug } = judgeFault(thrown)
    assert.equal(bug, true)
    const text = await problemResponse(refusal, ids).text()
    assert.equal(text.includes('secret'), false)
    assert.equal(text.includes('.ts'), false)
    assert.match(text, /"code":"internal_error".*"trace_id":"trace_1","request_id":"req_1"/)
  }
})
