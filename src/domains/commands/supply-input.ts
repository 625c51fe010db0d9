/** Gives a waiting command the fields it lacked; it is validated and put to policy again. */
import type { JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-value-guard'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { failpoint } from '#store'
import type { StoredCommand } from './command-row.ts'
import { lockCase, refuseMissing } from './command-repository.ts'
import { payloadHash } from './content.ts'
import { checkSecrets } from '#kernel/data-class'
import { sayState } from '#kernel/say-state'
import { decideMayCancel } from './decide-cancel.ts'
import { draftWrite, type Who } from './draft-write.ts'
import { commitAndGoOn } from './go-on.ts'
import { inputDeadline } from './request-input.ts'
import { recordRefusal } from './record-refusal.ts'
import { taskOf } from './task-of.ts'
import { validatePayload } from './validate-payload.ts'
import { refuseTaskGone } from './wait-for-task.ts'
import type { Acting, CommandDeps } from './deps.ts'

export type SupplyInput = { readonly workspaceId: string; readonly commandId: string; readonly input: JsonObject }

export async function supplyInput(
  deps: CommandDeps,
  by: Acting,
  { workspaceId, commandId, input }: SupplyInput,
): Promise<Decision<StoredCommand>> {
  const guarded = guardValue(input)
  if (!guarded.ok) return guarded
  return deps.db.transaction(async (tx): Promise<Decision<StoredCommand>> => {
    const found = await lockCase(tx, workspaceId, commandId)
    if (!found) return refuseMissing()
    const { command } = found
    // Whoever may stop it may also answer for it.
    const allowed = decideMayCancel({ cancellable_by: ['requester', 'admin'] }, command, by)
    if (!allowed.ok)
      return refuse('commands.action.not_allowed', 'Only the requester and administrators may add input.')
    const deadline = inputDeadline(found.effects)
    if (command.status !== 'waiting_for_input' || (deadline !== null && deadline <= deps.now())) {
      const reason = `This command does not wait for input; it ${sayState(command.status)}.`
      const refusal = refuse('commands.command.not_waiting', reason, { facts: { status: command.status } })
      return tx.commitRefusal(await recordRefusal(tx, deps, by, command, 'validated', refusal))
    }
    const task = taskOf({ deps, command })
    if (!task) return refuseTaskGone(command)
    const payload = { ...command.payload, ...input }
    const secrets = checkSecrets(payload, task.type.fields)
    if (!secrets.ok) return { ...secrets, path: `input.${secrets.path ?? ''}` }
    const verdict = validatePayload(task.type, task.spec, payload)
    if (verdict.t === 'malformed')
      return refuse('commands.payload.malformed', verdict.errors.join('; '), { path: 'input' })
    if (verdict.t === 'missing') {
      const named = verdict.fields.join(', ')
      return refuse('commands.payload.malformed', `Still missing: ${named}.`, {
        path: 'input',
        facts: { missing_fields: verdict.fields },
      })
    }
    const who: Who = { actor: by.actor, kind: by.kind === 'operator' ? 'operator' : 'user' }
    const draft = draftWrite(command, 'any', { at: deps.now(), newId: deps.newId })
    draft.set({ payload: verdict.payload, payload_hash: payloadHash(verdict.payload), run_after: deps.now() })
    draft.tell('input_supplied', who, { fields: Object.keys(input).toSorted() }).move('validated', who)
    const written = await commitAndGoOn(deps, tx, found, draft)
    if (!written.ok) return written
    await failpoint('commands.input_supplied')
    return accept(written.value.command)
  })
}
