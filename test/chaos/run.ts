/** `npm run chaos -- [story] --rounds 1000 --seed x`: the long form of the fault tests, with a report. */
import { resolve } from 'node:path'
import { cutPower } from './cut-power.ts'
import { faultScheduler, whyNoStrace } from './fault-scheduler.ts'
import { freezeServer } from './freeze-server.ts'
import { killAtPoints } from './kill-points.ts'
import { killEmbedded } from './kill-embedded.ts'
import { killMigration } from './kill-migration.ts'
import { everyMissionPoint, killMissions } from './kill-missions.ts'
import { killPostmaster } from './kill-postmaster.ts'
import { killScheduler } from './kill-scheduler.ts'
import { killSchedules } from './kill-schedules.ts'
import { killServer } from './kill-server.ts'
import { killSwarms, swarmPoints } from './kill-swarms.ts'
import { killWork } from './kill-work.ts'
import { whyNoPowerCut } from './loop-disk.ts'
import type { Kill } from './path-points.ts'
import { shareWork } from './share-work.ts'
import { spendBudgets } from './spend-budgets.ts'
import { stopUnderLoad } from './stop-agents.ts'
import { readFlags } from '../../scripts/read-flags.ts'

// As in a run of the tests. A killed process writes no compile cache, so each start would compile the program.
process.env['NODE_COMPILE_CACHE'] ??= resolve('.test-results/compiled')

const { values, positionals } = readFlags({
  allowPositionals: true,
  options: {
    rounds: { type: 'string' },
    seed: { type: 'string', default: 'chaos' },
    only: { type: 'string' },
    each: { type: 'string', default: '1' },
    tasks: { type: 'string', default: '200' },
    help: { type: 'boolean' },
  },
})
const [story = 'server'] = positionals

type Round = { readonly seed: string; readonly onRound: (done: number) => void }
type Story = {
  readonly rounds: number
  /** Why the story cannot run on this machine. */
  readonly whyNot?: () => string | undefined
  readonly run: (rounds: number, round: Round) => Promise<object>
}

const stories: Readonly<Record<string, Story>> = {
  server: { rounds: 1_000, run: (rounds, round) => killServer({ rounds, ...round }) },
  schedules: { rounds: 200, run: (rounds, { seed }) => killSchedules({ rounds, seed }) },
  work: { rounds: 60, run: (kills, { seed }) => killWork({ kills, seed }) },
  embedded: { rounds: 200, run: (kills, round) => killEmbedded({ kills, ...round }) },
  points: {
    rounds: 1,
    run: (times, { seed }) =>
      killAtPoints({
        rounds: times,
        seed,
        onKill: tellKill,
        ...(values.only === undefined ? {} : { only: values.only.split(',') }),
      }),
  },
  postmaster: { rounds: 20, run: (kills, { seed, onRound: onKill }) => killPostmaster({ kills, seed, onKill }) },
  migration: { rounds: 1_000_000, run: (events) => killMigration({ events }) },
  freeze: { rounds: 1, run: (times, { seed }) => freezeServer({ rounds: times, seed }) },
  workers: { rounds: 1, run: (times, { seed }) => shareWork({ rounds: times, seed }) },
  stop: { rounds: 100, run: (rounds, round) => stopUnderLoad({ rounds, ...round }) },
  budgets: { rounds: 200, run: (rounds, round) => spendBudgets({ rounds, spends: 2_000, ...round }) },
  swarms: {
    rounds: 60,
    run: (kills, { seed, onRound: onKill }) => killSwarms({ kills, points: swarmPoints, seed, onKill }),
  },
  missions: {
    rounds: 200,
    run: (missions, { seed, onRound: onKill }) =>
      killMissions({
        seed,
        missions,
        tasksMax: Number(values.tasks),
        inFlight: Math.min(100, missions),
        points: everyMissionPoint.map((point) => [point]),
        together: Math.min(8, missions),
        each: Number(values.each),
        kills: Math.ceil(missions / 10),
        onKill,
      }),
  },
  scheduler: { rounds: 3_000, run: (kills, round) => killScheduler({ kills, ...round }) },
  'scheduler-calls': {
    rounds: 1_500,
    whyNot: whyNoStrace,
    run: (cases, round) => faultScheduler({ cases, ...round }),
  },
  'scheduler-power': { rounds: 300, whyNot: whyNoPowerCut, run: (cuts, round) => cutPower({ cuts, ...round }) },
}

function tellKill(kills: readonly Kill[]): void {
  const last = kills.at(-1)
  const points = last?.group.map(({ point }) => point).join(', ')
  process.stderr.write(
    `${Math.round(performance.now() / 1000)} s, ${kills.length} kills, the last one of a ${last?.role} at ${points}\n`,
  )
}

const chosen = stories[story]
if (
  values.help === true ||
  !chosen ||
  [values.rounds ?? '1', values.each, values.tasks].some((text) => !/^\d{1,6}$/.test(text))
) {
  process.stdout.write(
    `npm run chaos -- [${Object.keys(stories).join('|')}] [--rounds n] [--seed text] [--each n] [--tasks n]\n`,
  )
  process.exit(values.help === true ? 0 : 64)
}
const why = chosen.whyNot?.()
if (why !== undefined) {
  process.stdout.write(`${JSON.stringify({ story, notRun: why })}\n`)
  process.exit(69)
}
const rounds = Number(values.rounds ?? chosen.rounds)
const every = Math.max(1, Math.floor(rounds / 20))
const onRound = (done: number) => void (done % every === 0 && process.stderr.write(`${done} of ${rounds}\n`))
const report = await chosen.run(rounds, { seed: values.seed, onRound })
process.stdout.write(`${JSON.stringify({ story, seed: values.seed, ...report }, null, 2)}\n`)
const isFinding = ([name, value]: [string, unknown]) =>
  Array.isArray(value) && value.length > 0 && name !== 'notReached' && name !== 'shares'
process.exitCode = Object.entries(report).some(isFinding) ? 1 : 0
