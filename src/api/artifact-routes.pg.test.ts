/** The routes of the artifacts room: pages, content as a file and in parts, both walls, publishing as a command, holds. */
import assert from 'node:assert/strict'
import { createHash, randomUUID } from 'node:crypto'
import { readdir, readFile, readlink, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import {
  type ArtifactView,
  type ArtifactDeps,
  openDiskStore,
  type StoredArtifact,
  writeArtifact,
} from '#domains/artifacts'
import { decodeId, encodeId } from '#kernel/ids'
import { readPlaces } from '#kernel/policy/destination'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { testArtifactTypes } from '#test/projects/connectors'
import { aBlobFolder, byWorker, governedBy } from '#test/artifacts'
import { openRoomOn, type TestRoom } from '#test/commands'
import { aCommand } from '#test/concord-rows'
import { accepted } from '#test/tenant'
import type { Api } from './api.ts'

describe('the routes of the artifacts room', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  let world: ArtifactDeps
  let folder: string

  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    folder = await aBlobFolder()
    const { db, now, newId } = api.world
    const store = openDiskStore({ folder, newId, contentBytesMax: 1_048_576 })
    world = { db, now, newId, types: testArtifactTypes, stores: [store] }
    room = openRoomOn(api.world, api.ours, (given) => ({
      ...given,
      ...governedBy(world),
      inside: accepted(readPlaces(['Team.example', 'slack:*'])),
    }))
    app = api.with({ work: { commands: room.world, approvals: room.approvals, artifacts: world, webhooks: [] } })
  })
  after(async () => {
    await room.close()
    await api.close()
    await rm(folder, { recursive: true, force: true })
  })

  const text = 'The report of May. '.repeat(400)

  async function anArtifact(more: object = {}): Promise<StoredArtifact & { wire: string }> {
    const workspaceId = api.ours.workspace.id
    const row = accepted(
      await writeArtifact(world, byWorker, {
        workspaceId,
        commandId: (await aCommand(world.db, workspaceId)).command_id,
        type: 'report',
        title: 'May',
        file_name: 'Bericht „Mai“.txt',
        content: { text },
        createdBy: `user:${api.ours.people.writer.principal.userId}`,
        step: randomUUID(),
        ...more,
      }),
    )
    return { ...row, wire: encodeId('artifact', row.artifact_id) }
  }
  const get = (path: string, role: 'reader' | 'writer' | 'admin' = 'reader', headers: Record<string, string> = {}) =>
    call(app, path, { key: api.ours.people[role].key, headers })
  const post = (path: string, role: 'reader' | 'writer' | 'admin', body: unknown = {}) =>
    call(app, path, { key: api.ours.people[role].key, method: 'POST', body })

  test('gets one artifact and pages of artifacts', async () => {
    const { wire, checksum, artifact_id } = await anArtifact()
    const one = (await (await get(`/artifacts/${wire}`)).json()) as ArtifactView
    assert.deepEqual(
      [one.artifact_id, one.title, one.checksum, one.status, one.has_content],
      [wire, 'May', checksum, 'ready', true],
    )
    assert.equal(JSON.stringify(one).includes('disk:'), false, 'the location of the content is private')
    assert.deepEqual(await (await get(`/artifacts/${artifact_id}`)).json(), one)
    const all: string[] = []
    for (let cursor: string | null = ''; cursor !== null; ) {
      const page = (await (await get(`/artifacts?limit=1${cursor && `&cursor=${cursor}`}`)).json()) as {
        items: ArtifactView[]
        next_cursor: string | null
      }
      all.push(...page.items.map((item) => item.artifact_id))
      cursor = page.next_cursor
    }
    assert.equal(new Set(all).size, all.length)
    assert.ok(all.includes(wire))
    assert.equal(await outcomeOf(await get('/artifacts?status=gone')), '422 api.field.value')
    assert.equal(await outcomeOf(await get('/artifacts?cursor=abc')), '400 cursor_invalid')
  })

  test('the content is a file that no browser shows, whole and in parts', async () => {
    const { wire, checksum } = await anArtifact()
    const whole = await get(`/artifacts/${wire}/content`)
    assert.equal(whole.status, 200)
    assert.deepEqual(
      [
        'content-type',
        'content-length',
        'x-content-type-options',
        'content-security-policy',
        'accept-ranges',
        'etag',
      ].map((name) => whole.headers.get(name)),
      [
        'text/plain; charset=utf-8',
        String(text.length),
        'nosniff',
        "default-src 'none'; sandbox",
        'bytes',
        `"${checksum}"`,
      ],
    )
    assert.equal(
      whole.headers.get('content-disposition'),
      `attachment; filename="Bericht__Mai_.txt"; filename*=UTF-8''Bericht%20%E2%80%9EMai%E2%80%9C.txt`,
    )
    assert.equal(await whole.text(), text)

    const part = await get(`/artifacts/${wire}/content`, 'reader', { range: 'bytes=4-9' })
    assert.deepEqual([part.status, part.headers.get('content-range')], [206, `bytes 4-9/${text.length}`])
    assert.equal(await part.text(), 'report')
    const stale = await get(`/artifacts/${wire}/content`, 'reader', { range: 'bytes=4-9', 'if-range': '"other"' })
    assert.equal(stale.status, 200)
    await stale.body?.cancel()
    const beyond = await get(`/artifacts/${wire}/content`, 'reader', { range: 'bytes=999999-' })
    assert.deepEqual([beyond.status, beyond.headers.get('content-range')], [416, `bytes */${text.length}`])
  })

  test('a HEAD request leaves no file open', { skip: process.platform !== 'linux' }, async () => {
    const { wire, checksum } = await anArtifact()
    const head = await call(app, `/artifacts/${wire}/content`, {
      key: api.ours.people.reader.key,
      method: 'HEAD',
      headers: { range: 'bytes=4-9' },
    })
    assert.deepEqual([head.status, head.headers.get('content-length')], [200, String(text.length)])
    const open: string[] = []
    for (const each of await readdir('/proc/self/fd'))
      open.push(await readlink(`/proc/self/fd/${each}`).catch(() => ''))
    assert.deepEqual(
      open.filter((file) => file.includes(checksum.slice('sha256:'.length))),
      [],
    )
  })

  test('missing or altered content is refused with its code before a byte is sent', async () => {
    const { wire, checksum } = await anArtifact({ content: { text: `${text} other` } })
    const sha256 = checksum.slice('sha256:'.length)
    const file = join(folder, sha256.slice(0, 2), sha256)
    const good = await readFile(file)
    await writeFile(file, good.fill(0, 10, 20))
    assert.equal(await outcomeOf(await get(`/artifacts/${wire}/content`)), '500 artifacts.content.altered')
    await rm(file)
    assert.equal(await outcomeOf(await get(`/artifacts/${wire}/content`)), '500 artifacts.content.missing')
  })

  test('foreign, private and absent artifacts get the same answer on every route', async () => {
    const { wire: mine } = await anArtifact()
    const { wire: diary } = await anArtifact({ type: 'diary' })
    const absent = encodeId('artifact', randomUUID())
    for (const suffix of ['', '/content', '/lineage']) {
      const theirs = await call(app, `/artifacts/${mine}${suffix}`, { key: api.theirs.people.admin.key })
      assert.equal(await outcomeOf(theirs), '404 row.not_found')
      assert.equal(await outcomeOf(await get(`/artifacts/${diary}${suffix}`)), '404 row.not_found')
      assert.equal(await outcomeOf(await get(`/artifacts/${absent}${suffix}`)), '404 row.not_found')
      assert.equal((await outcomeOf(await get(`/artifacts/${diary}${suffix}`, 'writer'))).slice(0, 3), '200')
    }
    const published = await call(app, `/artifacts/${mine}/publish`, {
      key: api.theirs.people.admin.key,
      method: 'POST',
      body: { destination: 'internal' },
    })
    assert.equal(await outcomeOf(published), '404 row.not_found')
    assert.equal(await outcomeOf(await get('/artifacts/cmd_0197f3b2c4d57a8e9b0c1d2e3f405170')), '400 id_format')
  })

  test('[H4] [POL-07] [SEC-09] a destination is published to at once only if it is declared, however it is spelled', async () => {
    const statusAfter = async (destination: string) => {
      const { wire } = await anArtifact()
      const asked = await post(`/artifacts/${wire}/publish`, 'writer', { destination })
      const { command_id } = (await asked.json()) as { command_id: string }
      return room.settle(accepted(decodeId('command', command_id)))
    }
    for (const destination of [
      'External:partner',
      'EXTERNAL:partner',
      'evil.example.com',
      'sftp:evil.example.com',
      'https:evil.example',
      'tel:+4930123456',
      'discord:general',
      'ada@team.example.evil.org',
      'ada@evil-team.example',
      'mailto:ada@evil.org',
      'finance',
    ])
      assert.equal(await statusAfter(destination), 'waiting_for_approval', destination)
    for (const destination of ['internal', 'Ada@TEAM.example', 'mailto:ada@team.example.', 'Slack:general'])
      assert.equal(await statusAfter(destination), 'succeeded', destination)
  })

  test('[ART-06] publishing is a command; an external destination waits for an approval', async () => {
    const { wire, artifact_id } = await anArtifact()
    const asked = await post(`/artifacts/${wire}/publish`, 'writer', { destination: 'finance@example.com' })
    assert.equal(asked.status, 202)
    const { command_id } = (await asked.json()) as { command_id: string }
    const uuid = accepted(decodeId('command', command_id))
    assert.equal(await room.settle(uuid), 'waiting_for_approval')
    assert.equal(
      await outcomeOf(await post(`/artifacts/${wire}/publish`, 'reader', { destination: 'internal' })),
      '403 identity.role.insufficient',
    )
    assert.equal(
      await outcomeOf(await post(`/artifacts/${wire}/publish`, 'writer', { destination: 'a b' })),
      '422 api.field.value',
    )
    const inside = await post(`/artifacts/${wire}/publish`, 'writer', { destination: 'internal' })
    assert.equal(inside.status, 202)
    const second = accepted(decodeId('command', ((await inside.json()) as { command_id: string }).command_id))
    assert.equal(await room.settle(second), 'succeeded')
    const shown = (await (await get(`/artifacts/${artifact_id}`)).json()) as ArtifactView
    assert.deepEqual([shown.status, shown.published_to], ['published', 'internal'])
    const back = await post(`/artifacts/${wire}/unpublish`, 'admin', { reason: 'too early' })
    assert.equal(((await back.json()) as ArtifactView).status, 'unpublished')
    assert.equal(await outcomeOf(await post(`/artifacts/${wire}/unpublish`, 'admin')), '409 machine.move.illegal')
  })

  test('an administrator holds and releases; others do not', async () => {
    const { wire } = await anArtifact()
    assert.equal((await outcomeOf(await post(`/artifacts/${wire}/hold`, 'writer', { reason: 'x' }))).slice(0, 3), '403')
    const held = (await (await post(`/artifacts/${wire}/hold`, 'admin', { reason: 'an audit' })).json()) as ArtifactView
    assert.equal(held.hold_reason, 'an audit')
    const free = (await (await post(`/artifacts/${wire}/release`, 'admin')).json()) as ArtifactView
    assert.equal(free.hold_reason, null)
    const given = (await (
      await post(`/artifacts/${wire}/cancel`, 'writer', { reason: 'wrong' })
    ).json()) as ArtifactView
    assert.equal(given.status, 'cancelled')
  })

  test('a draft is finished once', async () => {
    const { wire } = await anArtifact({ is_draft: true })
    assert.equal((await outcomeOf(await post(`/artifacts/${wire}/finish`, 'reader'))).slice(0, 3), '403')
    assert.equal(((await (await get(`/artifacts/${wire}`)).json()) as ArtifactView).status, 'draft')
    const ready = (await (await post(`/artifacts/${wire}/finish`, 'writer')).json()) as ArtifactView
    assert.equal(ready.status, 'ready')
    assert.equal(await outcomeOf(await post(`/artifacts/${wire}/finish`, 'writer')), '409 machine.move.illegal')
  })

  test('the lineage on the wire', async () => {
    const source = await anArtifact()
    const { wire } = await anArtifact({ sources: [{ kind: 'artifact', id: source.artifact_id }] })
    const drawn = (await (await get(`/artifacts/${wire}/lineage`)).json()) as {
      nodes: { id: string }[]
      edges: { from: string; to: string }[]
    }
    assert.ok(drawn.edges.some(({ from, to }) => from === source.wire && to === wire))
    assert.equal(createHash('sha256').update(text).digest('hex'), source.checksum.slice(7))
  })
})
