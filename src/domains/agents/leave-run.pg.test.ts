/** Runs that end at a bad moment: their answer is erased, a call undoes itself, or their runtime fails. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { allow, cancelCommand, defineCommand, defineEffect, EffectFailure } from '#domains/commands'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { final, type Outside, scripted, toolsForRuns } from '#test/agent-project'
import { nextFence } from '#test/commands'
import { accepted, TRACE } from '#test/tenant'
import { forgetMessages } from './forget-runs.ts'
import type { AgentRuntime } from './agent-runtime.ts'
import { RUN_KIND } from './deps.ts'
import { openRunDrive } from './drive-run.ts'

const agents = [
  scripted('Asks', [{ calls: [{ tool: 'ask_owner', payload: { note: 'about customer77 here' } }] }, final]),
  scripted('Undoes', [{ calls: [{ tool: 'two', payload: {} }] }, final], { tools: ['two'] }),
  scripted('Breaks at the end', [final], { runtime: 'broken' }),
  scripted('Hangs at the end', [final], { runtime: 'hanging' }),
]

const first = defineEffect('leave.first', {
  input: z.object({}),
  class: 'keyed',
  do: async () => ({}),
  undo: async () => {
    throw new EffectFailure('transient_connector_error', 'Not now.', 'no')
  },
})
const second = defineEffect('leave.second', {
  input: z.object({}),
  class: 'keyed',
  async do(): Promise<Record<string, never>> {
    throw new EffectFailure('validation_error', 'It is broken.', 'no')
  },
})
/** Fails, and is then undone for a long time. */
const two = defineCommand('two', {
  input: z.object({}),
  policy: allow,
  steps: () => [first({}), second({})],
  onFailure: 'undo',
})

const broken: AgentRuntime = {
  name: 'broken',
  startAgentRun: async () => ({
    text: null,
    calls: [{ id: '1', actionType: 'tool_call', toolName: 'ask_owner', payload: { note: 'w' }, reason: 'r' }],
    final: null,
  }),
  resumeAgentRun: async () => ({ text: null, calls: [], final: {} }),
  cancelAgentRun: async () => {
    throw new Error('The process is gone.')
  },
}

const hanging: AgentRuntime = { ...broken, name: 'hanging', cancelAgentRun: () => new Promise(() => {}) }

describe('runs that end at a bad moment', () => {
  let room: AgentRoom
  const outside: Outside = { paid: [], looked: 0 }
  before(async () => {
    room = await openAgentRoom(agents, [...toolsForRuns(outside), ...two.definitions], [broken, hanging])
  })
  after(() => room.close())

  const endOf = async (commandId: string) => {
    const run = await room.runOf(commandId)
    return [run.status, run.end_reason, await room.statusOf(commandId)]
  }
  const callsOf = async (commandId: string) =>
    room.rows<{ command_id: string; status: string }>(
      'select command_id, status from concord.commands where agent_run_id = $1',
      [(await room.runOf(commandId)).agent_run_id],
    )
  const request = async (commandId: string) => {
    const by = { id: 'system', kind: 'system' as const, traceId: TRACE }
    accepted(await cancelCommand(room.world, by, { workspaceId: room.tenant.workspace.id, commandId, reason: 'r' }))
  }
  const cancel = async (commandId: string) => {
    await request(commandId)
    await room.rest()
  }

  test('a run whose open answer is erased cancels its open calls, then it fails and so does its command', async () => {
    const commandId = await room.start('Asks')
    const run = await room.runOf(commandId)
    assert.deepEqual(await endOf(commandId), ['waiting_for_approval', null, 'blocked'])
    const about = {
      workspaceId: room.tenant.workspace.id,
      subject: { subject_type: 'customer', subject_id: 'customer77' },
      memoryIds: [],
      commandIds: [],
    }
    const erased = await room.db.transaction((tx) =>
      forgetMessages.erase(tx, about as never, { at: room.clock.now() } as never),
    )
    assert.equal(accepted(erased).length, 1)
    room.others.push({ kind: RUN_KIND, id: run.agent_run_id })
    await room.rest()
    assert.deepEqual(await endOf(commandId), ['failed', 'failed', 'failed'])
    const [call] = await callsOf(commandId)
    assert.equal(call?.status, 'cancelled')
    const open = await room.rows(`select 1 from concord.approvals where command_id = $1 and status = 'pending'`, [
      call?.command_id,
    ])
    assert.deepEqual([open, outside.paid], [[], []], 'nobody can approve the call any more')
  })

  test('a cancelled run waits for a call that undoes itself, without cancelling it again and again', async () => {
    const commandId = await room.start('Undoes')
    const [call] = await callsOf(commandId)
    assert.equal(call?.status, 'compensating')
    await cancel(commandId)
    assert.equal((await room.runOf(commandId)).status, 'cancelling')
    const ignored = await room.rows(
      `select 1 from concord.domain_events where command_id = $1 and event_type = 'cancellation_ignored'`,
      [call?.command_id],
    )
    assert.equal(ignored.length, 0)
  })

  test('a run ends also if its runtime fails in cancelAgentRun; the error is noted', async () => {
    const commandId = await room.start('Breaks at the end')
    assert.equal((await room.runOf(commandId)).status, 'waiting_for_approval')
    await cancel(commandId)
    assert.deepEqual(await endOf(commandId), ['cancelled', 'human_cancelled', 'cancelled'])
    assert.equal((await room.runOf(commandId)).metadata.error, 'The process is gone.')
  })

  test('a run ends also if its runtime hangs in cancelAgentRun', async () => {
    const commandId = await room.start('Hangs at the end')
    await request(commandId)
    await room.settleWoken()
    const { agent_run_id: id } = await room.runOf(commandId)
    // The time limit of the call passes at once.
    const drive = openRunDrive({ ...room.agents, commands: { ...room.world, sleep: async () => {} } })
    await drive(id, nextFence())
    await room.rest()
    assert.deepEqual(await endOf(commandId), ['cancelled', 'human_cancelled', 'cancelled'])
    assert.equal((await room.runOf(commandId)).metadata.error, 'The agent runtime did not end the run in time.')
  })
})
