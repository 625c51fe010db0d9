/** Artifacts in the hands of an effect: a writer that speaks in the failures of effects, and whose rows come with the effect's outcome. */
import {
  type ArtifactDraft,
  type ArtifactDeps,
  openArtifactWriter,
  type ArtifactWriter,
  saveArtifacts,
  type StoredArtifact,
  artifactRefusals,
} from '#domains/artifacts'
import { type Decision, isUnavailable, type Refusal } from '#kernel/refusal'
import { kernelRefusals } from '#kernel/refusals'
import { storeRefusals, type Tx } from '#store'
import { type EffectArtifacts, EffectFailure } from './catalog/effect-definition.ts'
import type { StoredCommand, StoredEffect } from './command-row.ts'
import { byWorker } from './deps.ts'

/** The same call can succeed later: a store or the database does not answer. */
export function isPassing({ code }: Refusal): boolean {
  return isUnavailable([kernelRefusals, storeRefusals, artifactRefusals], code)
}

/** What cannot be stored now can be later. */
function failureOf(refusal: Refusal, happened: 'no' | 'unknown'): EffectFailure {
  const said = refusal.path === undefined ? refusal.reason : `${refusal.path}: ${refusal.reason}`
  return isPassing(refusal)
    ? new EffectFailure('transient_connector_error', said, happened)
    : new EffectFailure('validation_error', said, happened)
}

/** For a place that has no store of artifacts, or no transaction to put their rows into. */
export function withoutArtifacts(why: string): EffectArtifacts {
  const no = () => Promise.reject(new EffectFailure('internal_error', why, 'no'))
  return { write: no, find: no, text: no, publish: no, withdraw: no }
}

export type EffectPen = { readonly artifacts: EffectArtifacts; readonly writer: ArtifactWriter }

export function openEffectPen(deps: ArtifactDeps, command: StoredCommand, effect: StoredEffect): EffectPen {
  const writer = openArtifactWriter(deps, {
    workspaceId: command.workspace_id,
    commandId: command.command_id,
    effectId: effect.domain_effect_id,
    agentRunId: null,
    swarmRunId: null,
    createdBy: command.requested_by,
    seesAll: command.context.metadata['role'] === 'admin',
    undoneEffectId: effect.compensates_effect_id,
    scope: effect.domain_effect_id,
  })
  // Whether a handler did something outside before it wrote, nobody here knows; one of artifacts did not.
  const afterWrite = effect.effect_type.startsWith('artifact.') ? 'no' : 'unknown'
  // A handler reads what it works with before it does its deed: without its input there was none.
  const afterRead = () => (writer.writes.length === 0 ? 'no' : afterWrite)
  const valueOf = <T>(decision: Decision<T>, happened: 'no' | 'unknown'): T => {
    if (decision.ok) return decision.value
    throw failureOf(decision, happened)
  }
  const artifacts: EffectArtifacts = {
    write: async (draft: ArtifactDraft, name?: string) => valueOf(await writer.write(draft, name), afterWrite),
    find: async (id): Promise<StoredArtifact> => valueOf(await writer.find(id), afterRead()),
    text: async (id) => valueOf(await writer.text(id), afterRead()),
    publish: async (id, destination) => void valueOf(await writer.publish(id, destination), afterWrite),
    withdraw: async (id) => void valueOf(await writer.withdraw(id), afterWrite),
  }
  return { artifacts, writer }
}

/** Undefined: the effect has written nothing, and its outcome may go through the lane. */
export function strokesToSave(
  deps: ArtifactDeps | undefined,
  writer: ArtifactWriter | undefined,
  command: StoredCommand,
): ((tx: Tx) => Promise<void>) | undefined {
  if (!deps || !writer || writer.writes.length === 0) return undefined
  const by = { ...byWorker, traceId: command.context.trace_id }
  return (tx) => saveArtifacts(tx, deps, by, command.workspace_id, writer.writes)
}
