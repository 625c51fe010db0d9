/**
 * Memory over many inline and durable commands in one process, printed after each tenth of them. It is flat when the last lines
 * do not rise.
 *
 * node --expose-gc bench/soak.ts [--commands 100000] [--in-flight 64]
 */
import { openCommandBench } from './harness/command-bench.ts'
import { openBenchServer } from './harness/server.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: { commands: { type: 'string', default: '100000' }, 'in-flight': { type: 'string', default: '64' } },
})
const [total, inFlight] = [Number(options.commands), Number(options['in-flight'])]
const server = await openBenchServer()
const db = server.open({ poolMax: 10 })
const bench = await openCommandBench(db)
const collect = (globalThis as { gc?: () => void }).gc

function report(done: number, seconds: number): void {
  collect?.()
  const { rss, heapUsed } = process.memoryUsage()
  const mb = (bytes: number) => `${(bytes / 2 ** 20).toFixed(0)} MB`.padStart(8)
  const heap = collect ? 'heap after collection' : 'heap'
  console.log(
    `${String(done).padStart(8)} commands  rss ${mb(rss)}  ${heap} ${mb(heapUsed)}  ${(done / seconds).toFixed(0)}/s`,
  )
}

const from = performance.now()
const part = Math.ceil(total / 10)
for (let done = 0; done < total; ) {
  let left = Math.min(part, total - done)
  done += left
  // One in ten commands is durable and goes through the runtime.
  const worker = async () => {
    for (let n = left--; n > 0; n = left--) await bench.run(n % 10 === 0 ? 'durable' : 'inline')
  }
  await Promise.all(Array.from({ length: inFlight }, worker))
  report(done, (performance.now() - from) / 1_000)
}
await bench.close()
await db.close()
await server.stop()
