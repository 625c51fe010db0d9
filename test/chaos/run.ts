/** `npm run chaos -- [server|schedules|work] --rounds 1000 --seed x`: the long form of the kill tests, with a report. */
import { parseArgs } from 'node:util'
import { killSchedules } from './kill-schedules.ts'
import { killServer } from './kill-server.ts'
import { killWork } from './kill-work.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { rounds: { type: 'string' }, seed: { type: 'string', default: 'chaos' }, help: { type: 'boolean' } },
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
  schedules: { rounds: 200, run: (rounds, seed) => killSchedules({ rounds, seed }) },
  work: { rounds: 60, run: (kills, seed) => killWork({ kills, seed }) },
}
const chosen = stories[story]
if (values.help === true || !chosen || !/^\d{1,6}$/.test(values.rounds ?? '1')) {
  process.stdout.write('npm run chaos -- [server|schedules|work] [--rounds n] [--seed text]\n')
  process.exit(values.help === true ? 0 : 64)
}
const report = await chosen.run(Number(values.rounds ?? chosen.rounds), values.seed)
process.stdout.write(`${JSON.stringify({ story, seed: values.seed, ...report }, null, 2)}\n`)
const findings = Object.values(report).filter((value) => Array.isArray(value) && value.length > 0)
process.exitCode = findings.length === 0 ? 0 : 1
