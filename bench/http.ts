/**
 * `POST /commands` of a running server compared with a bare Hono route that does one insert, over 1 and 32 keep-alive connections. The
 * client is another process, and the rate limit is lifted. The CPU columns are those of the server and of Postgres.
 *
 * node bench/http.ts [--rounds 5] [--seconds 1.5] [--only 'POST .commands, 32']
 */
import { randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { serve as serveBare } from '@hono/node-server'
import { Hono } from 'hono'
import { pino } from 'pino'
import { readConfig } from '#app/config'
import { openLog } from '#app/log'
import { startServer } from '#app/start-server'
import { type Db, statement } from '#store'
import { accepted } from '#test/tenant'
import { readFlags } from '../scripts/read-flags.ts'
import type { Sample } from './harness/closed-loop.ts'
import { type Case, compare, printResults } from './harness/compare.ts'
import { nodeCpuUs, postgresCpuUs } from './harness/cpu.ts'
import { openHttpClient, serveHttpClient } from './harness/http-client.ts'
import { openBenchServer } from './harness/server.ts'

const { values: options } = readFlags({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1.5' },
    only: { type: 'string', default: '' },
    client: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
    quick: { type: 'boolean', default: false },
  },
})
const WARM_UPS = 5
if (options.client) await serveHttpClient()
else await runBench()

async function runBench(): Promise<void> {
  const postgres = await openBenchServer()
  const home = await mkdtemp(path.join(tmpdir(), 'concord-bench-http-'))
  const login = postgres.open({ role: 'none', poolMax: 1 })
  await login.query('create table public.facts (id uuid primary key, body jsonb not null)')
  await login.query('grant insert on public.facts to concord_engine')
  const bareDb = postgres.open({ poolMax: 32 })
  const bare = await openBare(bareDb)
  const read = readConfig(
    {
      DATABASE_URL: login.config.url,
      CONCORD_HOME: home,
      CONCORD_RATE_LIMIT: '10000000',
      CONCORD_LOG_LEVEL: 'info',
    },
    home,
  )
  // Port 0 takes a free one, which the environment cannot ask for.
  const config = { ...accepted(read), port: 0 }
  const folder = path.join(import.meta.dirname, 'harness/http-project')
  const log = openLog('info', pino.destination({ dest: '/dev/null', sync: false }))
  const server = accepted(await startServer({ config, environment: {}, folder, log }))
  const key = (await readFile(server.keyFile, 'utf8')).trim()
  const client = openHttpClient(import.meta.filename)
  const fact = { subject: 's', note: 'n'.repeat(150) }
  const seconds = options.quick ? 0.5 : Number(options.seconds)

  async function run(port: number, route: string, body: object, connections: number): Promise<Sample> {
    const asked = { port, path: route, key, body: JSON.stringify(body), connections, warmUpMs: 0 }
    await client.loop({ ...asked, forMs: 300 })
    const before = { node: nodeCpuUs(), postgres: postgresCpuUs(postgres.pid) ?? Number.NaN }
    const sample = await client.loop({ ...asked, forMs: seconds * 1_000 })
    const count = sample.perSecond * seconds
    return {
      ...sample,
      nodeUs: (nodeCpuUs() - before.node) / count,
      postgresUs: ((postgresCpuUs(postgres.pid) ?? Number.NaN) - before.postgres) / count,
    }
  }

  const port = Number(new URL(server.address).port)
  const cases: Case[] = [1, 32].flatMap((n) => [
    { name: `bare route, one insert, ${n}`, run: () => run(bare.port, '/facts', fact, n) },
    {
      name: `POST /commands, ${n}`,
      against: `bare route, one insert, ${n}`,
      run: () => run(port, '/commands', { task_name: 'inline', payload: fact }, n),
    },
  ])
  const wanted = new RegExp(options.only, 'u')
  const chosen = cases.filter(({ name }) => wanted.test(name))
  // A server that has just started runs unoptimised code: 1,600 µs of Node per request, and 600 after 6,000.
  for (const { run: warmUp } of options.quick ? [] : chosen) for (let n = 0; n < WARM_UPS; n++) await warmUp()
  const results = await compare(chosen, options.quick ? 1 : Number(options.rounds))
  printResults(results)
  const ratio = results.find(({ name }) => name === 'POST /commands, 32')?.ratio
  if (ratio !== undefined) console.log(`\n${ratio.toFixed(2).padStart(8)}  POST /commands ÷ bare route, 32 (≥ 0.3)`)
  client.end()
  bare.close()
  await server.close()
  await Promise.all([bareDb, login].map((each) => each.close()))
  await postgres.stop()
  await rm(home, { recursive: true, force: true })
}

/** The least that a recorded request costs: parse the body, insert one row, answer. */
async function openBare(db: Db): Promise<{ readonly port: number; close(): void }> {
  const insert = statement('bench_http_fact', 'insert into public.facts (id, body) values ($1, $2)')
  const app = new Hono()
  app.post('/facts', async (c) => {
    const id = randomUUID()
    await db.run(insert, [id, JSON.stringify(await c.req.json())])
    return c.json({ id }, 202)
  })
  return new Promise((resolve) => {
    const server = serveBare({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }) =>
      resolve({ port, close: () => void server.close() }),
    )
  })
}
