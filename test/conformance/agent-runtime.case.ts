/** What every agent runtime must do: it gets data and returns data, keeps nothing that a crash would lose, and stops when its signal is aborted. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, describe, test } from 'node:test'
import type { AgentAnswer, AgentObservation, AgentRuntime, AgentTurn } from '#domains/agents'

/** A runtime that is set up to call `look` with `{ n: 1 }` first, and to answer once it has the observation. */
export type RuntimeStage = {
  /** A new instance: what another process would have. */
  open(): AgentRuntime
  readonly turn: Pick<AgentTurn, 'modelConfig' | 'runtimeConfig' | 'askModel'>
}

const tools = [
  { name: 'look', description: 'Looks.', input: { type: 'object', properties: { n: { type: 'integer' } } } },
]

export function agentRuntimeCase(name: string, stage: RuntimeStage): void {
  const agentRunId = randomUUID()
  const turnOf = (more: Partial<AgentTurn> = {}): AgentTurn => ({
    agentRunId,
    turn: 0,
    goal: 'Look once.',
    context: {},
    messages: [],
    tools,
    isLast: false,
    signal: new AbortController().signal,
    ...stage.turn,
    ...more,
  })
  const resumed = (first: AgentAnswer, more: Partial<AgentTurn> = {}) => {
    const observations: AgentObservation[] = first.calls.map(({ id }) => ({
      callId: id,
      decision: 'done',
      content: { seen: 1 },
    }))
    const messages: AgentTurn['messages'] = [
      { role: 'assistant', text: first.text, calls: first.calls },
      ...observations.map((observation) => ({ role: 'tool' as const, observation })),
    ]
    return [turnOf({ turn: 1, messages, ...more }), observations] as const
  }

  describe(`agent runtime: ${name}`, () => {
    after(() => stage.open().cancelAgentRun(agentRunId, 'stopped'))

    test('[AGT-16] it starts with an answer of plain data, whose calls have ids of their own', async () => {
      const first = await stage.open().startAgentRun(turnOf())
      assert.deepEqual(JSON.parse(JSON.stringify(first)), first)
      assert.equal(first.final, null)
      assert.deepEqual(
        first.calls.map(({ toolName, payload, actionType }) => [toolName, payload, actionType]),
        [['look', { n: 1 }, 'tool_call']],
      )
      assert.equal(new Set(first.calls.map(({ id }) => id)).size, first.calls.length)
    })

    test('[AGT-16] it resumes with the observations of its calls, in another process too', async () => {
      const first = await stage.open().startAgentRun(turnOf())
      const [turn, observations] = resumed(first)
      const second = await stage.open().resumeAgentRun(turn, observations)
      assert.ok(second.final)
      assert.deepEqual(second.calls, [])
      assert.ok((await stage.open().resumeAgentRun(turn, observations)).final, 'a turn that is repeated gets an answer')
    })

    test('in its last turn it calls nothing', async () => {
      const last = await stage.open().startAgentRun(turnOf({ isLast: true }))
      assert.deepEqual([last.calls, last.final !== null], [[], true])
    })

    test('a turn whose signal is aborted ends with an error', async () => {
      const signal = AbortSignal.abort()
      await assert.rejects(async () => stage.open().startAgentRun(turnOf({ signal })))
    })

    test('[CAN-15] a cancel can be repeated, and of a run that it does not know', async () => {
      const runtime = stage.open()
      await runtime.startAgentRun(turnOf())
      for (const reason of ['human_cancelled', 'human_cancelled'])
        await runtime.cancelAgentRun(turnOf().agentRunId, reason)
      await runtime.cancelAgentRun('019b0000-0000-7000-8000-000000000002', 'stopped')
      assert.ok((await runtime.startAgentRun(turnOf())).calls.length > 0)
    })
  })
}
