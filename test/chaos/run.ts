/** `npm run chaos -- [server|work|points|postmaster|workers] --rounds 1000 --seed x`: the long form of the kill tests, with a report. */
import { parseArgs } from 'node:util'
import { killAtPoints } from './kill-points.ts'
import { killPostmaster } from './kill-postmaster.ts'
import { killServer } from './kill-server.ts'
import { killWork } from './kill-work.ts'
import type { Kill } from './path-points.ts'
import { shareWork } from './share-work.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    seed: { type: 'string', default: 'chaos' },
    only: { type: 'string' },
    help: { type: 'boolean' },
  },
})
const [story = 'server'] = positionals
const stories: Readonly<
  Record<string, { readonly rounds: number; readonly run: (rounds: number, seed: string) => Promise<object> }>
> = {
  server: {
    rounds: 1_000,
    run: (rounds, seed) => {
      const every = Math.max(1, Math.floor(rounds / 20))
      const onRound = (done: number) =>
        void (done % every === 0 && process.stderr.write(`${done} of ${rounds} kills\n`))
      return killServer({ rounds, seed, onRound })
    },
  },
  points: {
    rounds: 1,
    run: (rounds, seed) => {
      const onKill = (kills: readonly Kill[]) => {
        const last = kills.at(-1)
        process.stderr.write(
          `${Math.round(performance.now() / 1000)} s, ${kills.length} kills, the last one of a ${last?.role} at ${last?.group.map(({ point }) => point).join(', ')}\n`,
        )
      }
      return killAtPoints({
        rounds,
        seed,
        onKill,
        ...(values.only === undefined ? {} : { only: values.only.split(',') }),
      })
    },
  },
  postmaster: {
    rounds: 20,
    run: (kills, seed) => {
      const onKill = (done: number, downMs: number) =>
        process.stderr.write(`${done} of ${kills} kills, down for ${Math.round(downMs)} ms\n`)
      return killPostmaster({ kills, seed, onKill })
    },
  },
  workers: { rounds: 1, run: (rounds, seed) => shareWork({ rounds, seed }) },
  work: { rounds: 60, run: (kills, seed) => killWork({ kills, seed }) },
}
const chosen = stories[story]
if (values.help === true || !chosen || !/^\d{1,6}$/.test(values.rounds ?? '1')) {
  process.stdout.write('npm run chaos -- [server|work|points|postmaster|workers] [--rounds n] [--seed text]\n')
  process.exit(values.help === true ? 0 : 64)
}
const report = await chosen.run(Number(values.rounds ?? chosen.rounds), values.seed)
process.stdout.write(`${JSON.stringify({ story, seed: values.seed, ...report }, null, 2)}\n`)
const findings = Object.values(report).filter((value) => Array.isArray(value) && value.length > 0)
process.exitCode = findings.length === 0 ? 0 : 1
