/** Runs under a stop of agents: they wait for the lift, or end, and propose nothing meanwhile. An end also reaches an answer that is under way. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { actingFor, cancelCommand, stopDefinitions, submitCommand } from '#domains/commands'
import { createApiKey } from '#domains/identity'
import { byPerson } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { nextFence } from '#test/commands'
import { agentTools } from '#test/projects/commands'
import { accepted, TRACE } from '#test/tenant'
import { defineAgent } from './agent-definition.ts'
import type { AgentRuntime, AgentTurn } from './agent-runtime.ts'
import { RUN_KIND } from './deps.ts'
import { openRunDrive } from './drive-run.ts'

const publish = { tool: 'publish_note', payload: { subject: 'a' } }
const outside = { tool: 'publish_note', payload: { subject: 'b', destination: 'external:x@example.com' } }

describe('runs under a stop', () => {
  let room: AgentRoom
  let whileAnswering = async (): Promise<unknown> => undefined
  const slowly: AgentRuntime = {
    name: 'slow',
    async startAgentRun() {
      await whileAnswering()
      const { tool: toolName, payload } = outside
      return { text: null, calls: [{ id: '1', actionType: 'tool_call', toolName, payload, reason: 'r' }], final: null }
    },
    resumeAgentRun: async () => ({ text: null, calls: [], final: {} }),
    cancelAgentRun: async () => {},
  }
  let answering = async (_turn: AgentTurn): Promise<unknown> => undefined
  const atLast: AgentRuntime = {
    ...slowly,
    name: 'at_last',
    async startAgentRun(turn) {
      await answering(turn)
      return { text: null, calls: [], final: {} }
    },
  }
  before(async () => {
    const agent = defineAgent('Writer', {
      input: z.object({ subject: z.string().optional() }),
      goal: 'Publish a note.',
      role: 'worker',
      tools: ['publish_note'],
      connectors: ['mail'],
      runtime: {
        name: 'scripted',
        transcript: [{ calls: [outside] }, { calls: [publish] }, { final: { text: 'done' } }] as never,
      },
    })
    const slow = defineAgent('Slow', {
      input: z.object({}),
      goal: 'Publish a note.',
      role: 'worker',
      tools: ['publish_note'],
      connectors: ['mail'],
      runtime: { name: 'slow' },
    })
    const lasting = defineAgent('At Last', {
      input: z.object({}),
      goal: 'Answer at last.',
      role: 'worker',
      tools: [],
      runtime: { name: 'at_last' },
    })
    const tools = [...agentTools(), ...stopDefinitions(() => room.world)]
    room = await openAgentRoom([agent, slow, lasting], tools, [slowly, atLast])
  })
  after(() => room.close())

  const admin = async (taskName: string, payload: object) => {
    const { principal } = room.tenant.people.admin
    const by = { id: `user:${principal.userId}`, kind: 'operator' as const, traceId: TRACE, principal }
    const request = { workspaceId: room.tenant.workspace.id, taskName, payload: payload as never, requestId: 'r' }
    const { command } = accepted(await submitCommand(room.world, by, { ...request, ingress: 'user_request' }))
    assert.equal(await room.settle(command.command_id), 'succeeded')
    return command.command_id
  }
  const stop = async (ends_runs: boolean, target = 'Writer') => {
    const commandId = await admin('Stop Agents', { scope: 'agent', target, reason: 'r', ends_runs })
    const [row] = await room.rows<{ stop_id: string }>('select stop_id from concord.stops where command_id = $1', [
      commandId,
    ])
    return encodeId('stop', row?.stop_id ?? '')
  }
  const commandsOf = async (runId: string) =>
    (await room.rows('select 1 from concord.commands where agent_run_id = $1', [runId])).length

  test('a run waits for the lift, asks and proposes nothing meanwhile, and goes on where it stood', async () => {
    const stopId = await stop(false)
    const commandId = await room.start('Writer')
    const run = await room.runOf(commandId)
    assert.deepEqual([run.status, run.end_reason, await commandsOf(run.agent_run_id)], ['created', null, 0])
    assert.deepEqual(await room.messagesOf(run), [])
    assert.ok(run.run_after && run.run_after > room.clock.now())
    await admin('Lift Stop', { stop_id: stopId, reason: 'r' })
    await room.rest()
    assert.equal(await commandsOf(run.agent_run_id), 1)
    assert.equal((await room.runOf(commandId)).status, 'waiting_for_approval')
  })

  test('a stop that ends runs ends them with `stopped`: their calls are cancelled, and the lift does not bring them back', async () => {
    const commandId = await room.start('Writer')
    const waiting = await room.runOf(commandId)
    assert.equal(waiting.status, 'waiting_for_approval')
    const calls = room.provider.calls.length
    const stopId = await stop(true)
    await room.rest()
    const ended = await room.runOf(commandId)
    assert.deepEqual([ended.status, ended.end_reason], ['cancelled', 'stopped'])
    const own = await room.rows<{ status: string }>('select status from concord.commands where agent_run_id = $1', [
      ended.agent_run_id,
    ])
    assert.deepEqual(own, [{ status: 'cancelled' }])
    assert.equal(room.provider.calls.length, calls)
    await admin('Lift Stop', { stop_id: stopId, reason: 'r' })
    await room.rest()
    assert.equal((await room.runOf(commandId)).status, 'cancelled')
  })

  for (const target of ['Slow', 'key-agent'])
    test(`a stop of ${target} that comes during an answer: the run waits for the lift before it proposes`, async () => {
      let stopId = ''
      whileAnswering = async () => (stopId = await stop(false, target))
      // The second stop names the key with which the run was requested.
      const { principal } = room.tenant.people.writer
      const agent = { name: 'key-agent', tools: ['Slow', 'Publish Note'] }
      if (target === 'key-agent')
        accepted(await createApiKey(room.clock, byPerson(principal, TRACE), { name: 'k', role: 'writer', agent }))
      const by = target === 'Slow' ? principal : { ...principal, agent }
      const { command } = accepted(
        await submitCommand(room.world, actingFor(by, TRACE), {
          workspaceId: room.tenant.workspace.id,
          taskName: 'Slow',
          payload: {},
          requestId: 'r',
          ingress: 'user_request',
        }),
      )
      await room.settle(command.command_id)
      await room.rest()
      const run = await room.runOf(command.command_id)
      assert.deepEqual([run.status, await commandsOf(run.agent_run_id)], ['running', 0])
      assert.ok(run.run_after && run.run_after > room.clock.now())
      await admin('Lift Stop', { stop_id: stopId, reason: 'r' })
      await room.rest()
      assert.equal(await commandsOf(run.agent_run_id), 1)
    })

  /** Runs the agent; every wait of at most `upToMs` passes at once, and every longer one never. */
  const runAtLast = async (upToMs: number) => {
    const commandId = await room.submit({}, { taskName: 'At Last' })
    await room.settle(commandId)
    const { agent_run_id: id } = await room.runOf(commandId)
    const sleep = (ms: number, signal: AbortSignal) =>
      new Promise<void>((resolve) => {
        if (ms <= upToMs) setImmediate(resolve)
        signal.addEventListener('abort', () => resolve())
      })
    await openRunDrive({ ...room.agents, commands: { ...room.world, sleep } })(id, nextFence())
    await room.rest()
    return room.runOf(commandId)
  }
  /** An answer that nobody aborts comes after many looks. */
  const untilAborted = async ({ signal }: AgentTurn) => {
    for (let looks = 0; looks < 300 && !signal.aborted; looks++) await room.rows('select 1')
  }
  const stopAtLast = () => stop(true, 'At Last')
  const lift = async (stopId: string) => void (await admin('Lift Stop', { stop_id: stopId, reason: 'r' }))

  test('within 2 s a request to end the run aborts the answer under way', async () => {
    answering = async (turn) => {
      const [run] = await room.rows<{ command_id: string }>(
        'select command_id from concord.agent_runs where agent_run_id = $1',
        [turn.agentRunId],
      )
      const asked = { workspaceId: room.tenant.workspace.id, commandId: run?.command_id ?? '', reason: 'r' }
      accepted(await cancelCommand(room.world, byPerson(room.tenant.people.writer.principal, TRACE), asked))
      await room.settleWoken()
      await untilAborted(turn)
    }
    const run = await runAtLast(2_000)
    assert.deepEqual([run.status, run.end_reason], ['cancelled', 'human_cancelled'])
    assert.deepEqual(await room.messagesOf(run), [], 'the answer never came')
  })

  test('within 2 s a stop that ends runs aborts the answer under way', async () => {
    let stopId = ''
    answering = async (turn) => {
      stopId = await stopAtLast()
      await untilAborted(turn)
    }
    const run = await runAtLast(2_000)
    assert.deepEqual([run.status, run.end_reason], ['cancelled', 'stopped'])
    assert.deepEqual(await room.messagesOf(run), [], 'the answer never came')
    await lift(stopId)
  })

  test('a run whose last answer comes after a stop that ends runs does not succeed', async () => {
    let stopId = ''
    answering = async () => (stopId = await stopAtLast())
    const { status, end_reason } = await runAtLast(0)
    assert.deepEqual([status, end_reason], ['cancelled', 'stopped'])
    await lift(stopId)
  })

  test('a stop that ends no runs lets the answer under way come, and the run waits with it', async () => {
    let stopId = ''
    let isAborted = true
    answering = async ({ signal }) => {
      stopId = await stop(false, 'At Last')
      // Several looks later.
      for (let looks = 0; looks < 5; looks++) await room.rows('select 1')
      isAborted = signal.aborted
    }
    const waiting = await runAtLast(2_000)
    assert.deepEqual([isAborted, waiting.status, (await room.messagesOf(waiting)).length], [false, 'running', 1])
    await lift(stopId)
    await room.rest()
    assert.equal((await room.runOf(waiting.command_id)).end_reason, 'final_answer_created')
  })

  test('a stop between the look of a turn and the write of its wait is not lost, and wakes no other run', async () => {
    const commandId = await room.start('Writer')
    const other = await room.runOf(await room.start('Writer'))
    const run = await room.runOf(commandId)
    const { db } = room.world
    let isStopped = false
    const late = new Proxy(db, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        if (name !== 'transactionFrom') return value.bind(target) as unknown
        return async (...given: unknown[]) => {
          if (!isStopped) {
            isStopped = true
            const scope = { scope: 'run', target: encodeId('agent_run', run.agent_run_id) }
            await admin('Stop Agents', { ...scope, reason: 'r', ends_runs: true })
          }
          return (await Reflect.apply(value, target, given)) as unknown
        }
      },
    })
    assert.deepEqual(room.others, [])
    await openRunDrive({ ...room.agents, commands: { ...room.world, db: late } })(run.agent_run_id, nextFence())
    assert.deepEqual([isStopped, room.others], [true, [{ kind: RUN_KIND, id: run.agent_run_id }]])
    await room.rest()
    assert.equal((await room.runOf(commandId)).end_reason, 'stopped')
    const { completed_at, cancelled_at } = await room.runOf(other.command_id)
    assert.deepEqual([completed_at, cancelled_at], [null, null])
  })
})
