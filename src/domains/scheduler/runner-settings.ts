/**
 * The `runner` of a job type: which command to run, with which environment and limits. Also holds the types that the scheduler
 * and its runner share.
 */
import { z } from 'zod'
import { MAX_TIMER_MS, parseDuration } from '#kernel/duration'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { parsedField } from '#contract'
import { parseInput } from './parse-input.ts'
import { RUN_VARIABLE } from './process-table.ts'
import type { StoredJob } from './stored-rows.ts'

/** A run recorded as started, which its runner or recovery must finish. */
export type ClaimedRun = {
  readonly runId: string
  readonly job: StoredJob
  readonly params: JsonObject
  /** Counted from 1: the original is the first attempt. */
  readonly attempt: number
}

/**
 * Identifies a child process. The system reuses a pid, so the identity includes the start time and the boot. The child's
 * environment also holds `runId`, so that recovery finds a child whose scheduler died before it recorded the pid.
 */
export type ProcessIdentity = {
  readonly runId: string
  readonly jobId: string
  readonly pid: number | null
  readonly startedAt: string | null
  readonly bootId: string | null
}

/** `gone`: no process was found; `ended`: it and all its children were ended; `alive`: it could not be ended. */
export type OrphanEnd = 'gone' | 'ended' | 'alive'

export type RunnerPort = {
  /** Called for every run that a dead scheduler left open, before recovery writes anything about it. */
  endOrphan(identity: ProcessIdentity): Promise<OrphanEnd>
}

/** Most programs need these to start. No other variable is inherited by default, because it may hold a secret. */
const plainVariables = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'] as const

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
  return refuse('duration', `${quote(text)} is longer than the maximum of 24d.`)
})

const command = {
  command: word.min(1).optional(),
  args: z.array(word).max(1_000).optional(),
  /** Absolute, or relative to the folder in which the scheduler was started. */
  cwd: word.min(1).optional(),
  /** Names of variables inherited from the scheduler, besides `plainVariables`. */
  env: z.array(variableName).max(200).optional(),
  /** Variables with their values. They are stored, so they must not hold secrets. */
  set: z.record(variableName, word).optional(),
  timeout: timer.optional(),
}

/** The params of a job whose type has `from_params`. */
export const commandParams = z.strictObject({ ...command, command: word.min(1) })

const runnerBody = z.strictObject({
  ...command,
  /** Whether every job names its command in its params. */
  from_params: z.boolean().default(false),
  /** The time between SIGTERM and SIGKILL. */
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
  /** The parsed `runner` column. */
  readonly runner: JsonObject
  readonly params: JsonObject
  /** The environment of the scheduler, filtered by the allow-list. */
  readonly environment: Readonly<Record<string, string | undefined>>
}

export function planJobCommand({ jobType, runner, params, environment }: CommandSource): Decision<CommandPlan> {
  const settings = parseInput(runnerBody, runner)
  if (!settings.ok) return prefixed(settings, `The runner of job type ${quote(jobType)}`)
  const own = settings.value.from_params ? parseInput(commandParams, params) : accept({})
  if (!own.ok) return prefixed(own, 'The params of the job')
  const { args, cwd, env, set, timeout, kill_after, log_max_bytes, skip_exit_codes, ...rest } = {
    ...settings.value,
    ...own.value,
  }
  if (rest.command === undefined) {
    return refuse('scheduler.runner.invalid', `The runner of job type ${quote(jobType)} names no command.`, {
      hint: 'Set `command` or `from_params`.',
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
      // The scheduler sets the run variable itself: recovery finds the child by it.
      return value === undefined || name === RUN_VARIABLE ? [] : [[name, value]]
    }),
  )
}

function prefixed(refusal: Extract<Decision<unknown>, { ok: false }>, source: string): Decision<never> {
  const { reason, path, hint } = refusal
  return refuse('scheduler.runner.invalid', `${source}: ${reason}`, {
    ...(path === undefined ? {} : { path }),
    ...(hint === undefined ? {} : { hint }),
  })
}
