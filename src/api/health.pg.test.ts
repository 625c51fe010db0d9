import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { openDb } from '#store'
import { call, openTestApi, type TestApi } from '#test/api'
import { until } from '#test/until'

type Health = {
  readonly status: string
  readonly version: string
  readonly database: { readonly ok: boolean; readonly latency_ms: number | null; readonly writable: boolean | null }
  readonly schema: { readonly ok: boolean; readonly expected: unknown; readonly actual: unknown }
  readonly runtime: { readonly ok: boolean; readonly name: string | null; readonly node: string }
}

describe('health', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi()
  })
  after(() => api.close())

  async function health(
    app: Parameters<typeof call>[0],
  ): Promise<{ code: number; retryAfter: string | null; health: Health }> {
    const response = await call(app, '/health')
    return {
      code: response.status,
      retryAfter: response.headers.get('retry-after'),
      health: (await response.json()) as Health,
    }
  }

  test('a healthy server answers without a credential', async () => {
    const answer = await health(api.app)
    assert.equal(answer.code, 200)
    assert.equal(answer.health.status, 'ok')
    assert.equal(answer.health.version, '0.0.0-test')
    assert.ok(answer.health.database.ok && Number(answer.health.database.latency_ms) >= 0)
    assert.equal(answer.health.runtime.node, process.version)
  })

  test('a database that is down is 503, and other routes say 503 too', async (t) => {
    const db = openDb({ url: 'postgres://nobody@127.0.0.1:1/nothing' })
    t.after(() => db.close())
    const down = api.with({ db, schemaVersions: () => db.query('select 1').then(() => ({ expected: 1, actual: 1 })) })
    const answer = await health(down)
    assert.equal(answer.code, 503)
    assert.equal(answer.retryAfter, '2')
    assert.deepEqual(answer.health.database, { ok: false, latency_ms: null, writable: null })
    assert.equal(answer.health.status, 'down')
    const other = await call(down, '/workspaces', { key: api.ours.people.admin.key })
    assert.equal(other.status, 503)
    assert.equal(((await other.json()) as { code: string }).code, 'database_unavailable')
  })

  test('a database that hangs does not delay the answer, and concurrent probes query it once', async () => {
    let asked = 0
    const hanging = { ...api.deps.db, query: () => (asked++, new Promise<never>(() => {})) }
    const app = api.with({ db: hanging as typeof api.deps.db, limits: { healthTimeoutMs: 20 } })
    const answers = await Promise.all(Array.from({ length: 50 }, () => health(app)))
    assert.ok(answers.every(({ code, health: { status } }) => code === 503 && status === 'down'))
    assert.equal(asked, 1)
    await health(app)
    assert.equal(asked, 2)
  })

  test('a schema of another version is down', async () => {
    const old = await health(api.with({ schemaVersions: () => Promise.resolve({ expected: 12, actual: 11 }) }))
    assert.equal(old.code, 503)
    assert.deepEqual(old.health.schema, { ok: false, expected: 12, actual: 11 })
    const broken = await health(api.with({ schemaVersions: () => Promise.reject(new Error('x')) }))
    assert.equal(broken.code, 503)
    assert.deepEqual(broken.health.schema, { ok: false, expected: null, actual: null })
  })

  test('an unhealthy runtime degrades the server', async () => {
    const parts = { isEngineReachable: false, workers: 0, waitingMs: 90_000 }
    const runtimeStatus = () => Promise.resolve({ name: 'dbos', ok: false, ...parts })
    const answer = await health(api.with({ runtimeStatus }))
    assert.equal(answer.code, 200)
    assert.equal(answer.health.status, 'degraded')
    assert.deepEqual(answer.health.runtime, {
      ok: false,
      name: 'dbos',
      engine_reachable: false,
      workers: 0,
      waiting_ms: 90_000,
      node: process.version,
    })
  })

  test('[L7] a database that takes no writes degrades the server, until it takes them again', async () => {
    const { db } = api.deps
    let fault: object | undefined = { code: '53100', severity: 'ERROR' }
    const full: typeof db = {
      ...db,
      transaction: (...args: Parameters<typeof db.transaction>) =>
        fault ? Promise.reject(Object.assign(new Error('no space left on device'), fault)) : db.transaction(...args),
    } as typeof db
    const app = api.with({ db: full })
    const degraded = await health(app)
    assert.deepEqual([degraded.code, degraded.health.status], [200, 'degraded'])
    assert.deepEqual([degraded.health.database.ok, degraded.health.database.writable], [true, false])
    fault = undefined
    assert.equal((await health(app)).health.status, 'ok')
    const readOnly = await health(
      api.with({
        db: { ...db, transaction: (work) => db.transaction(work, 'begin read only') },
      }),
    )
    assert.deepEqual([readOnly.health.status, readOnly.health.database.writable], ['degraded', false])
  })

  test('[L7] a database that is slow to write is not called full, and is probed once at a time', async () => {
    const { db } = api.deps
    let probes = 0
    const held = Promise.withResolvers<void>()
    const slow = {
      ...db,
      transaction: async (...args: Parameters<typeof db.transaction>) => {
        probes += 1
        await held.promise
        return db.transaction(...args)
      },
    } as typeof db
    const app = api.with({ db: slow, limits: { healthTimeoutMs: 20 } })
    const isWritable = async () => (await health(app)).health.database.writable
    assert.deepEqual([await isWritable(), await isWritable(), probes], [null, null, 1])
    held.resolve()
    await until(async () => (await isWritable()) === true, 'the late answer counts')
  })

  test('[L7] only an answer of the database tells that it takes no writes', async () => {
    const { db } = api.deps
    const failing = (fault: Error) =>
      health(api.with({ db: { ...db, transaction: () => Promise.reject(fault) } as typeof db }))
    const coded = (code: string) => Object.assign(new Error('x'), { code })
    const noConnection = new Error('timeout exceeded when trying to connect')
    for (const [error, writable] of [
      [coded('53100'), false],
      [coded('25006'), false],
      [coded('58030'), false],
      [coded('57014'), null],
      [coded('53300'), null],
      [coded('40001'), null],
      [coded('ECONNRESET'), null],
      [noConnection, null],
      [new Error('Query read timeout'), null],
    ] as const) {
      const { health: seen } = await failing(error)
      assert.deepEqual(
        [seen.status, seen.database.ok, seen.database.writable],
        ['degraded', true, writable],
        String(error),
      )
    }
  })

  test('the landing, the reference and the description are open and load nothing from other hosts', async () => {
    const landing = (await (await call(api.app, '/')).json()) as { links: Record<string, string> }
    for (const link of ['reference', 'openapi', 'health']) {
      assert.equal((await call(api.app, landing.links[link] ?? '')).status, 200, link)
    }
    const browser = await call(api.app, '/', { headers: { accept: 'text/html,application/xhtml+xml' } })
    assert.equal(browser.status, 302)
    assert.equal(browser.headers.get('location'), '/reference')
    const page = await call(api.app, '/reference')
    assert.match(page.headers.get('content-type') ?? '', /^text\/html/)
    const html = await page.text()
    assert.equal(/<link|<img|@import|url\(|<script[^>]/i.test(html), false)
    // One script, which hides what was not looked for; like the style it is allowed by its hash alone.
    const scripts = [...html.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, text = '']) => text)
    assert.equal(scripts.length, 1)
    assert.equal(/fetch|XMLHttp|innerHTML|import|eval|Function|cookie|Storage/.test(scripts[0] ?? ''), false)
    const hash = createHash('sha256')
      .update(scripts[0] ?? '')
      .digest('base64')
    assert.ok(page.headers.get('content-security-policy')?.includes(`script-src 'sha256-${hash}';`))
    const elsewhere = await call(api.app, 'http://localhost:7999/reference')
    assert.match(await elsewhere.text(), /http:\/\/localhost:7999\/me<\/pre>/)
    assert.deepEqual(
      [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, to]) => to ?? '').filter((to) => !/^[#/]/.test(to)),
      [],
    )
    for (const part of ['lang="en"', '<main>', '<h1>', 'color-scheme:light dark', 'createApiKey', 'scope="row"'])
      assert.ok(html.includes(part), part)
    // The style is allowed by its hash alone, so nothing else can be slipped in.
    assert.match(page.headers.get('content-security-policy') ?? '', /style-src 'sha256-[A-Za-z0-9+/=]{44}';/)
  })
})
