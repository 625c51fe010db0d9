/**
 * Converts ids at the boundary: `cmd_<32 hex>` outside, a canonical UUID inside. One codec, one table of prefixes, one output form.
 * Trace and request ids have no row and stay text.
 */
import { KernelFault } from './errors.ts'
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'
import { hexOfUuid, uuidOfHex, uuidV4 } from './uuid.ts'

/** Only rows with a UUID key. Closed and never reused: a prefix in a log must keep its meaning for ever. */
export const idPrefixes = {
  command: 'cmd',
  approval: 'appr',
  effect: 'eff',
  event: 'evt',
  artifact: 'art',
  memory: 'mem',
  memory_candidate: 'memc',
  memory_consent: 'memcon',
  memory_hold: 'memhold',
  memory_erasure: 'memerase',
  connector_invocation: 'inv',
  swarm_run: 'swarm',
  agent_run: 'agent',
  agent_invocation: 'call',
  agent_message: 'msg',
  registry_entity: 'reg',
  registry_version: 'regver',
  registry_binding: 'regbind',
  registry_evaluation: 'regeval',
  registry_artifact: 'regart',
  registry_relationship: 'regrel',
  mission: 'mission',
  mission_task: 'task',
  colony_mission: 'col',
  dag_version: 'dag',
  flow_job: 'fjob',
  flow_task: 'ftask',
  dataset: 'ds',
  dataset_version: 'dsver',
  job: 'job',
  job_run: 'run',
  job_template: 'tmpl',
  job_group: 'jgrp',
  schedule: 'sched',
  command_schedule: 'csched',
  reservation: 'resv',
  org: 'org',
  org_role: 'role',
  user: 'user',
  workspace: 'ws',
  api_key: 'key',
} as const

export type IdKind = keyof typeof idPrefixes

/** Returns the only form that leaves Concord. The UUID comes from one of our rows, so anything else is a fault. */
export function encodeId(kind: IdKind, uuid: string): string {
  const hex = hexOfUuid(uuid)
  if (hex === undefined)
    throw new KernelFault('id.not_a_uuid', `The id of a ${kind} is not a canonical UUID.`, { kind })
  return `${idPrefixes[kind]}_${hex}`
}

/** Accepts the prefixed form of this kind or the canonical UUID; refuses braces, upper case and other prefixes. */
export function decodeId(kind: IdKind, text: string): Decision<string> {
  const prefix = `${idPrefixes[kind]}_`
  if (text.startsWith(prefix)) {
    const uuid = uuidOfHex(text.slice(prefix.length))
    return uuid === undefined ? badId(kind, text) : accept(uuid)
  }
  return hexOfUuid(text) === undefined ? badId(kind, text) : accept(text)
}

/** Trace and request ids: the hex digits of a version 4 UUID after a prefix, stored as text everywhere. */
export const textIdPrefixes = { trace: 'trace', request: 'req' } as const
export type TextIdKind = keyof typeof textIdPrefixes

export function textId(kind: TextIdKind, random16: Uint8Array): string {
  return `${textIdPrefixes[kind]}_${uuidV4(random16).replaceAll('-', '')}`
}

const TEXT_ID_REST = /^[0-9A-Za-z_-]{1,64}$/

/** Accepts a foreign trace or request id only if it is short and harmless in a log line. */
export function isTextId(kind: TextIdKind, text: string): boolean {
  const prefix = `${textIdPrefixes[kind]}_`
  return text.startsWith(prefix) && TEXT_ID_REST.test(text.slice(prefix.length))
}

function badId(kind: IdKind, text: string): Refusal {
  return refuse('id_format', `${quote(text)} is not the id of a ${kind.replaceAll('_', ' ')}.`, {
    hint: `Send ${idPrefixes[kind]}_ and 32 lower-case hex digits, or the UUID in lower case with hyphens.`,
    facts: { kind, prefix: idPrefixes[kind] },
  })
}
