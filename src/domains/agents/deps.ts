/** The dependencies of this room. */
import type { CommandDeps } from '#domains/commands'
import type { AgentDefinition } from './agent-definition.ts'
import type { AgentRuntime } from './agent-runtime.ts'
import type { AskedModel, Models } from './models/ask-model.ts'
import type { SwarmDefinition } from './swarms/swarm-definition.ts'

export { RUN_KIND } from '#domains/commands'

export const RUN_QUEUE = 'agent_runs'

export type AgentDeps = {
  readonly commands: CommandDeps
  /** By the name of the agent. */
  readonly agents: ReadonlyMap<string, AgentDefinition>
  /** By the name of the swarm. */
  readonly swarms: ReadonlyMap<string, SwarmDefinition>
  /** By the name of the runtime. */
  readonly runtimes: ReadonlyMap<string, AgentRuntime>
  readonly models: Models
}

/** Another try would not change it: the run fails. */
export class ConversationTooLong extends Error {}

/** Thrown to a runtime whose model gave no answer: the account of the run cannot pay for the call, or the call failed. */
export class NoModelAnswer extends Error {
  override readonly cause: Exclude<AskedModel, { t: 'answered' }>

  constructor(cause: NoModelAnswer['cause']) {
    super(cause.t === 'exhausted' ? cause.reason : cause.error.message)
    this.name = 'NoModelAnswer'
    this.cause = cause
  }
}
