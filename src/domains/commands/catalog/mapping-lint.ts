/** The twelve questions that a deterministic task has to answer before it is registered; each gap has the question's name. Pure. */
import { canMove } from '#kernel/machine'
import { commandMachine } from '#kernel/machines/command'
import { quote } from '#kernel/refusal'
import type { CommandType } from './definitions.ts'
import { type CatalogFinding, finding } from './finding.ts'
import type { TaskSpec } from './task-spec.ts'

export const mappingQuestions = [
  'ingress',
  'command',
  'context',
  'policy_checks',
  'sync_or_async',
  'approval',
  'connector',
  'artifacts',
  'memory',
  'notification',
  'state_lifecycle',
  'audit_events',
] as const
type MappingQuestion = (typeof mappingQuestions)[number]

export type MappingGap = { readonly question: MappingQuestion; readonly message: string; readonly isWarning: boolean }

export function findMappingGaps(task: TaskSpec, type: CommandType | undefined): readonly MappingGap[] {
  const gaps: MappingGap[] = []
  const gap = (question: MappingQuestion, message: string, isWarning = false) =>
    gaps.push({ question, message, isWarning })
  const makes = (prefix: string) => type?.side_effects.some((effect) => effect.startsWith(prefix)) ?? false

  if (task.ingress_types.length === 0) gap('ingress', 'no way in: ingress_types is empty')
  if (!type) gap('command', `the command type ${quote(task.command_type)} is not registered`)
  if (type && type.cancellable_by.length === 0) gap('context', 'nobody is named who may cancel it')
  if (task.policy_checks.length === 0 && (type?.policies.length ?? 0) === 0)
    gap('policy_checks', 'no policy is asked, so everything is denied')
  if (!task.sync_allowed && !task.async_required)
    gap('sync_or_async', 'neither sync_allowed nor async_required: it runs async', true)
  if (task.risk_level === 'high' && !task.approval_required && !type?.approval.required) {
    gap('approval', 'a task of high risk needs an approval')
  }
  for (const connector of connectorsOf(type)) {
    if (!task.connector_requirements.includes(connector))
      gap('connector', `it calls ${quote(connector)}, which connector_requirements does not name`)
  }
  if (makes('artifact.') && !task.artifact_output_possible)
    gap('artifacts', 'it writes artifacts and artifact_output_possible is false')
  if (makes('memory.') && !task.memory_write_possible)
    gap('memory', 'it writes memory and memory_write_possible is false')
  if (makes('notification.') && !task.notification_required)
    gap('notification', 'it notifies and notification_required is false')
  const broken = findBrokenStep(task.metadata['lifecycle'])
  if (broken !== undefined) gap('state_lifecycle', broken)
  if (type && type.audit.length === 0) gap('audit_events', 'no event is named that must be on record')
  return gaps
}

/** `connector.hotel_booking.book_hotel` calls the connector `hotel_booking`. */
function connectorsOf(type: CommandType | undefined): readonly string[] {
  const names = (type?.side_effects ?? [])
    .filter((effect) => effect.startsWith('connector.'))
    .map((effect) => effect.split('.')[1] ?? '')
  return [...new Set(names)]
}

/** A declared lifecycle must be a path of the command machine from its first state. */
export function findBrokenStep(lifecycle: unknown): string | undefined {
  if (lifecycle === undefined) return undefined
  if (!Array.isArray(lifecycle) || !lifecycle.every((state) => typeof state === 'string'))
    return 'lifecycle is a list of states'
  const states = lifecycle as readonly string[]
  if (states[0] !== commandMachine.initial) return `lifecycle starts with ${commandMachine.initial}`
  const at = states.findIndex((state, index) => index > 0 && !canMove(commandMachine, states[index - 1] ?? '', state))
  return at === -1 ? undefined : `lifecycle: ${states[at - 1]} does not go to ${quote(states[at] ?? '')}`
}

export function gapFindings(task: TaskSpec, gaps: readonly MappingGap[]): readonly CatalogFinding[] {
  return gaps.map(({ question, message }) =>
    finding(`mapping.${question}`, task.name, `${quote(task.name)}, question ${question}: ${message}`),
  )
}
