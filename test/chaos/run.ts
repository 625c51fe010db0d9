/** `npm run chaos -- --rounds 1000 --seed x`: the long form of the kill tests, with progress and a report. */
import { parseArgs } from 'node:util'
import { killServer } from './kill-server.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '1000' },
    seed: { type: 'string', default: 'chaos' },
    help: { type: 'boolean' },
  },
})
if (values.help === true || !/^\d{1,6}$/.test(values.rounds)) {
  process.stdout.write('npm run chaos -- [--rounds 1000] [--seed text]\n')
  process.exit(values.help === true ? 0 : 64)
}
const rounds = Number(values.rounds)
const every = Math.max(1, Math.floor(rounds / 20))
const report = await killServer({
  rounds,
  seed: values.seed,
  onRound: (done) => done % every === 0 && process.stderr.write(`${done} of ${rounds} kills\n`),
})
process.stdout.write(`${JSON.stringify({ seed: values.seed, ...report }, null, 2)}\n`)
process.exitCode = report.lost.length + report.stuck.length === 0 ? 0 : 1
