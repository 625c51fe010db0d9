/** Missions that nobody starts by hand: a schedule and a webhook submit `Run Mission`, and its gate asks people as always. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { allow, defineCommand, defineEffect, signDelivery } from '#domains/commands'
import { until } from '#test/until'
import { openTestConcord, type TestConcord } from '#testing'

const HOUR_MS = 3_600_000
const secret = new Uint8Array(32).fill(7)

const note = defineEffect('notes.write', {
  input: z.object({ text: z.string() }),
  class: 'keyed',
  do: ({ input }) => Promise.resolve({ text: input.text }),
})
const writeNote = defineCommand('write_note', {
  input: z.object({ text: z.string() }),
  policy: () => allow(),
  steps: (input) => [note(input)],
})

const mission = (text: string, config: object = {}) => ({
  goal: `Note ${text}`,
  config,
  plan: {
    version: 1,
    strategy: 'sequential',
    estimated_cost: '0',
    tasks: [{ temp_id: 'note', title: 'Note', task_type: 'writing', run: { task: 'write_note', payload: { text } } }],
  },
})

describe('missions that are started by others', () => {
  let concord: TestConcord
  before(async () => {
    concord = await openTestConcord({
      project: {
        catalog: [writeNote],
        webhooks: [
          {
            name: 'shop',
            secret,
            map: ({ order }) => ({
              taskName: 'Run Mission',
              payload: mission(typeof order === 'string' ? order : '', { autonomy: 'full_auto' }) as never,
            }),
          },
        ],
      },
    })
  })
  after(() => concord.close())

  const missionOf = async (goal: string) => {
    const { data } = await concord.api.GET('/missions', { params: { query: {} } })
    return data?.items.find((each) => each.goal === goal)
  }
  const stateOf = async (goal: string, state: string) => {
    await until(async () => (await missionOf(goal))?.state === state)
    return (await missionOf(goal)) ?? assert.fail()
  }
  const written = () => concord.calls.filter(({ effect }) => effect === 'notes.write').length

  test('a schedule of a person starts a mission, whose plan that person approves before anything runs', async () => {
    const made = await concord.api.POST('/schedules', {
      body: { name: 'hourly note', command_type: 'Run Mission', cron: '0 * * * *', payload: mission('hourly') },
    })
    assert.equal(made.response.status, 201, JSON.stringify(made.error))
    await concord.clock.advance(HOUR_MS)
    const waiting = await stateOf('Note hourly', 'awaiting_approval')
    assert.equal(written(), 0)
    const params = { path: { mission_id: waiting.mission_id } }
    const approved = await concord.api.POST('/missions/{mission_id}/approve', { params, body: {} })
    assert.equal(approved.response.status, 200, JSON.stringify(approved.error))
    const { command_id } = await stateOf('Note hourly', 'completed')
    assert.equal(written(), 1)
    const { data } = await concord.api.GET('/commands/{command_id}', { params: { path: { command_id } } })
    assert.equal(data?.ingress, 'scheduled_trigger')
  })

  test('a webhook starts a mission once, also if it is delivered twice', async () => {
    const before_ = written()
    const deliver = async () => {
      const body = JSON.stringify({ order: 'o1' })
      const timestamp = String(Math.floor(concord.clock.now().getTime() / 1_000))
      const headers = {
        'webhook-id': 'e1',
        'webhook-timestamp': timestamp,
        'webhook-signature': signDelivery(secret, 'e1', timestamp, new TextEncoder().encode(body)),
      }
      const url = 'http://127.0.0.1/webhooks/shop'
      return (await concord.fetch(new Request(url, { method: 'POST', headers, body }))).status
    }
    assert.deepEqual([await deliver(), await deliver()], [202, 200])
    const { command_id } = await stateOf('Note o1', 'completed')
    assert.equal(written(), before_ + 1)
    const { data } = await concord.api.GET('/commands/{command_id}', { params: { path: { command_id } } })
    assert.equal(data?.ingress, 'webhook')
  })
})
