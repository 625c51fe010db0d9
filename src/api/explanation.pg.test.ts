/** The story of a command over HTTP: names instead of ids, what an approver changed, why an attempt was repeated, which task is missing. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { type CommandDeps, listParked, openDrive } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { call, openTestApi, type TestApi } from '#test/api'
import { decider, nextFence, openRoomOn, pendingOf, type TestRoom } from '#test/commands'
import { appendEvents, domainEventLog } from '#store'
import { accepted, anOrgRole, TRACE } from '#test/tenant'
import type { Api } from './api.ts'
import { approvalRoutes } from './approval-routes.ts'
import { commandRoutes } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'
import { byPerson } from '#kernel/actor'

type Step = { kind: string; by: string; by_name: string | null; text: string }
type Story = { summary: string; truncated: boolean; chain: readonly Step[] }
type Json = Record<string, unknown>

const BOOK_A = 'connector.hotel.book_a'

describe('the explanation', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom

  const serve = (world: CommandDeps) =>
    api.with({
      extraRoutes: (router) => {
        const cursors = openPageCursors(api.deps.cursorKey)
        router.route('/', commandRoutes.mount({ ...api.deps, commands: world }, cursors))
        router.route('/', approvalRoutes.mount({ approvals: room.approvals }, cursors))
      },
    })

  before(async () => {
    api = await openTestApi()
    room = openRoomOn(api.world, api.ours)
    app = serve(room.world)
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const get = async (path: string): Promise<unknown> => {
    const key = api.ours.people.writer.key
    return (await call(app, path, { key, headers: { 'x-workspace': 'main' } })).json()
  }
  const storyOf = async (id: string) => (await get(`/commands/${encodeId('command', id)}/explanation`)) as Story
  const approve = async (id: string, edits?: Json) =>
    accepted(
      await decideApproval(room.approvals, byPerson(decider(room), TRACE), {
        workspaceId: room.tenant.workspace.id,
        approvalId: await pendingOf(room, id),
        decision: 'approved',
        edits: edits as never,
      }),
    )

  test('a command without an eligible approver reports it, with what to do, until there is one', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval' })
    assert.equal(await room.settle(id), 'waiting_for_approval')
    assert.match(
      (await storyOf(id)).summary,
      /waiting for approval\. It cannot be decided now: Nobody who may decide here has the role owner\. To do: Grant the role: concord people grant/,
    )
    await anOrgRole(api.world, api.ours.orgId, 'owner', [api.ours.people.admin])
    assert.doesNotMatch((await storyOf(id)).summary, /cannot be decided/)
  })

  test('[APR-15] an edit by the approver is shown with its author, field, old and new value; a secret only by its class', async () => {
    const id = await room.submit({ subject: 'before', api_key: 'vault://team/one', decide: 'require_approval' })
    await room.settle(id)
    await approve(id, { subject: 'after', api_key: 'vault://team/two', note: 'new' })
    assert.equal(await room.settle(id), 'succeeded')
    const { chain } = await storyOf(id)
    const { externalId, userId } = room.tenant.people.admin.principal
    const edit = chain.filter(({ text }) => text.includes('changed'))
    assert.deepEqual(
      edit.map(({ text, by, by_name }) => ({ text, by, by_name })),
      [
        {
          text: `${externalId} changed subject from "before" to "after", api_key from "[secret]" to "[secret]", note from nothing to "new".`,
          by: encodeId('user', userId),
          by_name: externalId,
        },
      ],
    )
    const at = chain.findIndex(({ text }) => text.includes('changed'))
    assert.match(chain[at + 1]?.text ?? '', /was asked to approve/)
    assert.ok(chain.some(({ text }) => text === `The answer of ${externalId} was approved.`))
    assert.equal(JSON.stringify(chain).includes('vault://'), false)
  })

  test('[M6] a chain that ends before the last event says so', async () => {
    const id = await room.submit({ subject: 's' })
    assert.equal(await room.settle(id), 'succeeded')
    assert.equal((await storyOf(id)).truncated, false)
    const large = (): Parameters<typeof appendEvents>[2][number] => ({
      eventId: api.world.newId(),
      type: 'plan_created',
      payload: { note: 'x'.repeat(900_000) },
      actor: 'system',
      actorKind: 'system',
      traceId: TRACE,
      at: api.world.now(),
      links: { workspace_id: room.tenant.workspace.id, command_id: id },
    })
    await appendEvents(room.db, domainEventLog({ plan_created: 'event' }), [
      large(),
      large(),
      large(),
      large(),
      large(),
    ])
    assert.equal((await storyOf(id)).truncated, true)
  })

  test('the explanation, the command and the inbox show people by name and id', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval' })
    await room.settle(id)
    const { externalId, userId } = room.tenant.people.writer.principal
    const { chain } = await storyOf(id)
    assert.equal(chain[0]?.text, `${externalId} asked for Work by user request.`)
    const who = { requested_by: encodeId('user', userId), requested_by_name: externalId }
    const pick = ({ requested_by, requested_by_name }: Json) => ({ requested_by, requested_by_name })
    assert.deepEqual(pick((await get(`/commands/${encodeId('command', id)}`)) as Json), who)
    const { items: commands } = (await get('/commands?limit=1')) as { items: Json[] }
    assert.deepEqual(commands.map(pick), [who])
    const { items } = (await get(`/approvals?command_id=${encodeId('command', id)}`)) as { items: Json[] }
    assert.deepEqual(items.map(pick), [who])
    assert.equal(items[0]?.['approver_name'], null)
  })

  test('a repeated attempt shows the class and the message of its error', async () => {
    room.provider.modes.push('fail_before')
    const id = await room.submit({ subject: 's', steps: [BOOK_A] })
    await room.settle(id)
    const { chain } = await storyOf(id)
    const retry = chain.find(({ kind }) => kind === 'retry')
    assert.match(
      retry?.text ?? '',
      /at attempt 1 \(transient_connector_error: connection refused\); the next attempt is due at/,
    )
  })

  test('an approved command whose task left the catalog reports it everywhere, and continues when the task is back', async () => {
    const id = await room.submit({ subject: 's', decide: 'require_approval', steps: [BOOK_A] })
    await room.settle(id)
    await approve(id)
    const told: unknown[] = []
    const catalog = { ...room.catalog, tasks: new Map(), taskOfType: new Map() }
    const world = { ...room.world, catalog, onTaskGone: (gone: object) => told.push(gone) }
    const next = await openDrive(world)(id, nextFence())
    assert.ok(next.t === 'wait' && next.until !== null)
    assert.deepEqual(told, [{ command_id: id, task_name: 'Work' }])
    assert.equal(await room.statusOf(id), 'approved')
    const reason = /its task .?Work.? is not in the catalog; it continues when the task is back/
    assert.match((await storyOf(id)).summary, reason)
    const [parked, ...others] = await listParked(room.db, 10)
    assert.deepEqual([parked?.command_id, others.length], [id, 0])
    assert.match(parked?.error ?? '', reason)

    const without = serve(world)
    const key = api.ours.people.writer.key
    const answer = await call(without, `/commands/${encodeId('command', id)}`, {
      key,
      headers: { 'x-workspace': 'main' },
    })
    const { next: moves } = (await answer.json()) as { next: { action: string; by: string[]; what: string }[] }
    assert.deepEqual([moves[0]?.action, moves[0]?.by], ['wait', ['operator']])
    assert.match(moves[0]?.what ?? '', reason)

    assert.equal(await room.settle(id), 'succeeded')
    assert.deepEqual(await listParked(room.db, 10), [])
    assert.equal((await storyOf(id)).summary, 'Work has succeeded.')
  })
})
