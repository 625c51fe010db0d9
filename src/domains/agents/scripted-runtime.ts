/** An agent runtime that follows a transcript: data in, data out, the same answer for the same turn. For tests and demonstrations. */
import { z } from 'zod'
import { agentActionTypes } from '#kernel/agent-step'
import type { JsonObject } from '#kernel/json-value'
import type { AgentAnswer, AgentObservation, AgentRuntime, AgentTurn } from './agent-runtime.ts'

const call = z.strictObject({
  tool: z.string().optional(),
  action: z.enum(agentActionTypes).default('tool_call'),
  payload: z.record(z.string(), z.json()).default({}),
  reason: z.string().default('The transcript says so.'),
})

/**
 * One line per answer. `$observation` in a payload or in the result is replaced by the content of the first observation of the former answer.
 * `repeat` answers with the same line in every further turn. In its last turn the
 * run gives the next result of the transcript. A run whose transcript has no further line says nothing, and gives no answer of its own.
 */
const line = z.strictObject({
  say: z.string().nullable().default(null),
  calls: z.array(call).default([]),
  final: z.record(z.string(), z.json()).nullable().default(null),
  repeat: z.boolean().default(false),
})
const transcript = z.array(line).min(1)
export type Transcript = z.input<typeof transcript>

/** `runtime: { name: 'scripted', transcript: [ … ] }` of an agent. */
export function scriptedRuntime(): AgentRuntime {
  const answer = (turn: AgentTurn, observations: readonly AgentObservation[]): AgentAnswer => {
    const lines = transcript.parse(turn.runtimeConfig['transcript'])
    const repeated = lines.findIndex(({ repeat }) => repeat)
    const due = lines[turn.turn] ?? (repeated === -1 ? undefined : lines[repeated])
    const next = turn.isLast ? (lines.slice(turn.turn).find(({ final }) => final) ?? due) : due
    if (!next) return { text: null, calls: [], final: null }
    const fill = <T extends JsonObject>(value: T) => fillIn(value, observations[0]?.content ?? null)
    return {
      text: next.say,
      calls: next.calls.map(({ tool, action, payload, reason }, index) => ({
        id: `call_${turn.turn}_${index}`,
        actionType: action,
        toolName: tool ?? null,
        payload: fill(payload),
        reason,
      })),
      final: next.final && fill(next.final),
    }
  }
  return {
    name: 'scripted',
    async startAgentRun(turn) {
      turn.signal.throwIfAborted()
      return answer(turn, [])
    },
    async resumeAgentRun(turn, observations) {
      turn.signal.throwIfAborted()
      return answer(turn, observations)
    },
    cancelAgentRun: async () => {},
  }
}

function fillIn<T extends JsonObject>(value: T, observation: AgentObservation['content']): T {
  // A text in JSON is replaced by the JSON of the observation.
  return JSON.parse(JSON.stringify(value).replaceAll('"$observation"', () => JSON.stringify(observation))) as T
}
