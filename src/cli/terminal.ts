/** The terminal a command runs in, and how results look there: colours, refusals, words. */
import type { Readable } from 'node:stream'
import { createColors } from 'picocolors'
import type { Environment } from '#app/config'
import type { Decision, Refusal, RefusalCode } from '#kernel/refusal'
import { hintOf } from '#refusals'
import { withShownIds } from '#kernel/ids'
import { showLine, showText } from '#kernel/visible-text'

export type Terminal = {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly environment: Environment
  readonly folder: string
  readonly isTty: boolean
  /** The width of the terminal. Undefined: standard output is not a terminal. */
  readonly columns: number | undefined
  readonly now: () => Date
  /** The time zone of shown times. Undefined: the one of this machine. */
  readonly zone?: string
  /** Opens standard input on first use. */
  readonly stdin: () => Readable
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly stop: AbortSignal
}

/** The result of every command handler: nothing more to say, or a refusal. */
export type VerbResult = Decision<unknown>

export type Cli = {
  readonly terminal: Terminal
  /** True with `--json`. */
  isJson(): boolean
  /** Wraps a handler: shows its refusal and keeps the exit code. */
  handle<Args extends unknown[]>(work: (...args: Args) => Promise<VerbResult>): (...args: Args) => Promise<void>
}

export function colorsOf({ isTty, environment }: Pick<Terminal, 'isTty' | 'environment'>) {
  return createColors(isTty && !environment['NO_COLOR'] && environment['TERM'] !== 'dumb')
}

/** The first words of a status, by colour. All others have none. */
const tones = {
  green: ['succeeded', 'completed', 'finished', 'approved', 'published', 'ready', 'active', 'given', 'read', 'ok'],
  red: ['failed', 'rejected', 'denied', 'missing', 'damaged', 'broken'],
  yellow: ['waiting', 'awaiting', 'blocked', 'pending', 'cancelling', 'compensating', 'unread', 'note'],
  cyan: ['running', 'executing', 'started'],
  dim: ['cancelled', 'expired', 'compensated', 'revoked', 'released', 'skipped', 'superseded', 'deactivated'],
} as const

/** Colours a text by the status that it begins with, or by `status`. */
export function tint(terminal: Terminal, text: string, status = text): string {
  const [first = ''] = status.split(/[ _]/)
  const tone = (Object.keys(tones) as (keyof typeof tones)[]).find((each) =>
    (tones[each] as readonly string[]).includes(first),
  )
  return tone === undefined ? text : colorsOf(terminal)[tone](text)
}

/** These are not failures: the work waits or continues. The exit code tells scripts that it is not done. */
const WAITING: readonly RefusalCode[] = ['cli.command.waiting', 'cli.wait.ended']

/** Shows a refusal as lines for people or as one JSON line for programs. */
export function showRefusal(terminal: Terminal, refusal: Refusal, json: boolean): void {
  if (json) {
    const { code, reason, path, facts } = refusal
    terminal.err(`${JSON.stringify({ error: { code, message: reason, path, hint: hintOf(refusal), facts } })}\n`)
    return
  }
  const color = colorsOf(terminal)
  const label = WAITING.includes(refusal.code) ? color.yellow('waits') : color.red('error')
  terminal.err(`${label} ${showText(refusal.reason)}\n`)
  if (refusal.path !== undefined) terminal.err(`  where  ${showLine(refusal.path)}\n`)
  for (const line of findingsOf(refusal)) terminal.err(`  also   ${line}\n`)
  terminal.err(`  next   ${showText(hintOf(refusal)).replaceAll('\n', '\n         ')}\n`)
  terminal.err(`  code   ${refusal.code}\n`)
}

const FINDINGS_MAX = 20

/** The findings and errors besides the one that the reason names. */
function findingsOf({ facts, reason, path: named }: Refusal): readonly string[] {
  const listOf = (value: unknown) => (Array.isArray(value) ? (value as readonly Record<string, unknown>[]) : [])
  const errors = listOf(facts?.['errors'])
    .filter(({ path, detail }) => path !== named || detail !== reason)
    .map(({ path, detail, hint }) => ({ path, message: `${String(detail)} ${String(hint)}` }))
  const others = [...listOf(facts?.['findings']).slice(1), ...errors].flatMap(({ path, message }) =>
    typeof path === 'string' && typeof message === 'string' ? [showLine(`${path}: ${message}`)] : [],
  )
  const more = others.length - FINDINGS_MAX
  return more > 0 ? [...others.slice(0, FINDINGS_MAX), `${more} more: --json shows them`] : others
}

export function wordsOf(status: string): string {
  return showLine(status).replaceAll('_', ' ')
}

/** Foreign JSON on one line, cut to `charsMax`. */
export function shortJson(value: unknown, charsMax = 160): string {
  const line = showLine(JSON.stringify(withShownIds(value)) ?? 'null')
  return line.length > charsMax ? `${line.slice(0, charsMax - 1)}…` : line
}

export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`
}

/** Resolves with the first signal that asks the program to end. */
export function stopRequest(stop: AbortSignal): Promise<void> {
  if (stop.aborted) return Promise.resolve()
  return new Promise((resolve) => stop.addEventListener('abort', () => resolve(), { once: true }))
}
