/** Makes a command wait for fields that it lacks: the request is an effect of its own, so asking leaves the same trace as doing. */
import type { CommandWithEffects, StoredEffect } from './command-row.ts'
import type { NewEffect, WriteDraft } from './draft-write.ts'
import { bySystem } from './deps.ts'

export const REQUEST_INPUT = 'user.request_input'
export const REQUEST_APPROVAL = 'approval.request'

const MINUTE_MS = 60_000

export type InputRequest = {
  readonly fields: readonly string[]
  readonly expiresInMinutes: number
  readonly id: string
  readonly at: Date
}

/** Adds the effect, the event and, at the end of the turn, the time at which waiting is over. */
export function requestInputInto(
  draft: WriteDraft,
  { command, effects }: CommandWithEffects,
  request: InputRequest,
): WriteDraft {
  const expiresAt = new Date(request.at.getTime() + request.expiresInMinutes * MINUTE_MS)
  const asked = effects.filter(({ effect_type }) => effect_type === REQUEST_INPUT).length
  const key = asked === 0 ? `input:${command.command_id}` : `input:${command.command_id}:${asked + 1}`
  const payload = { missing_fields: request.fields, expires_at: expiresAt.toISOString() }
  draft.plan(
    doneEffect({ id: request.id, type: REQUEST_INPUT, payload, key, order: effects.length, at: request.at }),
    bySystem,
  )
  draft.tell('input_requested', bySystem, { missing_fields: request.fields, expires_at: expiresAt.toISOString() })
  return draft.release(expiresAt)
}

/** When waiting for input is over; null: nothing was asked. */
export function inputDeadline(effects: readonly StoredEffect[]): Date | null {
  const asked = effects.filter(({ effect_type }) => effect_type === REQUEST_INPUT).at(-1)
  const text = asked?.effect_payload['expires_at']
  return typeof text === 'string' ? new Date(text) : null
}

export type DoneEffect = {
  readonly id: string
  readonly type: string
  readonly payload: NewEffect['effect_payload']
  readonly key: string
  readonly order: number
  readonly at: Date
}

/** An effect that is done by the very transaction that records it: a question put on somebody's desk. */
export function doneEffect({ id, type, payload, key, order, at }: DoneEffect): NewEffect {
  return {
    domain_effect_id: id,
    effect_type: type,
    effect_payload: payload,
    idempotency_key: key,
    status: 'succeeded',
    executed_by_runtime_workflow_id: null,
    result: null,
    compensates_effect_id: null,
    declared_compensation: null,
    declaration_order: order,
    attempt: 1,
    max_attempts: 1,
    turn_token: null,
    reversibility: 'irreversible',
    completed_at: at,
  }
}
