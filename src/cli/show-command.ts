/** One command on a page for people: where it stands, what can happen now, what it did to the outside world. */
import { showLine, showText } from '#kernel/visible-text'
import { type CommandView, nameOf, shortJson, wordsOf, sayStatus } from './command-view.ts'
import { colorsOf, formatTable, type Terminal } from './terminal.ts'

export type EffectView = {
  readonly effect_type: string
  readonly status: string
  readonly attempt: number
  readonly max_attempts: number
  readonly error: string | null
  readonly compensates_effect_id: string | null
  readonly run_after: string | null
}

export function formatCommand(terminal: Terminal, command: CommandView, effects: readonly EffectView[]): string {
  const color = colorsOf(terminal)
  const lines: (readonly [string, string] | undefined)[] = [
    ['id', command.command_id],
    ['asked by', `${showLine(command.requested_by_name ?? command.requested_by)} at ${command.created_at}`],
    command.completed_at === null ? ['changed', command.updated_at] : ['ended', command.completed_at],
    command.attempt > 1 ? ['run', String(command.attempt)] : undefined,
    ['payload', shortJson(command.payload)],
    command.result === null ? undefined : ['result', shortJson(command.result, 2_000)],
    command.error === null
      ? undefined
      : [
          'error',
          `${showText(command.error)}${command.error_class === null ? '' : ` (${showLine(command.error_class)})`}`,
        ],
  ]
  const head = `${color.bold(nameOf(command))} ${color.bold(sayStatus(command.status))}\n`
  const facts = lines.map((line) => (line ? `  ${line[0].padEnd(8)}  ${line[1]}\n` : '')).join('')
  return head + facts + formatNext(command) + formatEffects(effects)
}

/** What a person types for it; what Concord does by itself has no verb. */
function verbOf(action: string, { command_id: id }: CommandView): string {
  const verbs: Readonly<Record<string, string>> = {
    cancel: `concord cancel ${id}`,
    retry: `concord retry ${id}`,
    supply_input: `concord commands input ${id} --payload '{…}'`,
    decide_approval: 'concord inbox',
    reconcile_effect: 'concord inbox',
  }
  return verbs[action] ?? ''
}

function formatNext(command: CommandView): string {
  if (command.next.length === 0) return '\nnext: nothing, it has ended\n'
  const rows = command.next.map(({ action, by, what }) => [
    wordsOf(action),
    by.map(showLine).join(', '),
    showLine(what),
    verbOf(action, command),
  ])
  return `\n${formatTable(['next', 'by', 'what', 'how'], rows)}`
}

function formatEffects(effects: readonly EffectView[]): string {
  if (effects.length === 0) return ''
  const rows = effects.map((effect) => [
    showLine(effect.effect_type) + (effect.compensates_effect_id === null ? '' : ' (undo)'),
    wordsOf(effect.status),
    `${effect.attempt} of ${effect.max_attempts}`,
    effect.error === null
      ? ''
      : showLine(effect.error) + (effect.run_after === null ? '' : `; again ${effect.run_after}`),
  ])
  return `\n${formatTable(['effect', 'status', 'attempt', 'error'], rows)}`
}
