import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { accepted, aPerson, type TestPerson, TRACE } from '#test/tenant'
import { openTokenProvider } from '#test/token'
import { until } from '#test/until'
import { createApiKey, createUser, openAuthenticator, revokeApiKey, type StoredApiKey } from '#domains/identity'
import type { Tenant } from '#test/tenant'
import { byPerson, bySystem } from '#kernel/actor'
import { encodeId } from '#kernel/ids'
import { type Notices, openNotices } from '#store'
import type { Api } from './api.ts'

type Frame = { readonly id: string; readonly event: string; readonly data: Record<string, unknown> }

/** Reads frames until there are enough, then leaves; beats and the opening are counted apart. */
async function readFrames(response: Response, enough: number | ((last: Frame) => boolean)): Promise<Frame[]> {
  assert.equal(response.status, 200, await (response.status === 200 ? '' : response.clone().text()))
  assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/)
  const frames: Frame[] = []
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  const isEnough = () => {
    const last = frames.at(-1)
    return typeof enough === 'number' ? frames.length >= enough : last !== undefined && enough(last)
  }
  while (!isEnough()) {
    const { done, value } = await reader.read()
    if (done) break
    const lines = new TextDecoder().decode(value).split('\n')
    const field = (name: string) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
    // The opening has a place and no event, the end has neither.
    const [id, data] = [field('id'), field('data')]
    if (id === undefined || data === undefined) continue
    frames.push({ id, event: field('event') ?? '', data: JSON.parse(data) as Record<string, unknown> })
  }
  await reader.cancel()
  return frames
}

