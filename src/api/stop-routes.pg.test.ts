/** The stops of agents over HTTP: who may stop, the list, and other workspaces. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openAgentApi } from '#test/agents'
import { encodeId } from '#kernel/ids'

test('stops, refuses proposals, lists and lifts; readers may only look', async () => {
  const room = await openAgentApi()
  try {
    const { admin, reader } = room.api.ours.people
    const body = { scope: 'all', reason: 'It does harm.' }
    assert.equal((await room.post('/stops', body, reader.key)).status, 403)
    const stopped = await room.post('/stops', body, admin.key)
    assert.deepEqual([stopped.status, stopped.body['status']], [202, 'succeeded'])
    const refused = await room.propose({ subject: 's' })
    assert.deepEqual([refused.status, refused.body['code']], [409, 'commands.agent.stopped'])
    const listed = await room.get('/stops?in_force=true', reader.key)
    const [stop] = listed.body['items'] as { stop_id: string; scope: string; target: null; lifted_at: null }[]
    assert.ok(stop)
    assert.deepEqual([stop.scope, stop.target, stop.lifted_at], ['all', null, null])
    assert.deepEqual(refused.body['stop_id'] ?? (refused.body['facts'] as { stop_id: string }).stop_id, stop.stop_id)
    const lifted = await room.post(`/stops/${stop.stop_id}/lift`, { reason: 'Repaired.' }, admin.key)
    assert.deepEqual([lifted.status, lifted.body['status']], [202, 'succeeded'])
    assert.deepEqual((await room.get('/stops?in_force=true', reader.key)).body['items'], [])
    assert.equal(((await room.get('/stops', reader.key)).body['items'] as unknown[]).length, 1)
    assert.equal((await room.propose({ subject: 's' })).status, 202)
    const run = encodeId('agent_run', room.api.world.newId())
    const missing = await room.post('/stops', { scope: 'run', target: run, reason: 'r' }, admin.key)
    assert.deepEqual([missing.status, missing.body['code']], [404, 'commands.stop.target_unknown'])
    const empty = await room.post('/stops', { scope: 'all', reason: ' ' }, admin.key)
    assert.equal(empty.status, 422)
  } finally {
    await room.close()
  }
})
