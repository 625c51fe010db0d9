/** The route of budgets: the view, the right of the command, and bad ids. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { openAccount, reserveCost, settleCost } from '#domains/budgets'
import { bySystem } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { type AgentApi, openAgentApi } from '#test/agents'
import { units } from '#test/budgets'
import { aCommand } from '#test/concord-rows'
import type { Tx } from '#store'
import { accepted, TRACE } from '#test/tenant'

describe('GET /budgets/{id}', () => {
  let room: AgentApi
  before(async () => {
    room = await openAgentApi()
  })
  after(() => room.close())

  async function anAccount(workspaceId: string): Promise<string> {
    const { db, now } = room.api.world
    const { command_id: commandId } = await aCommand(db, workspaceId)
    const of = { workspaceId, commandId, at: now() }
    const [accountId, childId] = [randomUUID(), randomUUID()]
    accepted(await openAccount(db, { ...of, accountId, parentId: null, limit: units('50') }))
    accepted(await openAccount(db, { ...of, accountId: childId, parentId: accountId, limit: units('20.5') }))
    accepted(await reserveCost(db, { ...of, accountId, key: 'turn:1', amount: units('3') }))
    return accountId
  }
  const outcome = ({ status, body }: Awaited<ReturnType<AgentApi['get']>>) =>
    `${status} ${(body as { code?: string }).code ?? 'ok'}`

  test('shows the balances and the children, to everybody who may read the command', async () => {
    const { ours } = room.api
    const id = encodeId('budget', await anAccount(ours.workspace.id))
    const { status, body } = await room.get(`/budgets/${id}`, ours.people.reader.key)
    assert.equal(status, 200)
    const { children, ...view } = body as Record<string, unknown> & { children: Record<string, unknown>[] }
    assert.deepEqual(
      [
        view['budget_id'],
        view['status'],
        view['limit_units'],
        view['reserved_units'],
        view['carved_units'],
        view['free_units'],
      ],
      [id, 'open', '50.000000', '3.000000', '20.500000', '26.500000'],
    )
    assert.deepEqual(
      children.map(({ limit_units, free_units }) => [limit_units, free_units]),
      [['20.500000', '20.500000']],
    )
  })

  test('an administrator lifts the quarantine of a model, with a reason; nobody else', async () => {
    const { ours, theirs, world } = room.api
    const accountId = await anAccount(ours.workspace.id)
    const call = { workspaceId: ours.workspace.id, accountId, at: world.now(), key: 'turn:2', model: 'a/b' }
    accepted(await reserveCost(world.db, { ...call, amount: units('1') }))
    const paid = (tx: Tx) => settleCost(tx, bySystem(TRACE), { ...call, amount: units('1.5') })
    accepted(await world.db.transaction(paid))
    const list = async (key: string) =>
      (await room.get('/model-quarantines', key)).body as { items: { model: string }[] }
    assert.deepEqual(
      (await list(ours.people.reader.key)).items.map(({ model }) => model),
      ['a/b'],
    )
    assert.deepEqual((await list(theirs.people.admin.key)).items, [])
    const lift = (body: object, key: string) => room.post('/model-quarantines/lift', { model: 'a/b', ...body }, key)
    const reason = 'corrected'
    assert.match(outcome(await lift({ reason }, ours.people.writer.key)), /^403 /)
    assert.match(outcome(await lift({}, ours.people.admin.key)), /^422 /)
    assert.equal(outcome(await lift({ reason }, theirs.people.admin.key)), '404 budgets.quarantine.not_found')
    assert.equal(outcome(await lift({ reason }, ours.people.admin.key)), '200 ok')
    assert.deepEqual((await list(ours.people.reader.key)).items, [])
  })

  test('a budget of another workspace, of a command that an agent may not read, and one that does not exist look the same', async () => {
    const { ours, theirs } = room.api
    const made = await room.post(
      '/keys',
      { name: 'planner', role: 'writer', agent: 'planner', tools: ['publish_note'] },
      ours.people.writer.key,
    )
    const { key: agentKey } = made.body as { key: string }
    const [here, elsewhere] = [await anAccount(ours.workspace.id), await anAccount(theirs.workspace.id)]
    const answers = [
      await room.get(`/budgets/${elsewhere}`, ours.people.admin.key),
      await room.get(`/budgets/${here}`, agentKey),
      await room.get(`/budgets/${randomUUID()}`, ours.people.admin.key),
    ]
    for (const answer of answers) {
      assert.equal(outcome(answer), '404 row.not_found')
      assert.equal((answer.body as { detail: string }).detail, 'There is no such budget.')
    }
    const wrong = [`agent_${'0'.repeat(32)}`, 'budget_1', 'x'].map((id) => `/budgets/${id}`)
    for (const path of wrong) assert.match(outcome(await room.get(path, ours.people.admin.key)), /^400 |^422 /)
  })
})
