/** What every memory store promises; the suite runs against each of them. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { MemoryStore, NewMemory, SearchScope } from '#domains/memory'

export type OpenedStore = {
  readonly store: MemoryStore
  /** Two empty workspaces. */
  readonly workspaceId: string
  readonly otherWorkspaceId: string
  close(): Promise<void>
}

const start = new Date('2026-05-01T10:00:00.000Z')
const actor = { id: 'user:ada', kind: 'operator', traceId: 'trace_1' } as const
const minute = (minutes = 0) => new Date(start.getTime() + minutes * 60_000)

export function memoryStoreCases(name: string, open: () => Promise<OpenedStore>): void {
  describe(`memory store: ${name}`, () => {
    let opened: OpenedStore
    before(async () => {
      opened = await open()
    })
    after(() => opened.close())

    const aMemory = (more: Partial<NewMemory> = {}): NewMemory => ({
      memory_id: randomUUID(),
      workspace_id: opened.workspaceId,
      subject_type: 'customer',
      subject_id: randomUUID(),
      scope: 'user',
      memory_type: 'preference',
      content: { seat: 'aisle', row: 7 },
      confidence: 0.9,
      expires_at: null,
      created_by: 'user:ada',
      fact_key: 'travel.seat',
      sensitivity: 'internal',
      schema_name: null,
      task_type: null,
      connector: null,
      command_id: null,
      memory_candidate_id: null,
      derived_from: [],
      supersedes: null,
      ...more,
    })
    const put = async (more: Partial<NewMemory> = {}, minutes = 0) => {
      const inserted = await opened.store.insert(aMemory(more), actor, minute(minutes))
      assert.ok(inserted.ok, JSON.stringify(inserted))
      return inserted.value
    }
    const scope = (more: Partial<SearchScope> = {}): SearchScope => ({
      workspaceId: opened.workspaceId,
      at: minute(60),
      ...more,
    })
    const find = async (more: Partial<SearchScope>, text?: string, limit = 50) => {
      const found = await opened.store.search(scope(more), text === undefined ? null : { text }, limit)
      return found.map(({ memory_id }) => memory_id)
    }
    const subjectOf = ({ subject_type, subject_id }: NewMemory | { subject_type: string; subject_id: string }) => ({
      subject: { subject_type, subject_id },
    })

    test('[MEM-09] what is inserted is there, exactly, and active', async () => {
      const memory = aMemory({ expires_at: minute(100) })
      assert.ok((await opened.store.insert(memory, actor, minute())).ok)
      const got = await opened.store.get({ workspaceId: memory.workspace_id, memoryId: memory.memory_id })
      const { derived_from: _d, supersedes: _s, embedding: _e, ...kept } = memory
      const { labels = [], ...record } = got ?? assert.fail('It is not there.')
      assert.deepEqual(record, { ...kept, status: 'active', superseded_by: null, created_at: start, updated_at: start })
      assert.deepEqual(labels, [], 'its command has none')
      assert.equal(await opened.store.get({ workspaceId: memory.workspace_id, memoryId: randomUUID() }), undefined)
    })

    test('[MEM-09] the same memory again changes nothing; the same id with another content is refused', async () => {
      const memory = aMemory()
      const [one, other] = [
        await opened.store.insert(memory, actor, minute()),
        await opened.store.insert(memory, actor, minute(1)),
      ]
      assert.deepEqual(one, other)
      const changed = await opened.store.insert({ ...memory, content: { seat: 'window' } }, actor, minute(2))
      assert.ok(!changed.ok && changed.code === 'memory.fact.conflict')
    })

    test('[MEM-06] a second active record of one fact is refused and names the first; another scope or subject is another fact', async () => {
      const first = await put()
      const { subject_id } = first
      const second = await opened.store.insert(aMemory({ subject_id, content: { seat: 'window' } }), actor, minute())
      assert.ok(!second.ok && second.code === 'memory.fact.conflict')
      assert.equal(second.facts?.['memory_id'], first.memory_id)
      await put({ subject_id, scope: 'project' })
      await put({ subject_id, fact_key: 'travel.meal' })
      assert.equal((await find(subjectOf(first))).length, 3)
    })

    test('[MEM-06] of many contradicting writers at once one is active', async () => {
      const subject_id = randomUUID()
      const writes = Array.from({ length: 50 }, (_, seat) =>
        opened.store.insert(aMemory({ subject_id, content: { seat } }), actor, minute()),
      )
      const results = await Promise.all(writes)
      assert.equal(results.filter(({ ok }) => ok).length, 1)
      assert.equal((await find({ subject: { subject_type: 'customer', subject_id } })).length, 1)
    })

    test('[MEM-17] [MEM-06] what takes the place of another leaves it there, marked and linked, and never found again', async () => {
      const old = await put()
      const { subject_id } = old
      const next = await put({ subject_id, content: { seat: 'window' }, supersedes: old.memory_id }, 1)
      const kept = await opened.store.get({ workspaceId: old.workspace_id, memoryId: old.memory_id })
      assert.deepEqual([kept?.status, kept?.superseded_by, kept?.content], ['superseded', next.memory_id, old.content])
      assert.deepEqual(await find(subjectOf(old)), [next.memory_id])
    })

    test('[MEM-09] [MEM-17] supersede marks and links, once; what is not there is said so', async () => {
      const [old, heir] = [await put(), await put()]
      const ref = { workspaceId: old.workspace_id, memoryId: old.memory_id }
      const superseded = await opened.store.supersede(ref, heir.memory_id, actor, minute(1))
      assert.ok(superseded.ok && superseded.value.superseded_by === heir.memory_id)
      assert.equal((await opened.store.supersede(ref, heir.memory_id, actor, minute(2))).ok, false)
      const nobody = await opened.store.supersede({ ...ref, memoryId: randomUUID() }, heir.memory_id, actor, minute())
      assert.ok(!nobody.ok && nobody.code === 'memory.record.not_found')
      assert.equal(
        (await opened.store.supersede({ ...ref, memoryId: heir.memory_id }, randomUUID(), actor, minute())).ok,
        false,
      )
    })

    test('[MEM-09] delete leaves the row without its content, from every state, once', async () => {
      const memory = await put({ fact_key: 'says:zzgonezz' })
      const ref = { workspaceId: memory.workspace_id, memoryId: memory.memory_id }
      const gone = await opened.store.delete(ref, actor, minute(1))
      assert.ok(gone.ok)
      assert.deepEqual([gone.value.status, gone.value.content], ['deleted', {}])
      assert.ok(!JSON.stringify(await opened.store.get(ref)).includes('zzgonezz'))
      assert.deepEqual(await find(subjectOf(memory)), [])
      assert.equal((await opened.store.delete(ref, actor, minute(2))).ok, false)
      const nobody = await opened.store.delete({ ...ref, memoryId: randomUUID() }, actor, minute())
      assert.ok(!nobody.ok && nobody.code === 'memory.record.not_found')
    })

    test('[MEM-08] found by subject, by task type, by connector and by text', async () => {
      const [task_type, connector] = [`book_${randomUUID()}`, `hotel_${randomUUID()}`]
      const memory = await put({ task_type, connector, content: { note: 'prefers quiet rooms facing the garden' } })
      const id = [memory.memory_id]
      assert.deepEqual(await find(subjectOf(memory)), id)
      assert.deepEqual(await find({ taskType: task_type }), id)
      assert.deepEqual(await find({ connector }), id)
      assert.deepEqual(await find({ connector }, 'garden quiet'), id)
      assert.deepEqual(await find({ connector }, 'Garden'), id)
      assert.deepEqual(await find({ connector }, 'garden pool'), [])
      assert.deepEqual(await find({ connector, taskType: 'other' }), [])
    })

    test('[MEM-08] text finds the better fit first and gives it the higher score', async () => {
      const connector = randomUUID()
      const weak = await put({ connector, content: { note: 'a lake, a hill, a wood, a road, a house and a river' } })
      const strong = await put({ connector, content: { note: 'river river river' } })
      const found = await opened.store.search(scope({ connector }), { text: 'river' }, 10)
      assert.deepEqual(
        found.map(({ memory_id }) => memory_id),
        [strong.memory_id, weak.memory_id],
      )
      assert.ok((found[0]?.score ?? 0) > (found[1]?.score ?? 1))
    })

    test('[MEM-08] vectors find by likeness, only within one model', async () => {
      const connector = randomUUID()
      const embedded = (vector: readonly number[], model = 'm1') => put({ connector, embedding: { model, vector } })
      const near = await embedded([1, 0.1])
      const far = await embedded([0.1, 1])
      await embedded([1, 0], 'm2')
      const asked = { text: 'x', embedding: { model: 'm1', vector: [1, 0] } }
      const found = await opened.store.search(scope({ connector }), asked, 10)
      assert.deepEqual(
        found.map(({ memory_id }) => memory_id),
        [near.memory_id, far.memory_id],
      )
      assert.ok(Math.abs((found[0]?.score ?? 0) - 0.995) < 0.001)
    })

    test('[MEM-07] what has ended is not found, and does not keep its place', async () => {
      const memory = await put({ expires_at: minute(30) })
      assert.deepEqual(await find({ ...subjectOf(memory), at: minute(29) }), [memory.memory_id])
      assert.deepEqual(await find({ ...subjectOf(memory), at: minute(30) }), [])
      const next = await put({ subject_id: memory.subject_id, content: { seat: 'window' } }, 31)
      assert.deepEqual(await find(subjectOf(memory)), [next.memory_id])
      const kept = await opened.store.get({ workspaceId: memory.workspace_id, memoryId: memory.memory_id })
      assert.equal(kept?.status, 'expired')
    })

    test('[MEM-16] types, schemas and the viewer narrow; the limit caps; newest first', async () => {
      const connector = randomUUID()
      const plain = await put({ connector })
      const fact = await put({ connector, memory_type: 'fact', schema_name: 'a.a' }, 1)
      const own = await put({ connector, subject_type: 'user', subject_id: 'ada' }, 2)
      const other = await put({ connector, subject_type: 'user', subject_id: 'bob' }, 3)
      assert.deepEqual(
        await find({ connector }),
        [other, own, fact, plain].map(({ memory_id }) => memory_id),
      )
      assert.deepEqual(await find({ connector, memoryTypes: ['fact'] }), [fact.memory_id])
      assert.deepEqual(await find({ connector, memoryTypes: [] }), [])
      assert.deepEqual(
        await find({ connector, schemaNames: [] }),
        [other, own, plain].map(({ memory_id }) => memory_id),
      )
      assert.deepEqual(
        await find({ connector, viewer: 'ada' }),
        [own, fact, plain].map(({ memory_id }) => memory_id),
      )
      assert.deepEqual(await find({ connector }, undefined, 1), [other.memory_id])
      assert.deepEqual(await find({ connector }, undefined, 0), [])
    })

    test('a foreign workspace sees, changes and erases nothing', async () => {
      const memory = await put()
      const foreign = { workspaceId: opened.otherWorkspaceId, memoryId: memory.memory_id }
      assert.equal(await opened.store.get(foreign), undefined)
      assert.equal((await opened.store.delete(foreign, actor, minute())).ok, false)
      assert.equal((await opened.store.supersede(foreign, memory.memory_id, actor, minute())).ok, false)
      assert.deepEqual(await find({ ...subjectOf(memory), workspaceId: opened.otherWorkspaceId }), [])
      assert.deepEqual(await find(subjectOf(memory)), [memory.memory_id])
    })

    test('hostile text is only text', async () => {
      const connector = randomUUID()
      await put({ connector, content: { note: "quote ' and -- and \\ and 50 %" } })
      for (const text of ["'; drop table x; --", '"', '(((', '&|!', ':*', 'a\u0001', '\\'])
        assert.ok(Array.isArray(await find({ connector }, text)), text)
    })
  })
}
