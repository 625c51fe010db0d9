/** Declares the nouns and verbs of the command line: help, options, the request and how its answer is shown. */
import { type Command, InvalidArgumentError } from 'commander'
import { MAX_TIMER_MS, parseDuration } from '#kernel/duration'
import { parsePageLimit } from '#kernel/page-limit'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, type Page } from './client.ts'
import { formatTable } from './layout.ts'
import { findNames, type NameOf } from './names.ts'
import type { Cli, Terminal, VerbResult } from './terminal.ts'
import { sayTime } from './times.ts'

/** Adds the description, options and action to a command that has its name. */
export type Add = (command: Command, cli: Cli) => void
export type Verbs = Readonly<Record<string, Add>>

/** The type of a view in a room's contract: `ViewOf<typeof commandView>`. */
export type ViewOf<Schema extends { readonly _zod: { readonly output: unknown } }> = Schema['_zod']['output']

export type Option = readonly [flags: string, description: string, ...more: readonly unknown[]]

export type Help = {
  readonly description: string
  /** Whole command lines. */
  readonly examples?: readonly string[]
  readonly args?: readonly (readonly [name: string, description: string])[]
  readonly required?: readonly Option[]
  readonly options?: readonly Option[]
}

export type Promised<T> = T | Promise<T>
/** Text for standard output, with a note for standard error if there is one. */
export type Said = string | readonly [out: string, note: string] | void

/** The keys of `verbs` are names with their arguments, like `show <id>`. */
export function noun(description: string, verbs: (cli: Cli) => Verbs): Add {
  return (command, cli) => {
    command.description(description)
    addVerbs(command, cli, verbs(cli))
  }
}

export function addVerbs(parent: Command, cli: Cli, verbs: Verbs): void {
  for (const [name, add] of Object.entries(verbs)) add(parent.command(name), cli)
}

/** A verb that shows its own results. */
export function action(help: Help & { run(...args: unknown[]): Promised<VerbResult> }): Add {
  return (command, cli) => {
    describe(command, help)
    command.action(cli.handle(async (...args: unknown[]) => help.run(...args)))
  }
}

/**
 * A verb with one answer, which is printed unchanged with `--json` and by `say` otherwise.
 * `judge` decides the exit code after the answer was shown.
 */
export function verb<Args extends unknown[], Answer>(
  help: Help & {
    ask(...args: Args): Promised<Decision<Answer>>
    say(answer: Answer, ...args: Args): Promised<Said>
    judge?(answer: Answer): VerbResult
  },
): Add {
  return (command, cli) =>
    action({
      ...help,
      async run(...args: Args) {
        const answer = await help.ask(...args)
        const shown = await showAnswer(cli, answer, (value) => help.say(value, ...args))
        return shown.ok && answer.ok && help.judge ? help.judge(answer.value) : shown
      },
    })(command, cli)
}

export type When = (instant: string) => string

/** The columns of a table by title. Cells are untrusted text and shown on one line; `when` shows an instant as a local time. */
export type TableColumns<Row> = Readonly<Record<string, (row: Row, when: When) => string | null | undefined>>

type TableShape<Row> = {
  readonly long?: 'cut' | 'wrap'
  /** The line below a row. */
  readonly below?: TableColumns<Row>[string]
}

export function table<Row>(
  terminal: Terminal,
  columns: TableColumns<Row>,
  rows: readonly Row[],
  { long = 'cut', below = () => '' }: TableShape<Row> = {},
): string {
  const when: When = (instant) => sayTime(terminal, instant)
  const cells = rows.map((row) => Object.values(columns).map((cell) => showLine(cell(row, when) ?? '')))
  const lines = rows.map((row) => showLine(below(row, when) ?? ''))
  return formatTable(terminal, Object.keys(columns), cells, { long, below: lines })
}

