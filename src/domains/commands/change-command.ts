/** The changes that people make to a waiting or failed command: supply input, retry, compensate. */
import type { Actor } from '#kernel/actor'
import { checkSecrets } from '#kernel/data-class'
import type { JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import type { CommandState } from '#kernel/machines/command'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'
import { sayState } from '#kernel/say-state'
import { failpoint, type Sql, type Tx } from '#store'
import { commitAndResume } from '#turns'
import { askedFields, inputDeadline, isEqual, mayReplace, recordInput } from './asks.ts'
import { reasonOf } from './cancel-command.ts'
import { applyChanges, applyWrite, type Change, move, openDraft, set, emitEvent, type Who } from './change.ts'
import { contractKeyOf, fillMissing, moveKey, takeContractKey } from './command-keys.ts'
import { type CommandWithEffects, type HeldCommand, processOf, type StoredCommand } from './command-table.ts'
import { type CommandDeps, lockAllowed } from './deps.ts'
import { appendCommandEvent } from './events.ts'
import { isInDoubt, sayAgain } from './standing.ts'
import { payloadHash, refuseTaskGone, taskOf, validatePayload, wakeOptionsOf } from './tasks.ts'

type SupplyInput = { readonly workspaceId: string; readonly commandId: string; readonly input: JsonObject }

/**
 * Adds the missing fields to a waiting command, which is then validated and evaluated by policy again. A value that was given is replaced only if an
 * approver asked for changes. The contract's key moves with the fields that it is made of.
 */
export async function supplyInput(
  deps: CommandDeps,
  by: Actor,
  { workspaceId, commandId, input }: SupplyInput,
): Promise<Decision<StoredCommand>> {
  const guarded = guardValue(input)
  if (!guarded.ok) return guarded
  return deps.db.transaction(async (tx): Promise<Decision<StoredCommand>> => {
    const locked = await lockAllowed(tx, by, workspaceId, commandId)
    if (!locked.ok) return locked
    const { value: found } = locked
    const { command } = found
    const deadline = inputDeadline(found.effects)
    if (command.status !== 'waiting_for_input' || (deadline !== null && deadline <= deps.now())) {
      const reason = `This command does not wait for input; it ${sayState(command.status)}.`
      const refusal = refuse('commands.command.not_waiting', reason, { facts: { status: command.status } })
      return tx.commitRefusal(await recordRefusal(tx, deps, by, command, 'validated', refusal))
    }
    const task = taskOf(deps.catalog, command)
    if (!task) return refuseTaskGone(command)
    const merged = mayReplace(found.effects)
      ? accept({ ...command.payload, ...input })
      : fillMissing(command.payload, input, askedFields(found.effects))
    if (!merged.ok) return merged
    const { value: payload } = merged
    const secrets = checkSecrets(payload, task.type.fields)
    if (!secrets.ok) return { ...secrets, path: `input.${secrets.path ?? ''}` }
    const verdict = validatePayload(task.type, task.spec, payload)
    if (verdict.t === 'malformed')
      return refuse('commands.payload.malformed', verdict.errors.join('; '), { path: 'input' })
    if (verdict.t === 'missing') {
      const more = { path: 'input', facts: { missing_fields: verdict.fields } }
      return refuse('commands.payload.malformed', `Still missing: ${verdict.fields.join(', ')}.`, more)
    }
    const who: Who = { id: by.id, kind: by.kind === 'operator' ? 'operator' : 'user' }
    const { payload: fitting } = verdict
    const key = contractKeyOf(task, fitting, 'input')
    if (!key.ok) return key
    const fields = Object.keys(input).toSorted()
    const changes = [
      ...recordInput(found.effects, who, {
        by: by.id,
        fields: fields.filter((name) => !isEqual(fitting[name], command.payload[name])),
      }),
      set({ payload: fitting, payload_hash: payloadHash(fitting), run_after: deps.now() }),
      emitEvent('input_supplied', who, { fields }),
      ...moveKey(command, key.value, who, 'input_supplied'),
      move('validated', who),
    ]
    const taking = { command, changes }
    const written = await takeContractKey(tx, task, taking, (at) => resumeCommandWith(deps, at, found, changes))
    if (written.ok) await failpoint('commands.input_supplied')
    return written
  })
}

type AfterFailedRun = {
  readonly workspaceId: string
  readonly commandId: string
  readonly reason?: string | undefined
}

/** A person or a rule has rejected it: another run would only ask again. */
const FINAL = ['policy_denied', 'approval_rejected', 'malformed_payload', 'permission_denied']

function hintOf(found: CommandWithEffects): { readonly hint?: string } {
  const again = sayAgain(found)
  return again === undefined ? {} : { hint: again }
}

/** `max_attempts` of the task limits the runs of a command, including the first. */
export function decideRetryRun(found: CommandWithEffects, maxAttempts: number): Decision<number> {
  const { command, effects } = found
  if (command.status !== 'failed') {
    return refuseNotFailed('Only a failed command can be retried', command)
  }
  if (command.plan === null || FINAL.includes(command.error_class ?? '')) {
    return refuse('commands.retry.rejected', 'This command was rejected and cannot be retried.', {
      ...hintOf(found),
      facts: { error_class: command.error_class },
    })
  }
  // Another run keeps the effects that succeeded. An effect that was undone would count as done.
  const own = new Set(effects.map(({ domain_effect_id }) => domain_effect_id))
  const isUndone = effects.some(({ compensates_effect_id: of, status }) => own.has(of ?? '') && status !== 'failed')
  if (command.cancellation_requested || isUndone)
    return refuse('commands.retry.undone', 'Its effects are being undone, so it cannot be run again.')
  if (effects.some(isInDoubt))
    return refuse(
      'commands.retry.in_doubt',
      'One of its effects may have acted, although it failed. Another run could repeat it.',
    )
  if (command.attempt >= maxAttempts) {
    return refuse('commands.retry.exhausted', `It has run ${command.attempt} times, which is the maximum.`, {
      ...hintOf(found),
      facts: { attempt: command.attempt, max_attempts: maxAttempts },
    })
  }
  return accept(command.attempt + 1)
}

/** A command that freed its key takes it again, or is refused if another command was asked for the same thing meanwhile. */
export function retryCommand(deps: CommandDeps, by: Actor, input: AfterFailedRun): Promise<Decision<StoredCommand>> {
  return afterFailure(deps, by, input, 'queued', (found) => {
    const { command } = found
    const task = taskOf(deps.catalog, command)
    const attempt = decideRetryRun(found, task?.spec.max_attempts ?? 1)
    if (!attempt.ok) return attempt
    const key = task && command.contract_key === null ? contractKeyOf(task, command.payload, 'payload') : undefined
    if (key && !key.ok) return key
    return accept([
      ...moveKey(command, key ? key.value : command.contract_key, by, 'retry_requested'),
      emitEvent('retry_requested', by, {
        attempt: attempt.value,
        reason: reasonOf(input.reason),
        last_error: command.error,
        error_class: command.error_class,
      }),
      set({
        attempt: attempt.value,
        error: null,
        error_class: null,
        result: null,
        run_after: deps.now(),
        runtime_workflow_id: `command:${command.command_id}:r${attempt.value}`,
      }),
      move('queued', by, { attempt: attempt.value }),
    ])
  })
}

/** Undoes the effects of a failed command in reverse order. For operators and policies. */
export function compensateCommand(
  deps: CommandDeps,
  by: Actor,
  input: AfterFailedRun,
): Promise<Decision<StoredCommand>> {
  return afterFailure(deps, by, input, 'compensating', ({ command }) => {
    if (command.status !== 'failed') return refuseNotFailed('Only a failed command can be compensated', command)
    if (by.kind !== 'operator' && by.kind !== 'system')
      return refuse('commands.action.not_allowed', 'Only an operator may compensate a failed command.')
    return accept([set({ run_after: deps.now() }), move('compensating', by, { reason: reasonOf(input.reason) })])
  })
}

function refuseNotFailed(rule: string, { status }: StoredCommand): Refusal {
  return refuse('commands.command.not_failed', `${rule}; this one ${sayState(status)}.`, { facts: { status } })
}

async function afterFailure(
  deps: CommandDeps,
  by: Actor,
  { workspaceId, commandId }: AfterFailedRun,
  to: CommandState,
  decide: (found: CommandWithEffects) => Decision<readonly Change[]>,
): Promise<Decision<StoredCommand>> {
  return deps.db.transaction(async (tx): Promise<Decision<StoredCommand>> => {
    const locked = await lockAllowed(tx, by, workspaceId, commandId)
    if (!locked.ok) return locked
    const { value: found } = locked
    const decided = decide(found)
    if (!decided.ok) return tx.commitRefusal(await recordRefusal(tx, deps, by, found.command, to, decided))
    const task = taskOf(deps.catalog, found.command)
    const write = (at: Tx) => resumeCommandWith(deps, at, found, decided.value)
    const taking = { command: found.command, changes: decided.value }
    const written = task ? await takeContractKey(tx, task, taking, write) : await write(tx)
    if (written.ok) await failpoint('commands.retry_written')
    return written
  })
}

/** Commits the changes of a person's decision and lets the command continue, in the transaction that has locked `found`. */
export async function resumeCommandWith(
  deps: CommandDeps,
  tx: Tx,
  found: HeldCommand,
  changes: readonly Change[],
): Promise<Decision<StoredCommand>> {
  const at = deps.now()
  const { now, write } = applyChanges(openDraft(found, 'any', at), changes, at)
  // A command that the decision has ended, or for which it asks for more input, does not continue.
  const continues = now.command.status !== found.command.status && !(write.set.completed_at instanceof Date)
  const process = processOf(found.command.command_id)
  const { queue } = wakeOptionsOf(deps.catalog, found.command)
  const resumed = await commitAndResume(deps, tx, { process, queue, continues }, async (takes) => {
    const written = await deps.writes.commitIn(tx, write, takes)
    if (!written.ok) return written
    const { command } = written.value
    const effects = applyWrite(found.effects, write)
    return accept({ turnToken: command.turn_token, found: { ...found, command, effects } })
  })
  return resumed.ok ? accept(resumed.value.found.command) : resumed
}

/** Records a requested move that the state does not allow. The row is not changed. */
async function recordRefusal(
  sql: Sql,
  deps: CommandDeps,
  by: Actor,
  command: StoredCommand,
  to: CommandState,
  refusal: Refusal,
): Promise<Refusal> {
  const payload = { from: command.status, to, code: refusal.code, reason: refusal.reason }
  await appendCommandEvent(sql, deps, by, 'status_change_refused', command, payload)
  return refusal
}
