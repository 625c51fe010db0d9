/** Who acts, as what, and under which trace: the second argument of every service. */

/** Who is asking: built from the credential and the database alone, never from a request body. */
export type Principal = {
  readonly credential: 'api_key' | 'jwt'
  readonly userId: string
  readonly orgId: string
  readonly orgSlug: string
  readonly externalId: string
  readonly email: string | null
  /** The lower of the user's role and the key's. */
  readonly role: 'reader' | 'writer' | 'admin'
  /** Slugs of the org roles the user holds; they decide visibility, not permission. */
  readonly orgRoles: readonly string[]
  readonly keyId: string | null
  /** A key may be bound to one workspace; it then opens no other. */
  readonly workspaceId: string | null
  /** Set if the credential is the key of an agent, which acts for the user. */
  readonly agent?: Agent | undefined
}

export type Agent = {
  readonly name: string
  /** The names of the tasks that it may propose. */
  readonly tools: readonly string[]
}

export type Actor<Kind extends string = ConcordActor> = {
  /** `user:0197…`, `worker`, `system`: as recorded in the event. */
  readonly id: string
  /** One of the closed list of the row's machine. */
  readonly kind: Kind
  readonly traceId: string
  /** The person behind it; Concord's own decisions have none. */
  readonly principal?: Principal
}

/** A person who was authenticated. */
export type PersonActor = Actor<'user'> & { readonly principal: Principal }

export function byPerson(principal: Principal, traceId: string): PersonActor {
  return { id: `user:${principal.userId}`, kind: 'user', traceId, principal }
}

/** Concord itself: installation, timers, and the command line of the operator. */
export function bySystem(traceId: string): Actor<'system'> {
  return { id: 'system', kind: 'system', traceId }
}

/** The part of an event that says who did it. */
export function eventBy({ id, kind, traceId }: Actor<string>) {
  return { actor: id, actorKind: kind, traceId }
}

/** The part of the payload of an event that says with which credential it was done. */
export function credentialOf(principal: Principal | undefined) {
  return {
    ...(principal?.keyId ? { by_key_id: principal.keyId } : {}),
    ...(principal?.agent ? { by_agent: principal.agent.name } : {}),
  }
}

// The kinds of actor that may move a row, one closed list per family; each credential or caller maps to one of them.

/**
 * Commands, approvals, effects, artifacts, memory, connectors, agents and the registry. `system` is Concord's own
 * decision (validation, policy, timers, cascades), `worker` a step that a runtime executes. There is no `agent`:
 * an agent proposes and never moves a row.
 */
export const concordActors = ['system', 'user', 'approver', 'operator', 'worker'] as const
export type ConcordActor = (typeof concordActors)[number]

/**
 * Missions. The dependency resolver acts as `coordinator`, timers and the budget check as `system`, and a cascade keeps
 * the actor of the change that triggered it.
 */
export const actorTypes = ['system', 'coordinator', 'agent', 'verifier', 'human', 'reconciler'] as const
export type ActorType = (typeof actorTypes)[number]

/** Colony. `root` keeps the records, `gateway` reaches the runtime, `policy` is the policy bridge. */
export const colonyActors = ['root', 'gateway', 'runtime', 'policy', 'approver', 'operator'] as const
export type ColonyActor = (typeof colonyActors)[number]

/** Flow. The `reaper` ends expired leases, the `sweeper` queues due retries, the `drainer` empties the outbox. */
export const flowActors = ['dispatcher', 'worker', 'reaper', 'sweeper', 'drainer', 'operator'] as const
export type FlowActor = (typeof flowActors)[number]

/** The scheduler. `holder` is the direct execution that reserved the slot, `recovery` the start after a crash. */
export const schedulerActors = ['queue_manager', 'dispatcher', 'executor', 'recovery', 'holder', 'operator'] as const
export type SchedulerActor = (typeof schedulerActors)[number]
