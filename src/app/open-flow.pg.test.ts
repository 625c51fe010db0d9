/** The flow room as a process opens it: what operators may reach, and when functions can be called. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openTestDb, type TestDb } from '#test/database'
import { openLog } from './log.ts'
import { type FlowOptions, openFlow } from './open-flow.ts'
import { systemDeps } from './system-deps.ts'

describe('flow of a process', () => {
  let opened: TestDb
  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
  })
  after(() => opened.close())
  const open = (options: Partial<FlowOptions> = {}) =>
    openFlow(
      { db: opened.db, system: systemDeps(), log: openLog('silent'), works: false },
      () => assert.fail('not used'),
      { operators: [], ...options },
    )

  test('http_poll reaches neither this machine nor its network, nor anything without TLS', async () => {
    const flow = open()
    const poll = flow.deps.operators.get('http_poll')
    for (const url of ['http://example.com/', 'https://127.0.0.1/', 'https://169.254.169.254/', 'https://[::1]/']) {
      const call = { config: { url, partition_by: 'day' }, state: {}, signal: new AbortController().signal }
      await assert.rejects(async () => poll?.do?.(call as never), /not allowed|may not|HTTPS|network|address/i, url)
    }
    await flow.close()
  })

  test('functions are called only with a secret, and data needs its store', async () => {
    const [without, signed] = [open(), open({ functionSecret: 'a secret of functions' })]
    assert.equal(without.deps.callFunction, undefined)
    assert.ok(signed.deps.callFunction)
    await assert.rejects(without.deps.data.readRows({ kind: 'table', location: 'x' }, null, 1), /CONCORD_DATA_URL/)
    await without.close()
    await signed.close()
  })
})
