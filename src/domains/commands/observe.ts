/** The telemetry of commands: the spans of submit, turn, effect and the whole life, and what is counted when a write has committed. */
import { encodeId } from '#kernel/ids'
import type { Decision } from '#kernel/refusal'
import type { Next } from '#runtime'
import { inSpan, type OpenSpan, recordSpan, traceparentOf } from '#telemetry'
import type { Turn } from '#turns'
import type { CompiledTask } from './catalog/open-catalog.ts'
import type { Write, WriteEvent } from './change.ts'
import type { HeldCommand, StoredCommand, StoredEffect } from './command-table.ts'
import type { CallResult } from './tasks.ts'

/** Called once for each counted event of a committed write: a status that a command has reached, or a retry by its error class. */
export type Count = (counted: 'status' | 'retry', label: string) => void

const about = ({ command_id, command_type, task_name, workspace_id }: StoredCommand) => ({
  'concord.command.id': encodeId('command', command_id),
  'concord.command.type': command_type,
  'concord.task.name': task_name,
  'concord.workspace.id': encodeId('workspace', workspace_id),
})

const parentOf = ({ command_id, context }: StoredCommand) =>
  context.traceparent ?? traceparentOf(context.trace_id, command_id)

type Submitted = { readonly command: StoredCommand; readonly isNew: boolean }

/** Its span is the parent of the turns of the command, in any process. */
export function traceSubmit(
  { type, queue }: Pick<CompiledTask, 'type' | 'queue'>,
  submit: () => Promise<Decision<Submitted>>,
): Promise<Decision<Submitted>> {
  const termsOf = () => ({
    name: `submit ${type.name}`,
    kind: 'PRODUCER' as const,
    attributes: messaging('submit', 'send', queue),
  })
  return inSpan(termsOf, async (span) => {
    const submitted = await submit()
    if (!submitted.ok) span?.fail(submitted.code)
    else if (span) span.set({ ...about(submitted.value.command), 'concord.command.is_new': submitted.value.isNew })
    return submitted
  })
}

const messaging = (name: string, type: 'send' | 'process', queue?: string) => ({
  'messaging.system': 'concord',
  'messaging.operation.name': name,
  'messaging.operation.type': type,
  ...(queue === undefined ? {} : { 'messaging.destination.name': queue }),
})

export function traceTurn(turn: Turn<HeldCommand>, drive: () => Promise<Next>): Promise<Next> {
  const { command } = turn.found
  const termsOf = () => ({
    name: `turn ${command.command_type}`,
    kind: 'CONSUMER' as const,
    parent: parentOf(command),
    attributes: { ...messaging('turn', 'process'), ...about(command), 'concord.turn.name': turn.name },
  })
  return inSpan(termsOf, async (span) => {
    const next = await drive()
    span?.set({
      'concord.turn.next': turn.isLost ? 'lost' : next.t,
      'concord.command.status': turn.found.command.status,
    })
    return next
  })
}

type Called = { readonly result: CallResult } | undefined

/** Undefined: the turn was lost, or an inline call did not end. */
export function traceEffect<T extends Called>(
  command: StoredCommand,
  effect: StoredEffect,
  call: () => Promise<T>,
): Promise<T> {
  const termsOf = () => ({
    name: `effect ${effect.effect_type}`,
    kind: 'INTERNAL' as const,
    attributes: {
      ...about(command),
      'concord.effect.id': encodeId('effect', effect.domain_effect_id),
      'concord.effect.type': effect.effect_type,
      'concord.effect.attempt': effect.attempt,
    },
  })
  return inSpan(termsOf, async (span) => {
    const called = await call()
    if (span) describeCall(span, called)
    return called
  })
}

function describeCall(span: OpenSpan, called: Called): void {
  span.set({ 'concord.effect.outcome': called?.result.t ?? 'none' })
  if (called?.result.t === 'failed') span.fail(called.result.failure.errorClass)
}

/** Call it after the commit, with the command as it was written. */
export function observeCommit(
  count: Count | undefined,
  command: StoredCommand,
  { events, set }: { readonly events: readonly WriteEvent[]; readonly set: Pick<Write['set'], 'completed_at'> },
): void {
  if (count) for (const event of events) countEvent(count, event)
  const to = set.completed_at
  if (to instanceof Date) recordSpan(() => lifeOf(command, to))
}

function countEvent(count: Count, { event_type, payload }: WriteEvent): void {
  if (event_type === 'command_created') count('status', 'created')
  else if (event_type === 'retry_scheduled') count('retry', String(payload['error_class']))
  else if (event_type === 'status_changed' && payload['target_type'] === 'command')
    count('status', String(payload['to']))
}

/** From the submit to the end, with all waiting. */
function lifeOf(command: StoredCommand, to: Date) {
  const { command_type, status, created_at, error_class } = command
  return {
    name: `command ${command_type}`,
    kind: 'INTERNAL' as const,
    parent: parentOf(command),
    attributes: {
      ...about(command),
      'concord.command.status': status,
      ...(error_class === null ? {} : { 'error.type': error_class }),
    },
    from: created_at,
    to,
  }
}
