/** What a command may touch of the outside: two streams, the environment, the folder, and a way to be stopped. */
import type { Readable } from 'node:stream'
import { createColors } from 'picocolors'
import type { Environment } from '#app/config'
import type { Decision, Refusal, RefusalCode } from '#kernel/refusal'
import { hintOf } from '#refusals'
import { showLine, showText } from '#kernel/visible-text'

export type Terminal = {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly environment: Environment
  readonly folder: string
  readonly isTty: boolean
  /** Standard input, opened when somebody asks for it. */
  readonly stdin: () => Readable
  /** Aborted by the first SIGINT or SIGTERM. */
  readonly stop: AbortSignal
}

/** The result of every command handler: nothing more to say, or a refusal. */
export type Outcome = Decision<unknown>

export type Cli = {
  readonly terminal: Terminal
  /** Wraps a handler: shows its refusal and keeps the exit code. */
  handle<Args extends unknown[]>(work: (...args: Args) => Promise<Outcome>): (...args: Args) => Promise<void>
}

export function colorsOf(terminal: Terminal) {
  return createColors(terminal.isTty && terminal.environment['NO_COLOR'] === undefined)
}

/** What only waits, or goes on without us, has not gone wrong; scripts still see by the exit code that it is not done. */
const WAITING: readonly RefusalCode[] = ['cli.command.waiting', 'cli.wait.ended']

/** A refusal for a person: what, where, what to do. For a machine: the same as one JSON line. */
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

/** Columns padded to the widest cell; the last one is left as it is. */
export function formatTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(title.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => (column === cells.length - 1 ? cell : cell.padEnd(widths[column] ?? 0)))
      .join('  ')
      .trimEnd()
  return [line(head), ...rows.map(line)].map((text) => `${text}\n`).join('')
}

/** Settles with the first signal that asks the program to end. */
export function stopRequest(stop: AbortSignal): Promise<void> {
  if (stop.aborted) return Promise.resolve()
  return new Promise((resolve) => stop.addEventListener('abort', () => resolve(), { once: true }))
}
