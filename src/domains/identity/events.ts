/** The audit events of this room, appended in the transaction of the change, never with a secret. */
import { type Actor, credentialOf } from '#kernel/actor'
import { appendEvents, domainEventLog, type Tx } from '#store'
import type { StoredApiKey } from './api-key.ts'
import type { IdentityDeps } from './deps.ts'

/** The closed list, with the purpose of each event. */
const identityEventTypes = {
  /** The organisation was created. */
  org_created: 'audit',
  /** A person was added. */
  user_created: 'audit',
  /** An invitation was made. */
  user_invited: 'audit',
  /** A second person agreed to an invitation. */
  invitation_confirmed: 'audit',
  /** An invitation became a key. */
  invitation_redeemed: 'audit',
  /** The platform role of a person changed. */
  user_role_changed: 'audit',
  /** A person left; their keys stopped working. */
  user_deactivated: 'audit',
  /** A person came back. */
  user_reactivated: 'audit',
  /** A person got a stand-in. */
  delegation_created: 'audit',
  /** A stand-in lost that right. */
  delegation_ended: 'audit',
  /** A role of the organisation was created. */
  org_role_created: 'audit',
  /** A person got an org role. */
  org_role_granted: 'audit',
  /** A person lost an org role. */
  org_role_revoked: 'audit',
  /** A workspace was created. */
  workspace_created: 'audit',
  /** A key was created. */
  api_key_created: 'audit',
  /** A key was revoked. */
  api_key_revoked: 'audit',
  /** A request to change the local scheduler was accepted; written before it takes effect. */
  scheduler_requested: 'audit',
  /** A request to change the local scheduler was refused. */
  scheduler_refused: 'audit',
} as const
type IdentityEventType = keyof typeof identityEventTypes

const identityLog = domainEventLog(identityEventTypes)

type EventDeps = Pick<IdentityDeps, 'newId' | 'now'>
type Fact = { readonly type: IdentityEventType; readonly payload: Readonly<Record<string, unknown>> }

/** The target of an event is the most specific thing that its payload names. */
const targets = [
  ['job_id', 'job'],
  ['delegation_id', 'delegation'],
  ['key_id', 'api_key'],
  ['user_id', 'user'],
  ['role_id', 'org_role'],
  ['workspace_id', 'workspace'],
  ['org_id', 'org'],
] as const

function targetOf(payload: Fact['payload']) {
  const [field, type] = targets.find(([name]) => typeof payload[name] === 'string') ?? ['org_id', 'org']
  return { target_type: type, target_id: payload[field] ?? null }
}

async function append(tx: Tx, deps: EventDeps, actor: Actor, chainId: string, { type, payload }: Fact): Promise<void> {
  const event = {
    eventId: deps.newId(),
    type,
    payload: { ...payload, ...targetOf(payload), ...credentialOf(actor.principal) },
    actor: actor.id,
    actorKind: 'human',
    traceId: actor.traceId,
    at: deps.now(),
  }
  await appendEvents(tx, identityLog, [{ ...event, links: { workspace_id: chainId } }])
}

export function appendWorkspaceEvent(
  tx: Tx,
  deps: EventDeps,
  actor: Actor,
  fact: Fact & { readonly workspaceId: string },
): Promise<void> {
  return append(tx, deps, actor, fact.workspaceId, fact)
}

/**
 * An event of a whole organisation carries the id of the org as its workspace. No workspace has that id, so the event is in no
 * feed, and it is sealed like every other chain.
 */
export function appendOrgEvent(
  tx: Tx,
  deps: EventDeps,
  actor: Actor,
  fact: Fact & { readonly orgId: string },
): Promise<void> {
  return append(tx, deps, actor, fact.orgId, fact)
}

export function appendKeyEvent(
  tx: Tx,
  deps: EventDeps,
  actor: Actor,
  type: 'api_key_created' | 'api_key_revoked',
  key: StoredApiKey,
): Promise<void> {
  const payload = {
    key_id: key.id,
    prefix: key.prefix,
    user_id: key.user_id,
    role: key.role,
    workspace_id: key.workspace_id,
    agent: key.agent,
    tools: key.tools,
    expires_at: key.expires_at?.toISOString() ?? null,
  }
  return append(tx, deps, actor, key.workspace_id ?? key.org_id, { type, payload })
}
