/**
 * Reads of a workspace with a thousand and with a million commands, over HTTP: time and blocks of the database for each list, filter, count,
 * history and explanation, and the blocks of a submit. Blocks, and the fastest execution in Postgres, come from pg_stat_statements.
 *
 * node bench/reads.ts [--commands 1000,1000000] [--checkout <folder of another version>] [--only stats]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { openDb, openEmbeddedPostgres } from '#store'
import { freePort } from '#test/concord-process'
import { growWorkspace, openPatient } from '#test/large-workspace'
import { accepted } from '#test/tenant'
import { examplePayloads } from '../examples/catalog/index.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: {
    commands: { type: 'string', default: '1000,1000000' },
    checkout: { type: 'string', default: path.join(import.meta.dirname, '..') },
    only: { type: 'string', default: '' },
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
  },
})
const REQUESTS = 40
const DAY_MS = 86_400_000

const folder = await mkdtemp(path.join(tmpdir(), 'concord-reads-'))
// Under root the server runs as another user, who needs access to the folder.
await chmod(folder, 0o711)
const home = path.join(folder, 'home')
const first = accepted(await openEmbeddedPostgres({ home }))
const superuser = openDb({ url: first.superuserUrl, poolMax: 1 })
await superuser.query(`alter system set shared_preload_libraries = 'pg_stat_statements'`)
await superuser.query(`alter system set pg_stat_statements.track_planning = off`)
await superuser.close()
accepted(await first.stop())
const postgres = accepted(await openEmbeddedPostgres({ home }))
const port = await freePort()
const env = { DATABASE_URL: postgres.url, CONCORD_HOME: home, CONCORD_PORT: port, CONCORD_RATE_LIMIT: '1000000' }
const server = spawn(
  process.execPath,
  ['--conditions=concord-source', path.join(options.checkout, 'src/cli/main.ts'), 'up'],
  {
    cwd: options.checkout,
    env: { ...process.env, ...env, CONCORD_LOG_LEVEL: 'error' },
    stdio: ['ignore', 'ignore', 'inherit'],
  },
)
const ended = once(server, 'exit')
const base = `http://127.0.0.1:${port}`
while (!(await fetch(`${base}/health`).catch(() => undefined))?.ok) {
  if (server.exitCode !== null) throw new Error('The server did not start.')
  await wait(200)
}
const headers = {
  authorization: `Bearer ${(await readFile(path.join(home, 'admin.key'), 'utf8')).trim()}`,
  'content-type': 'application/json',
}
const inDatabase = new URL(postgres.superuserUrl)
inDatabase.pathname = new URL(postgres.url).pathname
const owner = openPatient(postgres.url)
const judge = openPatient(inDatabase.href)
await judge.query('create extension if not exists pg_stat_statements')

try {
  const templates = await submitTemplates()
  const [found] = await judge.query<{ workspace_id: string }>('select workspace_id from concord.commands limit 1')
  let made = 0
  const table: Record<string, Record<string, string>> = {}
  for (const size of (options.quick ? '1000,10000' : options.commands).split(',').map(Number)) {
    await growWorkspace(owner, {
      workspaceId: found?.workspace_id ?? '',
      copies: size - made,
      after: made,
      templates,
      spanMs: (made === 0 ? 1 : 20) * DAY_MS,
      until: new Date(Date.now() - (made === 0 ? 0 : 2) * DAY_MS),
    })
    made = size
    await judge.query('vacuum analyze')
    for (const [name, read] of Object.entries(await listReads())) {
      if (!name.includes(options.only)) continue
      const { p50, databaseMs, blocks } = await measure(read)
      table[name] = {
        ...table[name],
        [`${size}: p50 ms`]: p50.toFixed(1),
        [`${size}: in Postgres`]: databaseMs.toFixed(2),
        [`${size}: blocks`]: blocks.toFixed(0),
      }
    }
    const sizes = await judge.query<{ name: string; mb: number }>(
      `select oid::regclass::text as name, round(pg_total_relation_size(oid) / 1e6)::int as mb from pg_class
       where relkind = 'r' and relnamespace = 'concord'::regnamespace order by 2 desc limit 4`,
    )
    console.log(`${size} commands on disk: ${sizes.map(({ name, mb }) => `${name} ${mb} MB`).join(', ')}`)
  }
  console.table(table)
} finally {
  await owner.close()
  await judge.close()
  server.kill('SIGTERM')
  await ended
  accepted(await postgres.stop())
  await rm(folder, { recursive: true, force: true })
}

async function call(route: string, body?: object): Promise<Record<string, unknown>> {
  const response = await fetch(base + route, {
    headers,
    ...(body ? { method: 'POST', body: JSON.stringify(body) } : {}),
  })
  const answer = (await response.json()) as Record<string, unknown>
  if (!response.ok) throw new Error(`${route}: ${JSON.stringify(answer)}`)
  return answer
}

/** Of a thousand commands 900 succeed, 80 fail, and 20 wait for an approval. */
async function submitTemplates() {
  const submit = async (task: keyof typeof examplePayloads, change: object, weight: number, status: string) => {
    const payload = { ...examplePayloads[task], ...change }
    const { command_id } = await call('/commands', { task_name: task, payload })
    const of = `/commands/${String(command_id)}`
    while ((await call(of))['status'] !== status) await wait(100)
    return {
      commandId: String(command_id)
        .slice(4)
        .replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, '$1-$2-$3-$4-$5'),
      weight,
    }
  }
  return [
    await submit('Rank Hotels', {}, 900, 'succeeded'),
    await submit('Generate Report', { date_range: 'May' }, 80, 'failed'),
    await submit('Book Hotel', {}, 20, 'waiting_for_approval'),
  ]
}