describe('following the events of a workspace', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
  })
  after(() => api.close())

  /** A key bound to the workspace leaves its event there. */
  async function happen({ people, workspace }: Tenant, name: string): Promise<StoredApiKey> {
    const input = { name, role: 'reader', workspaceId: workspace.id } as const
    return accepted(await createApiKey(api.world, byPerson(people.admin.principal, TRACE), input)).stored
  }
  const follow = (query: string, headers: Record<string, string> = {}) =>
    call(api.app, `/events${query}`, { key: api.ours.people.reader.key, headers })

  test('events come in order, with prefixed ids, and only those of the workspace', async () => {
    const made = [await happen(api.ours, 'one'), await happen(api.ours, 'two')]
    await happen(api.theirs, 'theirs')
    made.push(await happen(api.ours, 'three'))
    const frames = await readFrames(await follow('?after=0.0'), 4)
    assert.deepEqual(
      frames.map(({ event }) => event),
      ['workspace_created', 'api_key_created', 'api_key_created', 'api_key_created'],
    )
    assert.deepEqual(
      frames.slice(1).map(({ data }) => (data['payload'] as { key_id: string }).key_id),
      made.map(({ id }) => id),
    )
    for (const { data } of frames) {
      assert.match(String(data['event_id']), /^evt_[0-9a-f]{32}$/)
      assert.equal(String(data['workspace_id']).slice(3), api.ours.workspace.id.replaceAll('-', ''))
      assert.equal(data['trace_id'], TRACE)
    }
  })

  test('an interrupted stream resumes after the last event, without a gap or a repeat', async () => {
    for (let at = 0; at < 6; at++) await happen(api.ours, `resume ${at}`)
    const whole = await readFrames(await follow('?after=0.0&type=api_key_created'), 9)
    const first = await readFrames(await follow('?after=0.0&type=api_key_created'), 4)
    const rest = await readFrames(await follow('?type=api_key_created', { 'last-event-id': first.at(-1)?.id ?? '' }), 5)
    assert.deepEqual([...first, ...rest], whole)
    // The header of a browser that reconnects counts before the address it was given at first.
    const again = await readFrames(
      await follow('?after=0.0&type=api_key_created', { 'last-event-id': whole.at(-2)?.id ?? '' }),
      1,
    )
    assert.deepEqual(again, whole.slice(-1))
  })

  test('without a cursor the stream starts with new events, and types filter them', async () => {
    const response = await follow('?type=api_key_revoked')
    let isRead = false
    const reading = readFrames(response, 1).finally(() => {
      isRead = true
    })
    // The stream learns where "now" is with its first look, a moment after it was opened: something happens until it saw one.
    const made = new Set<unknown>()
    while (!isRead) {
      const key = await happen(api.ours, 'later')
      accepted(await revokeApiKey(api.world, byPerson(api.ours.people.admin.principal, TRACE), key.id))
      made.add(key.id)
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    const [frame] = await reading
    assert.equal(frame?.event, 'api_key_revoked')
    assert.ok(made.has((frame?.data['payload'] as { key_id: string } | undefined)?.key_id))
  })

  test('a reader that disconnects before its first event can resume', async () => {
    const response = await follow('')
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    const opening = new TextDecoder().decode((await reader.read()).value)
    await reader.cancel()
    const place = /^id: (\S+)$/m.exec(opening)?.[1]
    const made = await happen(api.ours, 'in the gap')
    // Behind a long transaction, also of another database of the server, the place is older, and events before it come again.
    const isMade = ({ data }: Frame) => (data['payload'] as { key_id: string }).key_id === made.id
    const frames = await readFrames(await follow(`?after=${place}&type=api_key_created`), isMade)
    assert.ok(frames.some(isMade))
  })

  test('a HEAD opens no stream', async () => {
    for (let at = 0; at < 25; at++) {
      const response = await call(api.app, '/events', { key: api.ours.people.reader.key, method: 'HEAD' })
      assert.equal(response.status, 200)
    }
    const [frame] = await readFrames(await follow('?after=0.0'), 1)
    assert.ok(frame)
  })

  test('a complete stream ends with an end frame; an interrupted one has none', async () => {
    const whole = await (await follow('?after=0.0&until=now')).text()
    assert.match(whole, /event: end\ndata:\n\n$/)
  })

  test('until=now ends the stream after the existing events', async () => {
    const [count] = await api.world.db.query<{ n: number }>(
      'select count(*)::int as n from concord.domain_events where workspace_id = $1',
      [api.ours.workspace.id],
    )
    const frames = await readFrames(await follow('?after=0.0&until=now'), Number.POSITIVE_INFINITY)
    assert.equal(frames.length, count?.n)
    assert.equal(await outcomeOf(await follow('?until=tomorrow')), '422 api.field.value')
  })

  test('a revoked key ends the stream with the next heartbeat', async () => {
    const person = accepted(
      await createApiKey(api.world, byPerson(api.ours.people.admin.principal, TRACE), {
        name: 'leaving',
        role: 'reader',
      }),
    )
    const app = api.with({ limits: { heartbeatMs: 20 } })
    const response = await call(app, '/events', { key: person.key })
    const ended = readFrames(response, Number.POSITIVE_INFINITY)
    accepted(await revokeApiKey(api.world, byPerson(api.ours.people.admin.principal, TRACE), person.stored.id))
    await ended
  })

  test('one key has a bounded number of streams, and leaving one makes room', async () => {
    const app = api.with({ limits: { streamsPerKeyMax: 2 } })
    const { key } = api.ours.people.reader
    const open = () => call(app, '/events', { key })
    const [one, two] = [await open(), await open()]
    const refused = await open()
    assert.ok(refused.headers.get('retry-after'))
    assert.equal(await outcomeOf(refused), '429 api.streams.exceeded')
    await one.body?.cancel()
    const three = await open()
    assert.equal(three.status, 200)
    await Promise.all([two.body?.cancel(), three.body?.cancel()])
  })

  test('a server that goes down ends its streams', async () => {
    const closing = new AbortController()
    const response = await call(api.with({ closing: closing.signal }), '/events', { key: api.ours.people.reader.key })
    const ended = readFrames(response, Number.POSITIVE_INFINITY)
    closing.abort()
    await ended
  })

  test('[M6] streams that arrive together are counted: 60 at once get 20 places', async () => {
    const app = api.with({})
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => call(app, '/events', { key: api.ours.people.reader.key })),
    )
    const open = answers.filter(({ status }) => status === 200)
    assert.deepEqual([open.length, answers.filter(({ status }) => status === 429).length], [20, 40])
    for (const { body } of open) await body?.cancel()
    const refused = await Promise.all(
      Array.from({ length: 60 }, () => call(app, '/events?after=9', { key: api.ours.people.reader.key })),
    )
    assert.ok(refused.every(({ status }) => status === 400))
    const again = await call(app, '/events', { key: api.ours.people.reader.key })
    assert.equal(again.status, 200)
    await again.body?.cancel()
  })

  test('[M6] one reader of the feed serves all streams of a workspace, and each stream gets every event once', async () => {
    let reads = 0
    const { db } = api.deps
    const counted = new Proxy(db, {
      get: (target, name) =>
        name === 'run'
          ? (...args: Parameters<typeof db.run>) => {
              if (args[0].name === 'feed_read_page') reads += 1
              return db.run(...args)
            }
          : (Reflect.get(target, name) as unknown),
    })
    const notices = openNotices(db)
    const app = api.with({ db: counted, feed: { notices, channel: 'concord_events', pollMs: 3_600_000 } })
    try {
      const open = () => call(app, '/events?type=api_key_created', { key: api.ours.people.reader.key })
      const streams = await Promise.all(Array.from({ length: 20 }, open))
      const first = streams.map((stream) => readFrames(stream, 3))
      // Every stream has read its past and follows.
      await until(() => reads >= 41, 'the streams to follow')
      const before = reads
      for (let at = 0; at < 3; at++) {
        await happen(api.ours, `shared ${at}`)
        notices.announce('concord_events')
      }
      const seen = await Promise.all(first)
      for (const frames of seen) assert.deepEqual(frames, seen[0])
      assert.equal(new Set(seen[0]?.map(({ id }) => id)).size, 3)
      assert.ok(reads - before < 20, `${reads - before} reads for 3 events and 20 streams`)
    } finally {
      await notices.close()
    }
  })

  const quiet = { heartbeatMs: 3_600_000 }
  const admin = () => ({ key: api.ours.people.admin.key })
  const ends: Readonly<Record<string, (app: Api, person: TestPerson) => Promise<Response>>> = {
    'its key is revoked': (app, { principal: { keyId } }) =>
      call(app, `/keys/${encodeId('api_key', keyId ?? '')}`, { method: 'DELETE', ...admin() }),
    'its owner is deactivated': (app, { principal: { userId } }) =>
      call(app, `/people/${encodeId('user', userId)}/deactivate`, { method: 'POST', ...admin(), body: {} }),
  }
  test('[M7] the stream of a token ends when the token does, not with the next heartbeat', async () => {
    const { provider, sign } = await openTokenProvider()
    const person = { orgId: api.ours.orgId, externalId: 'auth0|ada', email: 'ada@example.com', role: 'admin' } as const
    accepted(await createUser(api.world, bySystem(TRACE), person))
    const clock = () => new Date()
    const authenticator = openAuthenticator({ db: api.deps.db, now: clock, provider })
    const { authenticate, callers } = authenticator
    const app = api.with({ limits: quiet, now: clock, authenticate, callers })
    const exp = Math.floor(Date.now() / 1_000) + 2
    const watched = readAll(await call(app, '/events', { key: await sign('auth0|ada', exp) }))
    await until(() => watched.chunks > 0, 'the stream')
    await watched.done
    assert.ok(Date.now() >= exp * 1_000)
    await authenticator.close()
  })

  for (const [what, end] of Object.entries(ends))
    test(`[M7] the streams of two servers end when ${what}: here before the answer, there by a notice`, async () => {
      const [here, there] = [openNotices(api.deps.db), openNotices(api.deps.db)]
      const feedOf = (notices: Notices) => ({ notices, channel: 'concord_events', pollMs: 3_600_000 })
      const one = api.with({ limits: quiet, feed: feedOf(here) })
      const two = api.with({ limits: quiet, feed: feedOf(there) })
      try {
        const reader = await aPerson(api.world, api.ours, 'reader', what.replaceAll(' ', '-'))
        const open = (app: Api) => call(app, '/events', { key: reader.key })
        const [mine, other] = [await open(one), await open(two)]
        const watched = readAll(mine)
        const away = readAll(other)
        await until(() => watched.chunks > 0 && away.chunks > 0, 'both streams')
        const answer = await end(one, reader)
        assert.ok(answer.ok, await answer.text())
        assert.equal(watched.isDone, true)
        await away.done
        await happen(api.ours, 'after the end')
        assert.deepEqual([watched.events, away.events], [0, 0])
      } finally {
        await Promise.all([here.close(), there.close()])
      }
    })
})

/** Reads until the end, and counts. */
function readAll(response: Response) {
  const seen = { chunks: 0, events: 0, isDone: false, done: Promise.resolve() }
  const reader = (response.body as ReadableStream<Uint8Array>).getReader()
  seen.done = (async () => {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      seen.chunks += 1
      if (new TextDecoder().decode(value).includes('\ndata: ')) seen.events += 1
    }
    seen.isDone = true
  })()
  return seen
}
