/** What the server says of a command, as far as the command line reads it, and whether anything still moves it by itself. */
import type { Command } from 'commander'
import { InvalidArgumentError } from 'commander'
import { statesOf } from '#kernel/machine'
import { type CommandState, commandMachine } from '#kernel/machines/command'
import { didYouMean } from '#kernel/nearest'
import { parsePageLimit } from '#kernel/page-limit'
import { quote } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { withShownIds } from '#kernel/shown-ids'

export type NextMove = { readonly action: string; readonly by: readonly string[]; readonly what: string }

export type CommandView = {
  readonly command_id: string
  readonly command_type: string
  readonly task_name: string | null
  readonly status: CommandState
  readonly requested_by: string
  readonly requested_by_name: string | null
  readonly payload: Readonly<Record<string, unknown>>
  readonly result: unknown
  readonly error: string | null
  readonly error_class: string | null
  readonly cancellation_requested: boolean
  readonly attempt: number
  readonly created_at: string
  readonly updated_at: string
  readonly completed_at: string | null
  readonly next: readonly NextMove[]
}

/** Nothing happens any more unless a person does it: it has ended, or somebody is asked. */
export function isAtRest({ status, next, cancellation_requested }: CommandView): boolean {
  if (status === 'compensated') return !cancellation_requested
  if (status === 'blocked') return next.some(({ action }) => action === 'reconcile_effect')
  return commandMachine.states[status] === 'terminal' || commandMachine.states[status] === 'paused'
}

export function nameOf({ task_name, command_type }: Pick<CommandView, 'task_name' | 'command_type'>): string {
  return showLine(task_name ?? command_type)
}

export function wordsOf(status: string): string {
  return showLine(status).replaceAll('_', ' ')
}

/** The status and, where it did not go well, of what kind the mistake was: a refusal that was cancelled later is still one. */
export function standingOf({ status, error_class }: Pick<CommandView, 'status' | 'error_class'>): string {
  return error_class === null ? wordsOf(status) : `${wordsOf(status)} (${wordsOf(error_class)})`
}

/** Foreign JSON on one line, at most so long that a table stays a table. */
export function shortJson(value: unknown, charsMax = 160): string {
  const text = showLine(JSON.stringify(withShownIds(value)) ?? 'null')
  return text.length > charsMax ? `${text.slice(0, charsMax - 1)}…` : text
}

export function parseStatus(text: string): string {
  const known: readonly string[] = statesOf(commandMachine)
  if (known.includes(text)) return text
  const { hint = `One of ${known.join(', ')}.` } = didYouMean(text, known)
  throw new InvalidArgumentError(`${quote(text)} is no status. ${hint}`)
}

export function parseLimit(text: string): number {
  const limit = parsePageLimit(text)
  if (limit.ok) return limit.value
  throw new InvalidArgumentError(limit.reason)
}

export function addPaging(command: Command): Command {
  return command
    .option('--limit <number>', 'how many at most, 1 to 500', parseLimit, 50)
    .option('--cursor <cursor>', 'go on behind a page: its next_cursor')
}

export type Page<Item> = { readonly items: readonly Item[]; readonly next_cursor: string | null }

export function queryOf(fields: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) query.set(name, String(value))
  return `?${query.toString()}`
}
