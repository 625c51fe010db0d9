/** The kinds of actor that may move a row, one closed list per family; each credential or caller maps to one of them. */

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
