/** Missions whose tasks agents do: from the request over HTTP to the run of the agent. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openRunDrive, RUN_KIND } from '#domains/agents'
import { MISSION_KIND, type MissionDeps, missionDefinitions, openMissionDrive } from '#domains/missions'
import { encodeId } from '#kernel/ids'
import { final, look, type Outside, scripted, toolsForRuns } from '#test/agent-project'
import { type AgentRoom, openAgentRoom } from '#test/agent-runs'
import { call, openTestApi, type TestApi } from '#test/api'
import { nextFence } from '#test/commands'
import { aPlan, planTask } from '#test/missions'
import type { Api } from './api.ts'

type Body = Record<string, unknown>

describe('missions with agents', () => {
  let api: TestApi
  let room: AgentRoom
  let app: Api
  const outside: Outside = { paid: [], looked: 0 }
  before(async () => {
    api = await openTestApi()
    const missions = (): MissionDeps => ({ commands: room.world })
    const defines = [...toolsForRuns(outside), ...missionDefinitions(missions)]
    const on = { clock: api.world, tenant: api.ours }
    room = await openAgentRoom([scripted('Look Around', [{ calls: [look(7)] }, final])], defines, [], [], on)
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const ask = async (method: string, path: string, body?: unknown) => {
    const { key } = api.ours.people.writer
    const headers = { 'x-workspace': 'main' }
    const answer = await call(app, path, { method, key, headers, ...(body === undefined ? {} : { body }) })
    return { status: answer.status, body: (await answer.json()) as Body }
  }
  /** Turns of commands, runs and missions until nothing is woken any more. */
  const rest = async () => {
    const drives = new Map([
      [RUN_KIND, openRunDrive(room.agents)],
      [MISSION_KIND, openMissionDrive({ commands: room.world })],
    ])
    for (let turns = 0; turns < 500; turns++) {
      await room.settleWoken()
      const woken = room.others.shift()
      if (!woken) return
      const next = await drives.get(woken.kind)?.(woken.id, nextFence())
      if (next?.t === 'again') room.others.push(woken)
    }
    assert.fail('They do not come to rest.')
  }

  test('a task of a plan is done by an agent, and its view names the run', async () => {
    const look_ = planTask('look', { run: { agent: 'Look Around', payload: {} } })
    const plan = aPlan(look_, planTask('again', { depends_on: ['look'], run: look_.run }))
    const made = await ask('POST', '/missions', { goal: 'Look', plan, config: { autonomy: 'full_auto' } })
    assert.equal(made.status, 201, JSON.stringify(made.body))
    await room.settle(String(made.body['command_id']).replace(/^.*_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'))
    await rest()
    const at = `/missions/${String(made.body['mission_id'])}`
    const { body } = await ask('GET', at)
    assert.equal(body['state'], 'completed', JSON.stringify(body['error']))
    assert.equal(outside.looked, 2)
    const runs = await room.rows<{ agent_run_id: string }>(
      'select agent_run_id from concord.agent_runs order by created_at',
    )
    const ids = runs.map(({ agent_run_id }) => encodeId('agent_run', agent_run_id))
    assert.equal(ids.length, 2)
    const listed = (await ask('GET', `${at}/tasks`)).body['items']
    for (const tasks of [body['tasks'], listed] as Body[][])
      assert.deepEqual(
        tasks.map(({ temp_id, state, run, agent_run_id }) => [temp_id, state, run, agent_run_id]),
        [
          ['look', 'completed', 'Look Around', ids[0]],
          ['again', 'completed', 'Look Around', ids[1]],
        ],
      )
  })

  test('[MIS-014] an agent knows which attempt it is, and why the output before was refused', async () => {
    const verify = [{ schema: { required: ['words'] } }]
    const plan = aPlan(planTask('look', { verify, run: { agent: 'Look Around', payload: {} } }))
    const config = { autonomy: 'full_auto', retry: { max_retries: 1, base_seconds: 0 } }
    const { body } = await ask('POST', '/missions', { goal: 'Look again', plan, config })
    await room.settle(String(body['command_id']).replace(/^.*_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5'))
    await rest()
    const told = await room.rows<{ kind: string; attempt: string; why: string | null }>(
      `select told->>'kind' as kind, told->>'attempt' as attempt, told->>'refused_because' as why
from concord.agent_runs as r, lateral (select r.context_scope->'mission_attempt' as told) as t order by r.agent_run_id desc limit 2`,
    )
    assert.deepEqual(
      told.map(({ kind, attempt }) => [kind, attempt]),
      [
        ['retry', '2'],
        ['first', '1'],
      ],
    )
    assert.equal(told[1]?.why, null)
    assert.match(told[0]?.why ?? '', /words/)
  })
})
