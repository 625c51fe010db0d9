/**
 * One command with one effect, from submit to its end: in the process, over HTTP (the client is in the same process), and a DBOS
 * workflow with one step in its own process, all on one Postgres that flushes every commit. Ratios are those of a round.
 *
 * node bench/embedding.ts [--rounds 5] [--seconds 1.5]
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { serve } from '@hono/node-server'
import { z } from 'zod'
import { openInProcess } from '#app/open-concord'
import { type ConcordClient, connect } from '#client'
import { allow, defineCommand, defineEffect } from '#domains/commands'
import { readFlags } from '../scripts/read-flags.ts'
import { openBareDbos, serveBareDbos } from './harness/bare-dbos.ts'
import { runLoop } from './harness/closed-loop.ts'
import { openBell, ringAtEnd } from './harness/command-bench.ts'
import { type Case, compare, printResults } from './harness/compare.ts'
import { openBenchServer } from './harness/server.ts'

const { values: options } = readFlags({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '1.5' },
    bare: { type: 'string' },
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
  },
})

const input = z.object({ subject: z.string() })
const record = defineEffect('bench.record', { input, class: 'keyed', do: () => Promise.resolve({}) })
const note = defineCommand('note', { input, policy: () => allow(), steps: (given) => [record(given)] })

if (options.bare !== undefined) await serveBareDbos(options.bare)
else await runBench()

async function runBench(): Promise<void> {
  const server = await openBenchServer()
  const home = await mkdtemp(path.join(tmpdir(), 'concord-bench-embedding-'))
  const { concord, service } = await openInProcess({
    project: { catalog: [note] },
    databaseUrl: server.url,
    home,
    settings: { CONCORD_RATE_LIMIT: '10000000' },
  })
  const key = (await readFile(service.keyFile, 'utf8')).trim()
  const dbos = await openBareDbos(import.meta.filename, server.url)
  const listening = await new Promise<{ readonly port: number; close(): void }>((resolve) => {
    const http = serve({ fetch: concord.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }) =>
      resolve({ port, close: () => void http.close() }),
    )
  })
  const remote = connect({ url: `http://127.0.0.1:${listening.port}`, key })
  const ended = openBell()
  ringAtEnd(service.work.commands, ended)
  let count = 0
  const submitted = async (to: Pick<ConcordClient, 'submit'>) => {
    const subject = `s${++count}`
    const end = ended.next(subject)
    await to.submit(note, { subject })
    await end
  }

  const seconds = options.quick ? 0.5 : Number(options.seconds)
  const loop = (inFlight: number) => ({ inFlight, forMs: seconds * 1_000, warmUpMs: 300, postmaster: server.pid })
  const cases: Case[] = [1, 32].flatMap((n) => {
    const against = `DBOS startWorkflow, ${n}`
    return [
      { name: against, run: () => dbos.loop({ ...loop(n), steps: 1 }) },
      {
        name: `openConcord().submit, ${n}`,
        against,
        run: () => runLoop({ ...loop(n), operation: () => submitted(concord) }),
      },
      { name: `POST /commands, ${n}`, against, run: () => runLoop({ ...loop(n), operation: () => submitted(remote) }) },
    ]
  })
  // A process that has just started runs unoptimised code.
  for (const { run } of options.quick ? [] : cases) for (let times = 0; times < 2; times++) await run()
  console.log(`load ${loadavg()[0]?.toFixed(1)}`)
  printResults(await compare(cases, options.quick ? 1 : Number(options.rounds)))
  console.log(`load ${loadavg()[0]?.toFixed(1)}`)
  dbos.end()
  listening.close()
  await concord.close()
  await server.stop()
  await rm(home, { recursive: true, force: true })
}
