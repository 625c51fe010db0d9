/** How a command is shown: its name, its status in words, its page with effects and next steps, who answers its approvals. */
import { InvalidArgumentError } from 'commander'
import type { ApprovalView } from '#domains/approvals'
import type { commandView, effectView, NextMove } from '#domains/commands'
import { withShownIds } from '#kernel/ids'
import { statesOf } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import { didYouMean } from '#kernel/nearest'
import { quote, type Refusal } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { showLine, showText } from '#kernel/visible-text'
import { askServer, type Page, queryOf } from './client.ts'
import { table, type TableColumns, type ViewOf } from './noun.ts'
import { type Fact, formatFacts } from './layout.ts'
import { type Cli, colorsOf, shortJson, type Terminal, tint, wordsOf } from './terminal.ts'
import { sayTime } from './times.ts'

export type CommandView = ViewOf<typeof commandView>
type EffectView = ViewOf<typeof effectView>

/** What only people do. A blocked command without these goes on by itself. */
const ASKS: ReadonlySet<string> = new Set(['reconcile_effect', 'decide_approval', 'supply_input', 'lift_stop'])

/** True if nothing happens unless a person acts: the command has ended, or it waits for people. */
export function isAtRest({ status, next, cancellation_requested }: CommandView): boolean {
  if (status === 'compensated') return !cancellation_requested
  if (status === 'blocked' || status === 'running') return next.some(({ action }) => ASKS.has(action))
  return commandMachine.states[status] === 'terminal' || commandMachine.states[status] === 'paused'
}

export function titleOf({ task_name, command_type }: Pick<CommandView, 'task_name' | 'command_type'>): string {
  return showLine(task_name ?? command_type)
}

/** The end of a sentence: "has failed", "is waiting for approval". */
export function sayStatus(status: string): string {
  return sayState(showLine(status))
}

export function parseStatus(text: string): string {
  const known: readonly string[] = statesOf(commandMachine)
  if (known.includes(text)) return text
  const { hint = `Use one of ${known.join(', ')}.` } = didYouMean(text, known)
  throw new InvalidArgumentError(`${quote(text)} is not a status. ${hint}`)
}

/** The status and, where there is one, the class of its error. */
export function statusWords({ status, error_class }: Pick<CommandView, 'status' | 'error_class'>): string {
  return error_class === null ? wordsOf(status) : `${wordsOf(status)} (${wordsOf(error_class)})`
}

export function formatCommand(terminal: Terminal, command: CommandView, effects: readonly EffectView[]): string {
  const { bold } = colorsOf(terminal)
  const { error, error_class, completed_at, attempt } = command
  const facts = formatFacts(terminal, 8, [
    ['id', command.command_id],
    [
      'asked by',
      `${showLine(command.requested_by_name ?? command.requested_by)} at ${sayTime(terminal, command.created_at)}`,
    ],
    completed_at === null
      ? ['changed', sayTime(terminal, command.updated_at)]
      : ['ended', sayTime(terminal, completed_at)],
    ['run', attempt > 1 ? String(attempt) : null],
    ['payload', shortJson(command.payload)],
    ['undo', command.undo && `${command.undo.command_id} ${sayStatus(command.undo.status)}`],
    ['error', error && `${showText(error)}${error_class === null ? '' : ` (${showLine(error_class)})`}`],
  ])
  const title = `${bold(titleOf(command))} ${tint(terminal, sayStatus(command.status), command.status)}`
  const result = command.result === null ? '' : `\n${formatResult(terminal, command.result)}`
  return `${title}\n${facts}${result}${formatNext(terminal, command)}${formatEffects(terminal, effects)}`
}

/** One line for each field; a text of several lines is a block. */
export function formatResult(terminal: Terminal, result: unknown): string {
  const shown = withShownIds(result)
  if (typeof shown !== 'object' || shown === null || Array.isArray(shown)) return `result  ${shortJson(shown, 2_000)}\n`
  const facts = Object.entries(shown).map(([name, value]): Fact => {
    const text = typeof value === 'string' ? showText(value).trimEnd() : shortJson(value, 2_000)
    return [showLine(name), text.includes('\n') ? `\n${text}` : text]
  })
  return `result\n${formatFacts(terminal, Math.max(0, ...facts.map(([name]) => name.length)), facts)}`
}

/** The command line for an action. While Concord acts by itself, and for the actions of a newer server, the explanation says more. */
function verbOf(action: string, command: CommandView): string {
  const { command_id: id } = command
  const verbs: Readonly<Record<NextMove['action'], string>> = {
    wait: `concord why ${id}`,
    undo: `concord undo ${id}`,
    submit_again: `concord submit ${quote(titleOf(command))} --payload '{…}'`,
    cancel: `concord cancel ${id}`,
    free_key: `concord cancel ${id} --force`,
    retry: `concord retry ${id}`,
    // The fields of a blocked command are those of a call of its agent, which the sentence names.
    supply_input: command.status === 'blocked' ? `concord why ${id}` : `concord commands input ${id} --payload '{…}'`,
    decide_approval: 'concord inbox',
    lift_stop: 'concord stop',
    reconcile_effect: 'concord inbox',
  }
  return action in verbs ? verbs[action as NextMove['action']] : `concord why ${id}`
}

function formatNext(terminal: Terminal, command: CommandView): string {
  if (command.next.length === 0) return '\nnext: nothing, it has ended\n'
  const names = command.next.map(({ action }) => wordsOf(action))
  const facts = command.next.map(({ action, by, what }, at): Fact => {
    const sentence = showLine(what).replace(/\.?$/, ` (${by.map(showLine).join(', ')})`)
    return [names[at] ?? '', `${sentence}\n${verbOf(action, command)}`]
  })
  return `\n${colorsOf(terminal).bold('next')}\n${formatFacts(terminal, Math.max(...names.map(({ length }) => length)), facts)}`
}

function formatEffects(terminal: Terminal, effects: readonly EffectView[]): string {
  if (effects.length === 0) return ''
  const columns: TableColumns<EffectView> = {
    effect: (effect) => effect.effect_type + (effect.compensates_effect_id === null ? '' : ' (undo)'),
    status: ({ status }) => wordsOf(status),
    attempt: ({ attempt, max_attempts }) => `${attempt} of ${max_attempts}`,
    error: ({ error, run_after }, when) => error && error + (run_after === null ? '' : `; again ${when(run_after)}`),
  }
  return `\n${table(terminal, columns, effects, { long: 'wrap' })}`
}

/** Adds to a waiting command who answers its approvals; keeps the hint where the server does not answer. */
export async function withWhoAnswers(cli: Cli, waiting: Refusal, commandId: string): Promise<Refusal> {
  const lines = await listWhoAnswers(cli, commandId)
  return lines.length === 0 ? waiting : { ...waiting, hint: lines.join('\n') }
}

/** One line per open approval of a command: who answers it, and how. */
export async function listWhoAnswers(cli: Cli, commandId: string): Promise<string[]> {
  const path = `/approvals${queryOf({ command_id: commandId, status: 'pending' })}`
  const listed = await askServer<Page<ApprovalView>>(cli, 'GET', path)
  return listed.ok ? listed.value.items.map(sayHow) : []
}

function sayHow({ approval_id: id, approver, approver_name, may_decide, blocked_by }: ApprovalView): string {
  if (blocked_by) return `${showLine(blocked_by.reason)} To do: ${showLine(blocked_by.hint)}`
  const who = may_decide ? 'You answer' : `${showLine(approver_name ?? approver)} answers`
  return `${who} with \`concord approve ${id}\` or \`concord deny ${id} --reason "…"\`.`
}
