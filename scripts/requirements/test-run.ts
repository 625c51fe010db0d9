/** Decides how node's test runner is called: which files, which reporters, which limits. */
import { globSync, readFileSync } from 'node:fs'

const reporter = new URL('../../test/support/proof-reporter.ts', import.meta.url).href
/** Seed and number of runs of the properties, and the count of assertions; every process that runs a test file loads them first. */
const preloads = ['properties', 'assertions'].map(
  (name) => new URL(`../../test/support/${name}.ts`, import.meta.url).href,
)

/**
 * quick: `npm test`, everything that is no chaos, each property with few runs. chaos: `npm run test:chaos`, kills, power cuts and
 * failing system calls, and every file with properties or repetitions once more, with all the runs that it asks for.
 */
const tiers = ['quick', 'chaos'] as const
export type Tier = (typeof tiers)[number]

const testPattern = '{src,test,scripts,examples}/**/*.test.ts'
const repeats = /from '(fast-check|#test\/proof-size)'/

export function isChaos(file: string): boolean {
  return file.endsWith('.chaos.test.ts')
}

/** The files of a tier, in the checkout that is the current folder. */
export function listFiles(tier: Tier): string[] {
  return globSync(testPattern)
    .filter(
      (file) => isChaos(file) === (tier === 'chaos') || (tier === 'chaos' && repeats.test(readFileSync(file, 'utf8'))),
    )
    .toSorted()
}

/** Two cores; a test file that waits for Postgres leaves one of them to the server. */
const concurrency = 2
/** A test that hangs fails here. One that honestly needs longer says so itself (`timeout`), with its reason. */
const timeoutMs: Readonly<Record<Tier, number>> = { quick: 60_000, chaos: 300_000 }
/** node ends a test that takes too long, but not a file that stays open after it; this much silence ends the run. */
const quietMs: Readonly<Record<Tier, number>> = { quick: 120_000, chaos: 360_000 }

export type TestRun = {
  readonly args: string[]
  readonly tier: Tier
  /** What the record of the run may claim afterwards. */
  readonly records: 'everything' | 'some files' | 'nothing'
  /** How long no test may end before the run is given up. `--quiet-limit=<ms>` sets another. */
  readonly quietMs: number
  /** What the processes of the test files must find in their environment. */
  readonly env: Readonly<Record<string, string>>
}

export type TestRunSettings = {
  readonly reporterDestination: string
  readonly globalSetup?: string
  /** Which files a tier has; read from the current folder unless told otherwise. */
  readonly list?: (tier: Tier) => string[]
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
  // Whoever names such a file wants it as it runs in its tier.
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
      ...(files.length > 0 ? files : (settings.list ?? listFiles)(tier)),
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
