/** What follows for a task whose agent did not reach its end: a new run repeats what the last one did. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openRunDrive, RUN_KIND } from '#domains/agents'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { look, scripted, toolsForRuns } from '#test/agent-project'
import { nextFence } from '#test/commands'
import { aPlan, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import { createMission } from './create-mission.ts'
import { missionDefinitions } from './definitions.ts'
import { MISSION_KIND } from './deps.ts'
import { openMissionDrive } from './drive-mission.ts'
import type { StoredTask } from './mission.ts'

describe('attempts of agents that end too early', () => {
  let room: AgentRoom
  const outside = { paid: [] as string[], looked: 0 }
  before(async () => {
    const defines = [...toolsForRuns(outside), ...missionDefinitions(() => ({ commands: room.world }))]
    const limits = { deadline_minutes: 5 }
    const asks = { calls: [{ tool: 'ask_owner', payload: { note: 'more' } }] }
    const pays = { calls: [{ tool: 'pay', payload: { note: 'invoice 7' } }] }
    const agents = [
      scripted('Pay Bills', [pays, asks], { limits }),
      scripted('Look Around', [{ calls: [look(1)] }, asks], { limits }),
    ]
    room = await openAgentRoom(agents, defines)
  })
  after(() => room.close())

  const rest = async () => {
    const drives = new Map([
      [RUN_KIND, openRunDrive(room.agents)],
      [MISSION_KIND, openMissionDrive({ commands: room.world })],
    ])
    for (;;) {
      await room.settleWoken()
      const woken = room.others.shift()
      if (!woken) return
      const next = await drives.get(woken.kind)?.(woken.id, nextFence())
      if (next?.t === 'again') room.others.push(woken)
    }
  }

  /** The task after the deadline of the run of its agent, and after the time of a retry. */
  const afterDeadline = async (agent: string) => {
    const { principal } = room.tenant.people.writer
    const by = { id: `user:${principal.userId}`, kind: 'user' as const, traceId: TRACE, principal }
    const plan = aPlan(planTask('bills', { run: { agent, payload: {} } }))
    const asked = { goal: 'Pay', plan, config: { autonomy: 'full_auto' } as never, requestId: 'req' }
    const { run } = accepted(
      await createMission({ commands: room.world }, by, { ...asked, workspaceId: room.tenant.workspace.id }),
    )
    await room.settle(run.command_id)
    await rest()
    const taskOf = async () => {
      const text = 'select * from missions.orchestration_tasks where run_id = $1'
      const [task] = await room.rows<StoredTask>(text, [run.id])
      return task as StoredTask
    }
    const { command_id } = await taskOf()
    const { agent_run_id } = await room.runOf(command_id ?? '')
    room.clock.travel(6 * 60_000)
    room.others.push({ kind: RUN_KIND, id: agent_run_id })
    await rest()
    await room.settle(command_id ?? '')
    await rest()
    room.clock.travel(700_000)
    room.others.push({ kind: MISSION_KIND, id: run.id })
    await rest()
    return taskOf()
  }

  test('a run that has paid is not repeated without a person', async () => {
    const { state, attempt_number, error_message } = await afterDeadline('Pay Bills')
    assert.deepEqual([outside.paid, state, attempt_number], [['invoice 7'], 'failed', 1])
    assert.match(error_message ?? '', /another attempt would repeat: work\.transfer\./)
  })

  test('a run that has only read is tried again', async () => {
    const { state, attempt_number } = await afterDeadline('Look Around')
    assert.deepEqual([state, attempt_number], ['running', 2])
  })
})
