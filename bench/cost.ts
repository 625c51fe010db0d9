/**
 * CPU per operation of two versions in alternating slices of one run, so that other work on the machine affects both alike: Node and
 * Postgres in µs, the lower quartile of all slices. Each version has a process and a Postgres of its own.
 *
 * node bench/cost.ts --before <folder of another version> [--after <folder>] [--slices 9] [--seconds 0.5] [--only inline]
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { readFlags } from '../scripts/read-flags.ts'
import { nodeCpuUs, postgresCpuUs } from './harness/cpu.ts'
import type * as ClosedLoop from './harness/closed-loop.ts'
import type * as Bench from './harness/command-bench.ts'
import type * as Server from './harness/server.ts'

const { values: options } = readFlags({
  options: {
    before: { type: 'string' },
    after: { type: 'string', default: path.join(import.meta.dirname, '..') },
    slices: { type: 'string', default: '9' },
    seconds: { type: 'string', default: '0.5' },
    only: { type: 'string', default: '' },
    serve: { type: 'string' },
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
  },
})

const cases = ['inline 1', 'inline 8', 'inline 32', 'inline 64', 'inline 256', 'start 1', 'durable 16', 'approval 1']
type Sample = { readonly node: number; readonly postgres: number; readonly ms: number }

if (options.serve !== undefined) await serve(options.serve)
else if (options.before === undefined) console.log('Nothing to compare: give --before <folder of another version>.')
else await compare([options.before, options.after])

async function compare(folders: readonly string[]): Promise<void> {
  const children = folders.map((folder) => {
    const child = fork(import.meta.filename, ['--serve', folder, '--seconds', options.seconds], { cwd: folder })
    return { child, samples: new Map<string, Sample[]>() }
  })
  for (const { child } of children) await once(child, 'message')
  const wanted = new RegExp(options.only, 'u')
  const chosen = cases.filter((name) => wanted.test(name))
  for (let slice = -1; slice < Number(options.slices); slice++) {
    for (const name of chosen) {
      for (const { child, samples } of slice % 2 === 0 ? children : children.toReversed()) {
        child.send(name)
        const [sample] = (await once(child, 'message')) as [Sample]
        // The first slice warms up.
        if (slice >= 0) samples.set(name, [...(samples.get(name) ?? []), sample])
      }
    }
  }
  for (const { child } of children) child.disconnect()
  const lower = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 4)]
  for (const name of chosen) {
    const cells = children.map(({ samples }) => {
      const all = samples.get(name) ?? []
      const of = (pick: (sample: Sample) => number) => lower(all.map(pick)) ?? Number.NaN
      return `${of(({ node }) => node).toFixed(0)} + ${of(({ postgres }) => postgres).toFixed(0)} µs, ${of(({ ms }) => ms).toFixed(2)} ms`
    })
    console.log(`${name.padEnd(12)} ${cells.map((cell) => cell.padEnd(26)).join(' → ')}`)
  }
}

/** Runs in a process of its own, with the modules of that version. */
async function serve(root: string): Promise<void> {
  const load = <T>(module: string) => import(pathToFileURL(path.join(root, module)).href) as Promise<T>
  const { openBenchServer } = await load<typeof Server>('bench/harness/server.ts')
  const { openCommandBench } = await load<typeof Bench>('bench/harness/command-bench.ts')
  const { median, runLoop } = await load<typeof ClosedLoop>('bench/harness/closed-loop.ts')
  const server = await openBenchServer()
  const db = server.open({ poolMax: 10 })
  const bench = await openCommandBench(db)
  const forMs = Number(options.seconds) * 1_000
  const operations: Record<string, () => Promise<unknown>> = {
    inline: () => bench.run('inline'),
    start: bench.start,
    durable: () => bench.run('durable'),
  }
  const end = async () => {
    await bench.close()
    await db.close()
    await server.stop()
    process.exit()
  }
  // The parent has ended, with or without a word.
  process.on('disconnect', () => void end())
  process.on('message', (name: string) => void answer(name))
  process.send?.('ready')

  async function answer(name: string): Promise<void> {
    const [what = '', inFlight = ''] = name.split(' ')
    const operation = operations[what]
    if (!operation) return void process.send?.(await approve())
    const loop = { inFlight: Number(inFlight), forMs, warmUpMs: 50, postmaster: server.pid, operation }
    const { nodeUs: node, postgresUs: postgres = Number.NaN, p50Ms: ms } = await runLoop(loop)
    process.send?.({ node, postgres, ms })
  }
  /** The approvals are prepared outside the measured time. */
  async function approve(): Promise<Sample> {
    const ready: (() => Promise<void>)[] = []
    while (ready.length < forMs / 4) ready.push(await bench.gate())
    const before = { node: nodeCpuUs(), postgres: postgresCpuUs(server.pid) ?? Number.NaN }
    const times: number[] = []
    for (const operation of ready) {
      const from = performance.now()
      await operation()
      times.push(performance.now() - from)
    }
    const node = (nodeCpuUs() - before.node) / ready.length
    const postgres = ((postgresCpuUs(server.pid) ?? Number.NaN) - before.postgres) / ready.length
    return { node, postgres, ms: median(times) }
  }
}
