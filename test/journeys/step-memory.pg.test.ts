/** Memory in steps and effects: read as the requester, with the rights of now, and only what a search would find. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { allow, defineCommand, defineEffect, memorySteps as memory, sleepFor } from '#domains/commands'
import { from } from '#kernel/step'
import { until } from '#test/until'
import { openTestConcord, type TestConcord } from '#testing'

const HOUR_MS = 3_600_000

/** Uses the content and keeps only the artifact that it wrote. */
const seat = defineEffect('artifact.seat', {
  input: z.object({ memory_ids: z.array(z.string()) }),
  class: 'keyed',
  async do({ input: { memory_ids }, memory: memories, artifacts }) {
    const read = await Promise.all(memory_ids.map((id) => memories.read(id)))
    const found = read.filter((each) => each !== undefined)
    const content = { text: JSON.stringify(found.map((each) => each.content)) }
    const { artifact_id } = await artifacts.write({ type: 'report', content })
    return { artifact_id, count: found.length }
  },
})
const assign = defineCommand('assign_seat', {
  input: z.object({ subject: z.string().meta({ example: 'customer:1' }) }),
  policy: () => allow(),
  steps: ({ subject }) => [memory.recall({ subject }), seat({ memory_ids: from(memory.recall, 'memory_ids') })],
})
const assignLater = defineCommand('assign_seat_later', {
  input: z.object({ subject: z.string().meta({ example: 'customer:1' }) }),
  policy: () => allow(),
  steps: ({ subject }) => [
    sleepFor('2h'),
    memory.recall({ subject }),
    seat({ memory_ids: from(memory.recall, 'memory_ids') }),
  ],
})
/** With ids from outside, which may be old. */
const assignKnown = defineCommand('assign_seat_known', {
  input: z.object({ memory_ids: z.array(z.string()) }),
  policy: () => allow(),
  steps: ({ memory_ids }) => [seat({ memory_ids })],
})

