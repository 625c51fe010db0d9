/** What the `runner` of a job type may say: which command a job is, what it sees of the environment, how long it may take. */
import { z } from 'zod'
import { MAX_TIMER_MS, parseDuration } from '#kernel/duration'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { parsedField } from '#contract'
import { parseInput } from './parse-input.ts'
import { RUN_VARIABLE } from './process-table.ts'
import type { StoredJob } from './stored-rows.ts'

/** A run that is written down as started: from here on it must be finished, by its runner or by recovery. */
export type ClaimedRun = {
  readonly runId: string
  readonly job: StoredJob
  readonly params: JsonObject
  /** Counted from 1: the original is the first attempt. */
  readonly attempt: number
}

/**
 * Names a child process beyond doubt. A number alone is given again to a stranger; with the time it started and the boot it
 * started in it is not. `runId` also stands in the environment of the child, so that one that died with its
 * scheduler before the number was written down can still be found.
 */
export type ProcessIdentity = {
  readonly runId: string
  readonly jobId: string
  readonly pid: number | null
  readonly startedAt: string | null
  readonly bootId: string | null
}

/** `gone`: there was none; `ended`: it lived and has ended with all its children; `alive`: it could not be ended. */
export type OrphanEnd = 'gone' | 'ended' | 'alive'

export type RunnerPort = {
  /** Called for every run that a dead scheduler left open, before anything about it is written. */
  endOrphan(identity: ProcessIdentity): Promise<OrphanEnd>
}

/** Without these most programs do not start; nothing else is handed down unasked, least of all a secret. */
export const plainVariables = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'] as const

const LOG_MAX_BYTES = 10 * 1_048_576
const WORD_CHARS_MAX = 65_536

const word = z
  .string()
  .max(WORD_CHARS_MAX)
  .refine((text) => !text.includes('\0'))
const variableName = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/)
const timer = parsedField((text) => {
  const duration = parseDuration(text)
  if (!duration.ok || duration.value <= MAX_TIMER_MS) return duration
  return refuse('duration', `${quote(text)} is longer than a job may take: 24d`)
})

const command = {
  command: word.min(1).optional(),
  args: z.array(word).max(1_000).optional(),
  /** Absolute, or relative to where the scheduler was started. */
  cwd: word.min(1).optional(),
  /** Names of variables that are handed down from the scheduler, besides the plain ones. */
  env: z.array(variableName).max(200).optional(),
  /** Variables with their values; they are stored, so no secrets. */
  set: z.record(variableName, word).optional(),
  timeout: timer.optional(),
}

/** What a job of a type with `from_params` brings itself. */
export const commandParams = z.strictObject({ ...command, command: word.min(1) })

export const runnerBody = z.strictObject({
  ...command,
  /** Every job names its command in its params. */
  from_params: z.boolean().default(false),
  /** How long a job that is asked to end may tidy up before it is killed. */
  kill_after: timer.prefault('10s'),
  log_max_bytes: z
    .int()
    .min(0)
    .max(2 ** 40)
    .default(LOG_MAX_BYTES),
  /** Exit codes that mean "there was nothing to do". */
  skip_exit_codes: z.array(z.int().min(1).max(255)).max(255).default([]),
})
export type RunnerBody = z.input<typeof runnerBody>

/** The type of `concord jobs add -- <command>`. */
export const COMMAND_TYPE = 'command'
export const commandRunner: RunnerBody = { from_params: true }

export type CommandPlan = {
  readonly command: string
  readonly args: readonly string[]
  readonly cwd: string | undefined
  readonly environment: Readonly<Record<string, string>>
  readonly timeoutMs: number | null
  readonly killAfterMs: number
  readonly logMaxBytes: number
  readonly skipExitCodes: readonly number[]
}

export type CommandSource = {
  readonly jobType: string
  /** The `runner` column, read. */
  readonly runner: JsonObject
  readonly params: JsonObject
  /** What the scheduler itself sees; the allow-list picks from it. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

export function planCommand({ jobType, runner, params, environment }: CommandSource): Decision<CommandPlan> {
  const settings = parseInput(runnerBody, runner)
  if (!settings.ok) return prefixed(settings, `the runner of job type ${quote(jobType)}`)
  const own = settings.value.from_params ? parseInput(commandParams, params) : accept({})
  if (!own.ok) return prefixed(own, 'the params of the job')
  const { args, cwd, env, set, timeout, kill_after, log_max_bytes, skip_exit_codes, ...rest } = {
    ...settings.value,
    ...own.value,
  }
  if (rest.command === undefined) {
    return refuse('scheduler.runner.invalid', `the runner of job type ${quote(jobType)} names no command`, {
      hint: 'Give it `command`, or `from_params`.',
    })
  }
  const names = [...plainVariables, ...(settings.value.env ?? []), ...(env ?? [])]
  return accept({
    command: rest.command,
    args: args ?? [],
    cwd,
    environment: { ...pick(environment, names), ...settings.value.set, ...set },
    timeoutMs: timeout ?? null,
    killAfterMs: kill_after,
    logMaxBytes: log_max_bytes,
    skipExitCodes: skip_exit_codes,
  })
}

function pick(from: CommandSource['environment'], names: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    names.flatMap((name) => {
      const value = from[name]
      // That of the run is ours to give: with another one the child would not be found.
      return value === undefined || name === RUN_VARIABLE ? [] : [[name, value]]
    }),
  )
}

function prefixed(refusal: Extract<Decision<unknown>, { ok: false }>, whose: string): Decision<never> {
  const { reason, path, hint } = refusal
  return refuse('scheduler.runner.invalid', `${whose}: ${reason}`, {
    ...(path === undefined ? {} : { path }),
    ...(hint === undefined ? {} : { hint }),
  })
}
