/** The API with its own database, two tenants and a stopped clock. Requests use no socket. */
import pg from 'pg'
import { type Api, createApi } from '../../src/api/api.ts'
import type { ApiDeps } from '../../src/api/api-deps.ts'
import { openAuthenticator } from '../../src/domains/identity/index.ts'
import { openTestDb, type TestDbOptions } from './database.ts'
import { aTenant, aWorld, type Tenant, type TestWorld } from './tenant.ts'

type LogLine = {
  readonly level: 'info' | 'warn' | 'error'
  readonly facts: Record<string, unknown>
  readonly message: string
}

export type TestApi = {
  readonly app: Api
  readonly world: TestWorld
  readonly deps: ApiDeps
  readonly url: string
  readonly ours: Tenant
  readonly theirs: Tenant
  readonly log: LogLine[]
  /** The same API with other dependencies. */
  with(overrides: Partial<ApiDeps>): Api
  /** All rows of all tables: a test compares them to prove that nothing was written. */
  fingerprint(): Promise<string>
  close(): Promise<void>
}

export async function openTestApi(overrides: Partial<ApiDeps> = {}, options: TestDbOptions = {}): Promise<TestApi> {
  const opened = await openTestDb({ role: 'concord_engine', ...options })
  const world = aWorld(opened.db)
  const [ours, theirs] = [await aTenant(world), await aTenant(world)]
  const authenticator = openAuthenticator({ db: opened.db, now: world.now })
  const log: LogLine[] = []
  const write = (level: LogLine['level']) => (facts: object, message: string) => {
    log.push({ level, facts: facts as Record<string, unknown>, message })
  }
  const deps: ApiDeps = {
    ...world,
    version: '0.0.0-test',
    log: { info: write('info'), warn: write('warn'), error: write('error') },
    authenticate: authenticator.authenticate,
    callers: authenticator.callers,
    feed: { pollMs: 20 },
    schemaVersions: () => Promise.resolve({ expected: 1, actual: 1 }),
    cursorKey: new Uint8Array(32).fill(7),
    // A test sends more requests than a person, and a busy machine is not a broken one.
    limits: {
      ratePerMinute: 6_000_000,
      rateBurst: 1_000_000,
      badBearersPerMinute: 1_000_000,
      healthTimeoutMs: 60_000,
      bodyTimeoutMs: 60_000,
    },
    ...overrides,
  }
  for (const person of [...Object.values(ours.people), ...Object.values(theirs.people)]) {
    // The clock is stopped, so Concord notes the use of each key only once.
    await authenticator.authenticate(person.key)
  }
  await authenticator.close()
  return {
    app: createApi(deps),
    world,
    deps,
    url: opened.url,
    ours,
    theirs,
    log,
    with: (more) => createApi({ ...deps, ...more }),
    fingerprint: () => fingerprint(opened.url),
    async close() {
      await authenticator.close()
      await opened.close()
    },
  }
}

/** Reads as the login, which row security does not restrict. */
async function fingerprint(url: string): Promise<string> {
  const client = new pg.Client({ connectionString: url, application_name: 'concord-test-fingerprint' })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.relkind in ('r', 'p') and n.nspname not in ('pg_catalog', 'information_schema') order by 1`,
    )
    const parts = rows.map(
      ({ name }) =>
        `select '${name}' as t, count(*) as n, md5(string_agg(x::text, ',' order by x::text)) as h from ${name} x`,
    )
    const { rows: sums } = await client.query(
      `select string_agg(t || n || coalesce(h, ''), ';' order by t) as all from (${parts.join(' union all ')}) s`,
    )
    return String((sums[0] as { all: unknown }).all)
  } finally {
    await client.end()
  }
}

export type Call = {
  readonly method?: string
  readonly key?: string | undefined
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** Sends JSON unless the body is a string or bytes. */
export function call(
  app: Pick<Api, 'request'>,
  path: string,
  { method = 'GET', key, body, headers = {} }: Call = {},
): Promise<Response> {
  const raw = body instanceof Uint8Array ? new Uint8Array(body) : undefined
  const text = raw ?? (body === undefined || typeof body === 'string' ? body : JSON.stringify(body))
  return Promise.resolve(
    app.request(path, {
      method,
      headers: {
        ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
        ...(text === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(text === undefined ? {} : { body: text }),
    }),
  )
}

/** Returns the status and the code of the problem, or `ok`, for a table of cases. */
export async function outcomeOf(response: Response): Promise<string> {
  const isProblem = response.headers.get('content-type') === 'application/problem+json'
  if (!isProblem) return `${response.status} ok`
  return `${response.status} ${((await response.json()) as { code: string }).code}`
}
