/** Memory over HTTP: propose, decide, search, consent, hold and forget, with the walls and codes of every other route. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { openAuthenticator } from '#domains/identity'
import { encodeId } from '#kernel/ids'
import { call, outcomeOf } from '#test/api'
import { type MemoryRoom, openMemoryRoom } from '#test/memory'
import { anOrgRole, aPerson, aTenant, type Tenant } from '#test/tenant'
import { type Api, createApi } from './api.ts'

describe('memory routes', () => {
  let room: MemoryRoom
  let app: Api
  let theirs: Tenant
  let owner: string
  let closeKeys: () => Promise<void>
  /** What happens while a request waits. */
  let meanwhile: (() => Promise<void>) | undefined

  before(async () => {
    room = await openMemoryRoom()
    closeKeys = async () => {}
    theirs = await aTenant(room.clock)
    const { orgId, slug } = room.tenant
    const person = await aPerson(room.clock, { orgId, slug }, 'writer')
    await anOrgRole(room.clock, orgId, 'data-owner', [person])
    owner = person.key
    const authenticator = openAuthenticator({ db: room.db, now: room.clock.now })
    closeKeys = () => authenticator.close()
    const silent = () => {}
    const sleep = (ms: number, signal: AbortSignal) => meanwhile?.() ?? room.commands.sleep(ms, signal)
    app = createApi({
      ...room.clock,
      version: '0.0.0-test',
      log: { info: silent, warn: silent, error: silent },
      authenticate: authenticator.authenticate,
      callers: authenticator.callers,
      feed: { pollMs: 20 },
      schemaVersions: () => Promise.resolve({ expected: 1, actual: 1 }),
      cursorKey: new Uint8Array(32).fill(7),
      limits: { ratePerMinute: 6_000_000, rateBurst: 1_000_000 },
      work: { commands: { ...room.commands, sleep }, approvals: room.approvals, webhooks: [], memory: room.memory },
    })
  })
  after(async () => {
    await closeKeys()
    await room.close()
  })

  type Json = Record<string, unknown> & { items: Record<string, unknown>[] }
  const send = (method: string, path: string, body?: unknown, key = room.tenant.people.writer.key) =>
    call(app, path, {
      method,
      key,
      body,
      headers: { 'x-workspace-id': key === theirs.people.admin.key ? theirs.workspace.id : room.workspaceId },
    })
  const ask = async (method: string, path: string, body?: unknown, key?: string) => {
    const response = await send(method, path, body, key)
    const json = (await response.json()) as Json
    assert.ok(response.ok, JSON.stringify(json))
    return json
  }
  const aBody = (subject: string, more: object = {}) => ({
    subject,
    scope: 'user',
    memory_type: 'preference',
    content: { note: 'likes the quiet garden' },
    fact_key: 'room',
    confidence: 0.9,
    ...more,
  })
  const settle = async (commandId: unknown) => {
    const [row] = await room.rows<{ id: string }>(
      `select command_id as id from concord.commands where replace(command_id::text, '-', '') = $1`,
      [String(commandId).replace('cmd_', '')],
    )
    const status = await room.settle(row?.id ?? '')
    await room.follow()
    return status
  }

  test('[L8] a candidate can be approved at once: the answer waits for the question', async () => {
    const made = await ask('POST', '/memory', aBody('customer:l8'))
    let waits = 0
    meanwhile = async () => {
      waits += 1
      await settle(made['command_id'])
    }
    const path = `/memory/candidates/${String(made['memory_candidate_id'])}/approve`
    await ask('POST', path, { reason: 'she said so' }, owner).finally(() => (meanwhile = undefined))
    assert.equal(waits, 1)
    assert.equal(await settle(made['command_id']), 'succeeded')
  })

  test('[M6] a search that ends at 4 MiB says so', async () => {
    const note = 'x'.repeat(60_000)
    await room.rows(
      `insert into concord.memory_records select r.* from generate_series(1, 80) as n,
        jsonb_populate_record(null::concord.memory_records, (select to_jsonb(m) from concord.memory_records as m
          where m.subject_id = 'l8') || jsonb_build_object('memory_id', gen_random_uuid(), 'fact_key', 'large.' || n, 'subject_id', 'large',
          'candidate_id', null, 'memory_candidate_id', null, 'content', jsonb_build_object('note', $1::text || n))) as r`,
      [note],
    )
    const cut = await ask('GET', '/memory?subject=customer:large&limit=100')
    assert.equal(cut['truncated'], true)
    assert.ok(cut.items.length > 1 && cut.items.length < 80, String(cut.items.length))
    const whole = await ask('GET', '/memory?subject=customer:large&limit=5')
    assert.deepEqual([whole['truncated'], whole.items.length], [false, 5])
  })

  test('[OQ-06] propose without consent, look at it with the consent, approve, find it', async () => {
    const made = await ask('POST', '/memory', aBody('customer:a1'))
    assert.equal(await settle(made['command_id']), 'waiting_for_approval')
    const path = `/memory/candidates/${String(made['memory_candidate_id'])}`
    const consent = await ask('POST', '/memory/consents', {
      subject: 'customer:a1',
      memory_type: 'preference',
      scope: 'user',
    })
    const shown = await ask('GET', path)
    assert.equal(shown['status'], 'awaiting_approval')
    assert.deepEqual(shown['consents'], [consent])
    assert.deepEqual(Object.keys(consent).sort(), [
      'expires_at',
      'granted_at',
      'granted_by',
      'memory_consent_id',
      'memory_type',
      'revoked_at',
      'revoked_by',
      'scope',
      'subject',
    ])
    assert.equal(await outcomeOf(await send('POST', `${path}/approve`, {})), '403 self_approval')
    await ask('POST', `${path}/approve`, { reason: 'she said so' }, owner)
    assert.equal(await settle(made['command_id']), 'succeeded')
    assert.equal(
      await outcomeOf(await send('POST', `${path}/approve`, {}, owner)),
      '409 memory.candidate.nothing_pending',
    )
    const { items } = await ask('GET', '/memory?subject=customer:a1&q=garden')
    assert.equal(items.length, 1)
    const one = await ask('GET', `/memory/records/${String(items[0]?.['memory_id'])}`)
    assert.deepEqual(one['content'], { note: 'likes the quiet garden' })
    const revoked = await ask('POST', `/memory/consents/${String(consent['memory_consent_id'])}/revoke`)
    assert.ok(revoked['revoked_at'])
    const again = await send('POST', `/memory/consents/${String(consent['memory_consent_id'])}/revoke`)
    assert.equal(await outcomeOf(again), '404 memory.consent.not_found')
    assert.equal((await ask('GET', '/memory/consents?subject=customer:a1')).items.length, 1)
  })

  test('a no from the data owner; lists page and keep to their filter', async () => {
    for (const id of ['b1', 'b2', 'b3'])
      await settle((await ask('POST', '/memory', aBody(`customer:${id}`)))['command_id'])
    const page = await ask('GET', '/memory/candidates?status=awaiting_approval&limit=2')
    assert.equal(page.items.length, 2)
    const rest = await ask(
      'GET',
      `/memory/candidates?status=awaiting_approval&limit=2&cursor=${String(page['next_cursor'])}`,
    )
    assert.ok(rest.items.length >= 1)
    const moved = await send('GET', `/memory/candidates?status=rejected&cursor=${String(page['next_cursor'])}`)
    assert.equal(await outcomeOf(moved), '400 cursor_invalid')
    const [first] = page.items
    await ask('POST', `/memory/candidates/${String(first?.['memory_candidate_id'])}/reject`, { reason: 'no' }, owner)
    assert.equal(await settle(first?.['command_id']), 'failed')
    const shown = await ask('GET', `/memory/candidates/${String(first?.['memory_candidate_id'])}`)
    assert.equal(shown['status'], 'rejected')
  })

  test('[L10] what is known about a user, and why it is held, is shown only to those who may see it', async () => {
    const { admin, reader } = room.tenant.people
    const person = () => aPerson(room.clock, { orgId: room.tenant.orgId, slug: room.tenant.slug }, 'writer')
    const [writer, other] = [await person(), await person()]
    const subject = `user:${writer.principal.userId}`
    await ask('POST', '/memory/consents', { subject, memory_type: 'preference', scope: 'user' }, writer.key)
    await ask('POST', '/memory', aBody(subject), writer.key)
    const seen = async (key: string) => {
      const { is_shown, counts, items, consents } = await ask('POST', '/memory/forget/preview', { subject }, key)
      return [is_shown, Object.keys(counts as object).length, items.length, (consents as unknown[]).length > 0]
    }
    const [, , known] = await seen(writer.key)
    assert.ok(Number(known) > 0)
    assert.deepEqual(await seen(other.key), [false, 0, 0, false])
    for (const key of [writer.key, admin.key, owner]) assert.equal((await seen(key))[0], true)
    const held = await ask('POST', '/memory/holds', { subject: 'customer:l10', reason: 'case 10' }, admin.key)
    assert.equal(held['reason'], 'case 10')
    const reasonFor = async (key: string) =>
      (await ask('GET', '/memory/holds?subject=customer:l10', undefined, key)).items[0]?.['reason']
    for (const key of [reader.key, other.key]) assert.equal(await reasonFor(key), null)
    for (const key of [admin.key, owner]) assert.equal(await reasonFor(key), 'case 10')
    const preview = await ask('POST', '/memory/forget/preview', { subject: 'customer:l10' }, other.key)
    assert.doesNotMatch(JSON.stringify(preview), /case 10/)
  })

  test('forget: preview changes nothing, a hold stops it, the certificate says what went', async () => {
    const subject = 'customer:f1'
    await ask('POST', '/memory/consents', { subject, memory_type: 'preference', scope: 'user' })
    const made = await ask('POST', '/memory', aBody(subject))
    assert.equal(made['status'], 'accepted')
    const preview = await ask('POST', '/memory/forget/preview', { subject })
    assert.deepEqual(
      [preview['counts'], preview['may_erase']],
      [{ memory: 1, memory_candidate: 1, memory_consent: 1 }, true],
    )
    assert.equal(
      await outcomeOf(await send('POST', '/memory/holds', { subject, reason: 'case 1' })),
      '403 identity.role.insufficient',
    )
    const hold = await ask('POST', '/memory/holds', { subject, reason: 'case 1' }, room.tenant.people.admin.key)
    const held = await ask('POST', '/memory/forget', { subject })
    assert.equal(await settle(held['command_id']), 'failed')
    assert.equal((await ask('GET', `/memory/erasures/${String(held['memory_erasure_id'])}`))['outcome'], 'dropped')
    await ask(
      'POST',
      `/memory/holds/${String(hold['memory_hold_id'])}/release`,
      undefined,
      room.tenant.people.admin.key,
    )
    assert.equal((await ask('GET', `/memory/holds?subject=${subject}`)).items.length, 1)
    const asked = await ask('POST', '/memory/forget', { subject, idempotency_key: 'forget-f1' })
    assert.deepEqual(await ask('POST', '/memory/forget', { subject, idempotency_key: 'forget-f1' }), asked)
    await settle(asked['command_id'])
    const inbox = await ask('GET', `/approvals?command_id=${String(asked['command_id'])}`)
    await ask('POST', `/approvals/${String(inbox.items[0]?.['approval_id'])}/resolve`, { decision: 'approved' }, owner)
    assert.equal(await settle(asked['command_id']), 'succeeded')
    const done = await ask('GET', `/memory/erasures/${String(asked['memory_erasure_id'])}`)
    assert.deepEqual([done['outcome'], done['subject']], ['erased', null])
    assert.equal((await ask('GET', `/memory?subject=${subject}`)).items.length, 0)
    assert.equal(await outcomeOf(await send('POST', '/memory/forget', { subject })), '404 memory.forget.nothing_known')
  })

  test('bad input has its code; nothing is written', async () => {
    const before = await room.rows('select count(*) from concord.memory_candidates')
    const cases: readonly (readonly [string, string, unknown, string])[] = [
      ['POST', '/memory', aBody('alice'), '422 memory.subject.invalid'],
      ['POST', '/memory', aBody('customer:x', { content: { password: 'hunter2' } }), '422 memory.content.secret'],
      ['POST', '/memory', aBody('customer:x', { content: {} }), '422 memory.content.empty'],
      ['POST', '/memory', aBody('customer:x', { temporary: true }), '422 memory.expiry.missing'],
      ['POST', '/memory', aBody('customer:x', { expires_at: '2001-01-01T00:00:00Z' }), '422 memory.expiry.past'],
      ['POST', '/memory', aBody('customer:x', { schema_name: 'no.such' }), '422 memory.schema.unknown'],
      ['POST', '/memory', aBody('customer:x', { supersedes: `mem_${'0'.repeat(32)}` }), '404 memory.source.not_found'],
      ['GET', '/memory/records/mem_1', undefined, '400 id_format'],
      ['GET', `/memory/records/mem_${'0'.repeat(32)}`, undefined, '404 memory.record.not_found'],
      ['GET', `/memory/candidates/memc_${'0'.repeat(32)}`, undefined, '404 memory.candidate.not_found'],
      ['GET', `/memory/erasures/memerase_${'0'.repeat(32)}`, undefined, '404 memory.erasure.not_found'],
      ['POST', `/memory/holds/memhold_${'0'.repeat(32)}/release`, undefined, '403 identity.role.insufficient'],
    ]
    for (const [method, path, body, expected] of cases) {
      assert.equal(await outcomeOf(await send(method, path, body)), expected, `${method} ${path}`)
    }
    assert.deepEqual(await room.rows('select count(*) from concord.memory_candidates'), before)
    const reader = room.tenant.people.reader.key
    assert.equal(
      await outcomeOf(await send('POST', '/memory', aBody('customer:x'), reader)),
      '403 identity.role.insufficient',
    )
  })

  test('a user consents for that user alone, and another organisation sees nothing', async () => {
    const { reader, writer } = room.tenant.people
    const of = (userId: string) => ({ subject: `user:${userId}`, memory_type: 'preference', scope: 'user' })
    const foreign = await send('POST', '/memory/consents', of(reader.principal.userId))
    assert.equal(await outcomeOf(foreign), '403 memory.consent.not_yours')
    await ask('POST', '/memory/consents', of(writer.principal.userId))
    // Consents are visible to their subject, administrators and data owners.
    const { admin } = room.tenant.people
    const seenBy = async (key: string) => {
      const { items } = await ask('GET', `/memory/consents?limit=100`, undefined, key)
      return items.filter(({ subject }) => subject === `user:${encodeId('user', writer.principal.userId)}`).length
    }
    assert.deepEqual(
      [await seenBy(writer.key), await seenBy(admin.key), await seenBy(owner), await seenBy(reader.key)],
      [1, 1, 1, 0],
    )
    const own = await ask('POST', '/memory', aBody(`user:${writer.principal.userId}`))
    assert.equal(own['status'], 'accepted')
    const path = `/memory/records/${String(own['memory_id'])}`
    assert.equal(await outcomeOf(await send('GET', path)), '200 ok')
    assert.equal(await outcomeOf(await send('GET', path, undefined, reader.key)), '404 memory.record.not_found')
    assert.equal(await outcomeOf(await send('GET', path, undefined, owner)), '200 ok')
    assert.equal(
      await outcomeOf(await send('GET', path, undefined, theirs.people.admin.key)),
      '404 memory.record.not_found',
    )
    assert.equal((await ask('GET', '/memory', undefined, theirs.people.admin.key)).items.length, 0)
  })

  test('a proposal about a person is visible to no other user, in any state', async () => {
    const { admin, writer } = room.tenant.people
    const body = aBody(`user:${admin.principal.userId}`, { memory_type: 'fact', fact_key: 'own' })
    const { memory_candidate_id } = await ask('POST', '/memory', body, admin.key)
    const path = `/memory/candidates/${String(memory_candidate_id)}`
    for (const [method, to] of [
      ['GET', path],
      ['POST', `${path}/approve`],
      ['POST', `${path}/reject`],
    ] as const) {
      const answer = await send(method, to, method === 'POST' ? {} : undefined, writer.key)
      assert.equal(await outcomeOf(answer), '404 memory.candidate.not_found', to)
    }
  })
})
