/** The board over HTTP: its columns, its cards, those of people, and callers of other workspaces. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { type Body, useMissionApi } from '#test/mission-api'
import { aPlan, planTask } from '#test/missions'

type Column = { readonly status: string; readonly count: number; readonly cards: readonly Body[] }

describe('the board over HTTP', () => {
  const http = useMissionApi()
  const { ask } = http
  const get = (path: string, key?: string) => ask('GET', path, undefined, key)
  const columnsOf = ({ body }: { body: Body }) =>
    (body['columns'] as Column[]).map(({ status, count, cards }) => [status, count, cards.map(({ title }) => title)])

  test('[MIS-141] [MIS-302] a mission is one card, its tasks are the cards below, and a person adds cards there', async () => {
    http.room.plays.set('b2', 'waits')
    const { id } = await http.room.run(aPlan(planTask('b1'), planTask('b2', { depends_on: ['b1'] }), planTask('b3')))
    const mission = encodeId('mission', id)
    assert.deepEqual(columnsOf(await get('/board')), [
      ['inbox', 0, []],
      ['assigned', 0, []],
      ['in_progress', 1, ['Mission: Release 2.4']],
      ['review', 0, []],
      ['done', 0, []],
    ])
    const [top] = ((await get('/board')).body['columns'] as Column[])[2]?.cards ?? []
    assert.deepEqual(columnsOf(await get(`/board?mission_id=${mission}`)).slice(2), [
      ['in_progress', 1, ['b2']],
      ['review', 0, []],
      ['done', 2, ['b3', 'b1']],
    ])
    const parent = Number(top?.['id'])
    const made = await ask('POST', '/api/v1/tasks', { title: 'Call them', parent_task_id: parent, status: 'review' })
    assert.deepEqual(
      [made.status, made.body['parent_task_id'], made.body['source_type'], made.body['created_by_type']],
      [201, parent, 'user', 'user'],
    )
    const below = (await get(`/api/v1/tasks?parent_task_id=${parent}&limit=3`)).body
    assert.deepEqual(
      below.items?.map(({ title }) => title),
      ['Call them', 'b3', 'b2'],
    )
    const rest = (await get(`/api/v1/tasks?parent_task_id=${parent}&cursor=${String(below['next_cursor'])}`)).body
    assert.deepEqual(
      rest.items?.map(({ title, source_id }) => [title, String(source_id).slice(0, 6)]),
      [['b1', encodeId('mission_task', id).slice(0, 6)]],
    )
    assert.deepEqual(
      (await get('/api/v1/tasks?status=review')).body.items?.map(({ title }) => title),
      ['Call them'],
    )
    assert.equal((await get(`/api/v1/tasks/${parent}`)).body['source_id'], mission)
  })

  test('cards of another workspace look like missing ones, and bad input is refused with its path', async () => {
    const made = await ask('POST', '/api/v1/tasks', { title: 'Ours' })
    const number = Number(made.body['id'])
    const { key } = http.api.theirs.people.admin
    assert.deepEqual((await get('/api/v1/tasks', key)).body.items, [])
    assert.deepEqual(columnsOf(await get('/board', key))[0], ['inbox', 0, []])
    const [foreign, missing] = await Promise.all([number, 2_000_000_000].map((id) => get(`/api/v1/tasks/${id}`, key)))
    assert.deepEqual([foreign?.status, foreign?.body['code']], [404, 'missions.card.not_found'])
    assert.deepEqual([missing?.status, missing?.body['code']], [404, 'missions.card.not_found'])
    const { id } = await http.room.create(aPlan(planTask('never')))
    assert.equal((await get(`/board?mission_id=${encodeId('mission', id)}`, key)).status, 404)
    const below = await ask('POST', '/api/v1/tasks', { title: 'x', parent_task_id: number }, key)
    assert.deepEqual(
      [below.status, below.body['code'], below.body['path']],
      [404, 'missions.card.not_found', 'parent_task_id'],
    )
    for (const [body, path] of [
      [{}, 'title'],
      [{ title: 'x', status: 'gone' }, 'status'],
      [{ title: 'x', parent_task_id: 0 }, 'parent_task_id'],
      [{ title: 'x', source_type: 'orchestration' }, 'source_type'],
    ] as const) {
      const { status, body: answer } = await ask('POST', '/api/v1/tasks', body)
      assert.equal(status, 422)
      assert.ok(JSON.stringify(answer).includes(path), JSON.stringify(answer))
    }
    assert.equal((await get('/api/v1/tasks?parent_task_id=1e3')).status, 422)
    const { status } = await ask('POST', '/api/v1/tasks', { title: 'x' }, http.api.ours.people.reader.key)
    assert.equal(status, 403)
  })

  test('the reports of a mission are read and filed over HTTP, by people of its workspace', async () => {
    const { id } = await http.room.run(aPlan(planTask('r1'), planTask('r2', { depends_on: ['r1'] })))
    const mission = encodeId('mission', id)
    const report = await get(`/missions/${mission}/report`)
    assert.deepEqual([report.status, report.body['report_type'], report.body['mission_id']], [200, 'summary', mission])
    const first = (await get(`/reports?mission_id=${mission}&limit=2`)).body
    assert.deepEqual(
      first.items?.map(({ title }) => title),
      ['Release 2.4', 'r2'],
    )
    const rest = (await get(`/reports?mission_id=${mission}&limit=2&cursor=${String(first['next_cursor'])}`)).body
    assert.deepEqual(
      rest.items?.map(({ title, report_type, artifact_id }) => [title, report_type, artifact_id]),
      [['r1', 'delivery', null]],
    )
    assert.deepEqual((await get('/reports?report_type=audit')).body.items, [])
    const { nodes, edges } = (await get(`/missions/${mission}/graph`)).body as { nodes?: Body[]; edges?: Body[] }
    assert.deepEqual(
      nodes?.map(({ temp_id, status }) => [temp_id, status]),
      [
        ['r1', 'completed'],
        ['r2', 'completed'],
      ],
    )
    assert.deepEqual(edges, [{ from: nodes?.[0]?.['id'], to: nodes?.[1]?.['id'], how: 'data' }])
    const { id: young } = await http.room.create(aPlan(planTask('r3')))
    const early = await get(`/missions/${encodeId('mission', young)}/report`)
    assert.deepEqual([early.status, early.body['code']], [409, 'missions.report.not_written'])
    const { key } = http.api.theirs.people.admin
    assert.deepEqual((await get('/reports', key)).body.items, [])
    for (const path of [`/missions/${mission}/graph`, `/missions/${mission}/report`, `/reports?mission_id=${mission}`])
      assert.equal((await get(path, key)).status, 404)
    const filed = { report_type: 'audit', title: 'x', artifact_id: encodeId('artifact', id) }
    const unknown = await ask('POST', '/reports', filed)
    assert.deepEqual([unknown.status, unknown.body['code']], [404, 'row.not_found'])
    assert.equal((await ask('POST', '/reports', { ...filed, report_type: 'gossip' })).status, 422)
    assert.equal((await ask('POST', '/reports', filed, http.api.ours.people.reader.key)).status, 403)
  })
})
