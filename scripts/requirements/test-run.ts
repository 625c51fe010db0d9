/** Plans the call of node's test runner: its files, reporters and limits. */
import { globSync, readFileSync } from 'node:fs'

const reporter = new URL('../../test/support/proof-reporter.ts', import.meta.url).href
/** Loaded first by every test process: the seed and number of runs of properties, and the count of assertions. */
const preloads = ['properties', 'assertions'].map(
  (name) => new URL(`../../test/support/${name}.ts`, import.meta.url).href,
)

/**
 * quick: `npm test`, everything except chaos, with few runs per property. chaos: `npm run test:chaos`, whatever starts processes for long:
 * kills, power cuts, failing system calls, most journeys; and again every file whose properties or repetitions have more runs there.
 */
const tiers = ['quick', 'chaos'] as const
export type Tier = (typeof tiers)[number]

const testPattern = '{src,test,scripts,examples}/**/*.test.ts'
/** A property without `numRuns`, or with less than 100, has the same runs and in CI the same values in both tiers. */
const repeats = /from '#test\/proof-size'|\bnumRuns\b(?!: \d{1,2}\b)/

export function isChaos(file: string): boolean {
  return file.endsWith('.chaos.test.ts')
}

/** The files of a tier in the current folder. */
export function listFiles(tier: Tier): string[] {
  return globSync(testPattern)
    .filter(
      (file) => isChaos(file) === (tier === 'chaos') || (tier === 'chaos' && repeats.test(readFileSync(file, 'utf8'))),
    )
    .toSorted()
}

/** Large enough to load and compile the program 15 times instead of 350 times, small enough to keep both cores busy to the end. */
const GROUP_FILES = 24
/** A test is recorded under the file that calls `test()`. Where that is a suite of cases, only the process names the test file. */
const callsElsewhere = /(\.case\.ts|#test\/broken-rows)'/

/** Divides files into those that share a process. Files of `src` do, because most of their time was the start of the process. */
export function groupFiles(files: readonly string[]): string[][] {
  const alone = (file: string) =>
    !file.startsWith('src/') || isChaos(file) || callsElsewhere.test(readFileSync(file, 'utf8'))
  const [single, shared] = [files.filter(alone), files.filter((file) => !alone(file))]
  const groups: string[][] = []
  for (let at = 0; at < shared.length; at += GROUP_FILES) groups.push(shared.slice(at, at + GROUP_FILES))
  return [...groups, ...single.map((file) => [file])]
}

/** The path, in the folder of a run, of a file that imports a group. */
export function groupPath(folder: string, at: number): string {
  return `${folder}/group-${at + 1}.test.ts`
}

export function isGroup(file: string): boolean {
  return /\/\.test-results\/run-\d+\/group-\d+\.test\.ts$/.test(file)
}

/** For two cores: a test file that waits for Postgres leaves one to the server. */
const concurrency = 2
/** A hanging test fails here. A test that needs longer sets its own `timeout` with the reason. */
const timeoutMs: Readonly<Record<Tier, number>> = { quick: 60_000, chaos: 300_000 }
/** node ends a slow test but not a file that stays open after it; this much silence ends the run. */
const quietMs: Readonly<Record<Tier, number>> = { quick: 120_000, chaos: 960_000 }

export type TestRun = {
  readonly args: string[]
  readonly tier: Tier
  /** What the run records. */
  readonly records: 'everything' | 'some files' | 'nothing'
  /** The longest time without the end of a test; then the run stops. `--quiet-limit=<ms>` changes it. */
  readonly quietMs: number
  /** Environment variables for the processes of the test files. */
  readonly env: Readonly<Record<string, string>>
}

export type TestRunSettings = {
  readonly reporterDestination: string
  readonly globalSetup?: string
  /** The files to run when none is named. */
  readonly list: (tier: Tier) => string[]
}

const flagsWithValue =
  /^--test-(name-pattern|skip-pattern|concurrency|timeout|shard|isolation|reporter|reporter-destination)$/
const narrowing = /^--test-(name-pattern|skip-pattern|only|shard)\b/

export function planTestRun(extra: readonly string[], settings: TestRunSettings): TestRun {
  const flags: string[] = []
  const files: string[] = []
  let quiet: number | undefined
  let times = 1
  let tier: Tier = 'quick'
  for (let at = 0; at < extra.length; at++) {
    const word = extra[at] ?? ''
    const limit = /^--quiet-limit=(\d+)$/.exec(word)?.[1]
    const runs = /^--property-runs=([1-9]\d*)$/.exec(word)?.[1]
    if (limit !== undefined) quiet = Number(limit)
    else if (runs !== undefined) times = Number(runs)
    else if (word === '--chaos') tier = 'chaos'
    else if (!word.startsWith('-')) files.push(word)
    else {
      flags.push(word)
      const value = extra[at + 1]
      if (flagsWithValue.test(word) && value !== undefined) {
        flags.push(value)
        at++
      }
    }
  }
  // A chaos file that is named explicitly runs as in its tier.
  if (files.some((file) => file.includes('chaos'))) tier = 'chaos'
  const has = (name: string) => flags.some((flag) => flag === name || flag.startsWith(`${name}=`))
  return {
    args: [
      ...preloads.map((preload) => `--import=${preload}`),
      '--test',
      ...(settings.globalSetup === undefined ? [] : [`--test-global-setup=${settings.globalSetup}`]),
      ...(has('--test-concurrency') ? [] : [`--test-concurrency=${concurrency}`]),
      ...(has('--test-timeout') ? [] : [`--test-timeout=${timeoutMs[tier] * times}`]),
      ...(has('--test-reporter') ? [] : ['--test-reporter=spec', '--test-reporter-destination=stdout']),
      `--test-reporter=${reporter}`,
      `--test-reporter-destination=${settings.reporterDestination}`,
      ...flags,
      ...(files.length > 0 ? files : settings.list(tier)),
    ],
    records: flags.some((flag) => narrowing.test(flag)) ? 'nothing' : files.length > 0 ? 'some files' : 'everything',
    tier,
    quietMs: quiet ?? quietMs[tier] * times,
    env: {
      ...(tier === 'chaos' ? { CONCORD_PROOF: 'long' } : {}),
      ...(times === 1 ? {} : { CONCORD_PROPERTY_RUNS: String(times) }),
    },
  }
}