/** A verb that lists the resources at a path of the server: as a table of `columns`, or as one text for `each`. */
export function listVerb<Row, Args extends unknown[]>(
  help: Help & {
    at(...args: Args): Promised<string | Decision<string>>
    /** Printed for an empty list. */
    none(...args: Args): string
    readonly columns?: TableColumns<Row>
    readonly below?: TableColumns<Row>[string]
    each?(row: Row, nameOf: NameOf): string
    /** The people whom `each` names. */
    people?(row: Row): readonly string[]
  },
): Add {
  return (command, cli) =>
    verb<Args, Page<Row>>({
      ...help,
      ask: async (...args) => askServer<Page<Row>>(cli, 'GET', await help.at(...args)),
      async say(page, ...args) {
        if (page.items.length === 0) return ['', `${help.none(...args)}\n`]
        const { each, people = () => [], columns = {}, below = () => '' } = help
        if (!each) return [table(cli.terminal, columns, page.items, { below }), moreOf(page)]
        const nameOf = await findNames(cli, page.items.flatMap(people))
        return [page.items.map((row) => each(row, nameOf)).join('\n'), moreOf(page)]
      },
    })(command, cli)
}

/** Returns the line that explains how to get the next page. */
export function moreOf({ next_cursor }: Page<unknown>): string {
  return next_cursor ? `There are more: add --cursor ${showLine(next_cursor)}\n` : ''
}

/** Prints the document with `--json`; calls `say` otherwise. */
export async function showAnswer<Answer>(
  cli: Cli,
  answer: Decision<Answer>,
  say: (answer: Answer) => Promised<Said>,
): Promise<VerbResult> {
  if (!answer.ok) return answer
  const said = cli.isJson() ? `${JSON.stringify(answer.value)}\n` : await say(answer.value)
  const [out, note] = typeof said === 'string' ? [said] : (said ?? [])
  if (out) cli.terminal.out(out)
  if (note) cli.terminal.err(note)
  return accept(undefined)
}

function describe(
  command: Command,
  { description, examples = [], args = [], required = [], options = [] }: Help,
): void {
  command.description(description)
  for (const [name, said] of args) command.argument(name, said)
  for (const [flags, said, ...more] of required) command.requiredOption(flags, said, ...(more as []))
  for (const [flags, said, ...more] of options) command.option(flags, said, ...(more as []))
  if (examples.length === 0) return
  const lines = examples.map((example) => `  $ ${example}\n`).join('')
  command.addHelpText('after', `\nExample${examples.length > 1 ? 's' : ''}:\n${lines}`)
}

export const limitOption: Option = ['--limit <number>', 'maximum number of results, 1 to 500', parseLimit, 50]
export const paging: readonly Option[] = [limitOption, ['--cursor <cursor>', 'continue after a page: its next_cursor']]
export type PageFlags = { readonly limit: number; readonly cursor?: string }

/** `confirm` refuses without this option. */
export const yesOption: Option = ['--yes', 'do not ask for confirmation']
export function confirm(flags: { readonly yes?: boolean }, consequence: string): Refusal | undefined {
  return flags.yes === true ? undefined : refuse('cli.confirmation_missing', consequence, { hint: 'Add --yes.' })
}

function parseLimit(text: string): number {
  const limit = parsePageLimit(text)
  if (limit.ok) return limit.value
  throw new InvalidArgumentError(limit.reason)
}

export function parseWhole(text: string): number {
  if (!/^-?\d{1,9}$/.test(text)) throw new InvalidArgumentError('Expected a whole number.')
  return Number(text)
}

/** Parses a duration that fits a timer. */
export function parseTime(text: string): number {
  const ms = parseKeep(text)
  if (ms > MAX_TIMER_MS) throw new InvalidArgumentError('The maximum is 24d.')
  return ms
}

/** Parses a duration of any length. */
export function parseKeep(text: string): number {
  const duration = parseDuration(text)
  if (!duration.ok) throw new InvalidArgumentError(duration.reason)
  return duration.value
}

/** Turns the value of a decision into its document. */
export function mapAnswer<From, To>(answer: Decision<From>, to: (value: From) => To): Decision<To> {
  return answer.ok ? accept(to(answer.value)) : answer
}
