/** The terminal a command runs in, and how results look there: refusals, tables, lists of facts, words. */
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

export function colorsOf(terminal: Terminal) {
  return createColors(terminal.isTty && terminal.environment['NO_COLOR'] === undefined)
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
  terminal.err(`  next   ${showText(hintOf(refusal)).replaceAll('\n', '\n         ')}\n`)
  terminal.err(`  code   ${refusal.code}\n`)
}

/** Pads every column but the last to its widest cell. */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (column === cells.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd()
  return [line(head), ...rows.map(line)].map((text) => `${text}\n`).join('')
}

export type Fact = readonly [name: string, text: string | null | undefined]

/** One indented line per fact; facts without a text are left out. */
export function formatFacts(width: number, facts: readonly Fact[]): string {
  return facts.map(([name, text]) => (text ? `  ${name.padEnd(width)}  ${text}\n` : '')).join('')
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
