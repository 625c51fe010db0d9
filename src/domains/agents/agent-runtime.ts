/**
 * The port of agent runtimes: what works out the next answer of an agent. An adapter gets data and returns data. It reaches no database, no
 * connector and no clock: Concord stores its answer before anything in it is proposed, and every proposal is a command.
 */
import type { AgentActionType } from '#kernel/agent-step'
import type { JsonObject, JsonValue } from '#kernel/json-value'

export const messageRoles = ['system', 'user', 'assistant', 'tool', 'agent'] as const
export const messageTypes = ['instruction', 'question', 'answer', 'observation', 'critique', 'result'] as const

/** A tool of the manifest of the run, as a model sees it. `input` is a JSON Schema of an object. */
export type AgentTool = { readonly name: string; readonly description: string; readonly input: JsonObject }

/** A call of an answer. `id` is unique in its answer. `invalid` says why the arguments could not be read; such a call is never proposed. */
export type AgentCall = {
  readonly id: string
  readonly actionType: AgentActionType
  readonly toolName: string | null
  readonly payload: JsonObject
  readonly reason: string
  readonly invalid?: string | undefined
}

/** What came of one call of the former answer. `content` is null for a message that was forgotten. */
export type AgentObservation = {
  readonly callId: string
  readonly decision: 'done' | 'denied' | 'failed' | 'approved' | 'rejected' | 'answered'
  readonly content: JsonValue
}

/** An earlier exchange of the run, oldest first. */
export type AgentMessage =
  | { readonly role: 'system' | 'user' | 'agent'; readonly content: JsonValue }
  | { readonly role: 'assistant'; readonly text: string | null; readonly calls: readonly AgentCall[] }
  | { readonly role: 'tool'; readonly observation: AgentObservation }

export type ModelRequest = {
  /** The name of a model of the project. */
  readonly model: string
  readonly messages: readonly AgentMessage[]
  readonly tools: readonly AgentTool[]
  readonly outputTokensMax: number
}

export type ModelUsage = {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cachedTokens: number
  readonly reasoningTokens: number
}

export type ModelAnswer = {
  readonly text: string | null
  readonly calls: readonly AgentCall[]
  readonly usage: ModelUsage
}

/** Everything that an adapter knows of a run in one turn. */
export type AgentTurn = {
  readonly agentRunId: string
  /** 0 for the first answer. */
  readonly turn: number
  readonly goal: string
  readonly context: JsonObject
  readonly messages: readonly AgentMessage[]
  readonly tools: readonly AgentTool[]
  /** No further calls are possible: the answer must be the last one. */
  readonly isLast: boolean
  readonly modelConfig: JsonObject
  readonly runtimeConfig: JsonObject
  readonly signal: AbortSignal
  /** The only way to a model: it reserves the worst case from the budget of the run, and calls through the gate of the connectors. */
  readonly askModel: (request: ModelRequest) => Promise<ModelAnswer>
}

/** `final` ends the run with its result; otherwise the calls are proposed together. */
export type AgentAnswer = {
  readonly text: string | null
  readonly calls: readonly AgentCall[]
  readonly final: JsonObject | null
}

export interface AgentRuntime {
  readonly name: string
  startAgentRun(turn: AgentTurn): Promise<AgentAnswer>
  /** `observations` are those of the last calls. They are in the messages of the turn too. */
  resumeAgentRun(turn: AgentTurn, observations: readonly AgentObservation[]): Promise<AgentAnswer>
  /** Frees what the runtime keeps for the run. Called at least once for a run that is cancelled; a second call changes nothing. */
  cancelAgentRun(agentRunId: string, reason: string): Promise<void>
}
