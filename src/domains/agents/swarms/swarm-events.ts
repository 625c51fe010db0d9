/** The closed list of the events of swarms. They hold ids, reasons and counts, never content. */
import { domainEventLog } from '#store'

const swarmEventTypes = {
  /** A swarm was inserted with its coordinator. */
  swarm_started: 'audit',
  /** The planner returned the agents to start. */
  swarm_planned: 'audit',
  /** A spawn was denied, with every reason. */
  spawn_denied: 'audit',
  /** The join decided: its five fields, and who lost. */
  swarm_joined: 'audit',
  /** A limit was reached, or an agent could not be started: the agents are stopped. */
  swarm_stopping: 'audit',
  /** An operator resumed a swarm that got no more turns. */
  swarm_resumed: 'audit',
  /** The swarm has ended, and these commands of agents that lost or were cancelled could not be undone. */
  undo_failed: 'audit',
  /** A swarm or an invocation got another status: `from` and `to`. */
  status_changed: 'event',
  /** A child run and its invocation were inserted. */
  subagent_spawned: 'audit',
} as const

export const swarmLog = domainEventLog(swarmEventTypes)