describe('memory in steps', () => {
  let concord: TestConcord
  before(async () => {
    concord = await openTestConcord({ project: { catalog: [assign, assignLater, assignKnown] } })
  })
  after(() => concord.close())

  type Submitted = Parameters<TestConcord['get']>[0]
  const waits = (command: Submitted) =>
    until(async () => (await concord.get(command)).waiting_reason?.includes('until 2') === true)
  const ended = (command: Submitted) => concord.wait(command, { timeoutMs: 15_000 })
  const countOf = async (command: Submitted) => ((await ended(command)).result as { count?: number } | null)?.count

  test('a step recalls memories as the requester: ids go from step to step, and content is in no record', async () => {
    const { api } = concord
    const [dora, kim] = [await concord.person('dora'), await concord.person('kim')]
    const me = await dora.api.GET('/me')
    const subject = `user:${me.data?.user_id ?? ''}`
    const about = { subject, scope: 'user' as const, memory_type: 'preference' as const }
    assert.equal((await dora.api.POST('/memory/consents', { body: about })).response.status, 201)
    const proposed = await dora.api.POST('/memory', {
      body: { ...about, fact_key: 'travel.seat', content: { seat: 'SEAT-CANARY' }, confidence: 0.95 },
    })
    assert.equal(proposed.response.status, 202)
    await until(
      async () => ((await dora.api.GET('/memory', { params: { query: { subject } } })).data?.items.length ?? 0) === 1,
    )
    const own = await dora.wait(await dora.submit(assign, { subject }), { timeoutMs: 15_000 })
    assert.equal(own.result?.count, 1)
    const foreign = await kim.wait(await kim.submit(assign, { subject }), { timeoutMs: 15_000 })
    assert.equal(foreign.result?.count, 0)
    const params = { path: { command_id: own.command_id } }
    const events = (await api.GET('/commands/{command_id}/events', { params })).data
    const effects = (await api.GET('/commands/{command_id}/effects', { params })).data
    assert.match(JSON.stringify(effects), /memory\.recall/)
    assert.match(JSON.stringify(events), /mem_[0-9a-f]{32}/)
    assert.doesNotMatch(JSON.stringify([own, events, effects]), /SEAT-CANARY/)
    const written = { path: { artifact_id: own.result?.artifact_id ?? '' } }
    const text = await dora.api.GET('/artifacts/{artifact_id}/content', { params: written, parseAs: 'text' })
    assert.match(text.data ?? '', /SEAT-CANARY/)
  })

  test('an effect reads a memory only while a search would find it', async () => {
    const { api } = concord
    const about = { subject: 'customer:read', scope: 'project' as const, memory_type: 'preference' as const }
    assert.equal((await api.POST('/memory/consents', { body: about })).response.status, 201)
    const list = async () =>
      (await api.GET('/memory', { params: { query: { subject: about.subject } } })).data?.items ?? []
    const remember = async (fact_key: string, more: { supersedes?: string; expires_at?: string }) => {
      const body = { ...about, fact_key, content: { seat: more.supersedes ?? 'first' }, confidence: 0.95, ...more }
      const known = new Set((await list()).map(({ memory_id }) => memory_id))
      assert.equal((await api.POST('/memory', { body })).response.status, 202)
      let id = ''
      await until(async () => {
        id = (await list()).find(({ memory_id }) => !known.has(memory_id))?.memory_id ?? ''
        return id !== ''
      })
      return id
    }
    const old = await remember('seat', {})
    const expires_at = new Date(concord.clock.now().getTime() + HOUR_MS).toISOString()
    const short = await remember('meal', { expires_at })
    const count = async () => countOf(await concord.submit(assignKnown, { memory_ids: [old, short] }))
    assert.equal(await count(), 2)
    await remember('seat', { supersedes: old })
    assert.equal(await count(), 1)
    await concord.clock.advance(2 * HOUR_MS)
    assert.equal(await count(), 0)
  })

  test('a step recalls memories without the rights that its requester has lost', async () => {
    const { api } = concord
    const [owner, kept] = [await concord.person('olga', 'data-owner'), await concord.person('otto', 'data-owner')]
    const operator = await concord.person('oda', 'operator')
    const about = { scope: 'user' as const, memory_type: 'preference' as const }
    const pia = await concord.person('pia')
    const subject = `user:${(await pia.api.GET('/me')).data?.user_id ?? ''}`
    assert.equal((await pia.api.POST('/memory/consents', { body: { ...about, subject } })).response.status, 201)
    const body = { ...about, subject, fact_key: 'travel.seat', content: { seat: 'aisle' }, confidence: 0.95 }
    assert.equal((await pia.api.POST('/memory', { body })).response.status, 202)
    const query = { subject }
    await until(async () => (await pia.api.GET('/memory', { params: { query } })).data?.items.length === 1)
    const commands = [
      await owner.submit(assignLater, { subject }),
      await kept.submit(assignLater, { subject }),
    ] as const
    for (const command of commands) await waits(command)
    const user_id = (await owner.api.GET('/me')).data?.user_id ?? ''
    const demoted = await api.POST('/people/{user_id}/role', {
      params: { path: { user_id } },
      body: { role: 'reader' },
    })
    assert.ok(demoted.response.ok)
    await concord.clock.advance(3 * HOUR_MS)
    const { command_id } = commands[0]
    let approval_id: string | undefined
    await until(async () => {
      const { data } = await operator.api.GET('/approvals', { params: { query: { command_id } } })
      approval_id = data?.items[0]?.approval_id
      return approval_id !== undefined
    })
    const resolved = await operator.api.POST('/approvals/{approval_id}/resolve', {
      params: { path: { approval_id: approval_id ?? '' } },
      body: { decision: 'approved', reason: 'Still needed.' },
    })
    assert.equal(resolved.response.status, 200, JSON.stringify(resolved.error))
    assert.equal(await countOf(commands[0]), 0)
    assert.equal(await countOf(commands[1]), 1)
  })
})