async function listReads(): Promise<Readonly<Record<string, () => Promise<unknown>>>> {
  const { items } = await call('/commands?limit=1')
  const of = `/commands/${String((items as { command_id: string }[])[0]?.command_id)}`
  const task = (name: string) => `task_name=${encodeURIComponent(name)}`
  const get = (route: string) => [`GET ${route.replace(of, '/commands/{id}')}`, () => call(route)] as const
  return Object.fromEntries([
    get('/commands'),
    get('/commands?status=failed'),
    get('/commands?status=running'),
    get(`/commands?${task('Rank Hotels')}`),
    get(`/commands?${task('Nobody')}`),
    get(`/commands?status=failed&${task('Rank Hotels')}`),
    get('/audit'),
    get('/audit?event_type=policy_evaluated'),
    get('/audit?event_type=approval_requested'),
    get('/audit?event_type=api_key_created'),
    get(`${of}/events`),
    get(`${of}/explanation`),
    ['GET /events, the first 100', () => readStream(100)] as const,
    get('/stats'),
    [
      'POST /commands',
      () => call('/commands', { task_name: 'Rank Hotels', payload: examplePayloads['Rank Hotels'] }),
    ] as const,
  ])
}

async function readStream(count: number): Promise<void> {
  const leave = new AbortController()
  const response = await fetch(`${base}/events?after=0.0`, { headers, signal: leave.signal })
  let text = ''
  for await (const part of response.body ?? []) {
    text += Buffer.from(part).toString()
    if (text.split('\ndata:').length > count) break
  }
  leave.abort()
}

async function measure(read: () => Promise<unknown>): Promise<Record<'p50' | 'databaseMs' | 'blocks', number>> {
  for (let n = 0; n < 3; n++) await read()
  await judge.query('select pg_stat_statements_reset()')
  const times: number[] = []
  for (let n = 0; n < REQUESTS; n++) {
    const from = performance.now()
    await read()
    times.push(performance.now() - from)
  }
  // What every request runs; the sweeps of the server run less often.
  const [sum] = await judge.query<{ blocks: number; ms: number }>(
    `select sum((s.shared_blks_hit + s.shared_blks_read)::float8 / $1) as blocks, sum(s.min_exec_time * (s.calls / $1)) as ms
     from pg_stat_statements as s where s.calls >= $1 and s.query not like '%pg_stat_statements%'`,
    [REQUESTS],
  )
  const p50 = times.toSorted((a, b) => a - b)[REQUESTS / 2]
  return { p50: p50 ?? Number.NaN, databaseMs: sum?.ms ?? 0, blocks: sum?.blocks ?? 0 }
}
