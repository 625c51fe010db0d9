/** Who may cancel over HTTP: the contract of the command type decides, for every list that a contract can have. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { defineCommandType, type Definition, defineTask } from '#domains/commands'
import { errorClasses } from '#kernel/error-classes'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import { aPerson, type TestPerson } from '#test/tenant'
import type { Api } from './api.ts'

type Canceller = 'requester' | 'writer' | 'admin'
type Who = 'requester' | 'colleague' | 'admin' | 'reader'

/** By hand: the contract, then who is let through. A reader never is: the route asks for a writer. */
const table: readonly [readonly Canceller[], readonly Who[]][] = [
  [['requester'], ['requester']],
  [['admin'], ['admin']],
  [['writer'], ['requester', 'colleague', 'admin']],
  [
    ['requester', 'admin'],
    ['requester', 'admin'],
  ],
  [
    ['requester', 'writer', 'admin'],
    ['requester', 'colleague', 'admin'],
  ],
]

const nameOf = (allowed: readonly Canceller[]) => `stopped_by_${allowed.join('_')}`

function typeOf(allowed: readonly Canceller[]): readonly Definition[] {
  const name = nameOf(allowed)
  return [
    defineCommandType({
      name,
      description: 'Waits to be cancelled.',
      payload: z.strictObject({ subject: z.string(), steps: z.array(z.string()).default([]) }),
      side_effects: [],
      error_classes: errorClasses,
      cancellable_by: allowed,
      audit: ['command_created'],
    }),
    defineTask({
      name,
      description: 'Waits.',
      command_type: name,
      function_name: 'work',
      ingress_types: ['user_request'],
      required_inputs: ['subject'],
      async_required: true,
      policy_checks: ['permission'],
    }),
  ]
}

describe('who may cancel', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  let people: Record<Who, TestPerson>
  const headers = { 'x-workspace': 'main' }

  before(async () => {
    api = await openTestApi()
    room = openRoomOn(api.world, api.ours, undefined, () => table.flatMap(([allowed]) => typeOf(allowed)))
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
    const { writer, admin, reader } = api.ours.people
    people = { requester: writer, colleague: await aPerson(api.world, api.ours, 'writer'), admin, reader }
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  for (const [allowed, passes] of table) {
    test(`[CAN-14] cancellable_by ${allowed.join(', ')}: ${passes.join(', ')}, and no one else`, async () => {
      for (const who of ['requester', 'colleague', 'admin', 'reader'] as const) {
        const asked = await call(app, '/commands', {
          method: 'POST',
          key: people.requester.key,
          body: { task_name: nameOf(allowed), payload: { subject: who } },
          headers,
        })
        assert.equal(asked.status, 202)
        const { command_id } = (await asked.json()) as { command_id: string }
        const path = `/commands/${command_id}`
        const cancelled = await call(app, `${path}/cancel`, {
          method: 'POST',
          key: people[who].key,
          body: { reason: 'no longer needed' },
          headers,
        })
        const refusal = who === 'reader' ? '403 identity.role.insufficient' : '403 commands.action.not_allowed'
        const mayCancel = passes.includes(who)
        assert.equal(await outcomeOf(cancelled), mayCancel ? '200 ok' : refusal)
        const seen = (await (await call(app, path, { key: people.requester.key, headers })).json()) as {
          status: string
          next: { action: string; by: string[] }[]
        }
        assert.equal(seen.status, mayCancel ? 'cancelled' : 'created')
        if (!mayCancel) assert.deepEqual(seen.next.find(({ action }) => action === 'cancel')?.by, allowed)
      }
    })
  }
})
