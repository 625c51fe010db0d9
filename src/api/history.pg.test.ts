/** After the history was archived: the API says what is there, that there is more, and where; a stream never leaves it out in silence. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { archiveHistory } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { openDb } from '#store'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { openRoomOn, type TestRoom } from '#test/commands'
import { oldWorld, untilVisible } from '#test/history'
import { accepted, TRACE } from '#test/tenant'
import type { Api } from './api.ts'
import { auditRoutes } from './audit-routes.ts'
import { commandRoutes } from './command-routes.ts'
import { openPageCursors } from './page-cursor.ts'

type Archived = readonly { readonly file: string; readonly sha256: string; readonly archived_at: string }[]

describe('the API after the history was archived', () => {
  let api: TestApi
  let app: Api
  let room: TestRoom
  let folder: string
  let files: readonly string[]
  let orgFiles: number
  let id: string
  let other: string

  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
    room = openRoomOn(api.world, api.ours)
    const [deps, cursors] = [{ ...api.deps, commands: room.world }, openPageCursors(api.deps.cursorKey)]
    const routes = [commandRoutes.mount(deps, cursors), auditRoutes.mount(deps, cursors)]
    app = api.with({ extraRoutes: (router) => routes.forEach((each) => void router.route('/', each)) })
    folder = await mkdtemp(join(tmpdir(), 'concord-history-'))
    id = await room.submit({ subject: 'old', steps: ['connector.hotel.book_a'] })
    assert.equal(await room.settle(id), 'succeeded')
    const owner = openDb({ url: api.url, poolMax: 2 })
    const { endedBefore, ...world } = oldWorld(owner, folder)
    await untilVisible(owner)
    const moved = accepted(await archiveHistory(world, { endedBefore, traceId: TRACE }))
    await owner.close()
    files = moved.files.filter((each) => each.workspaceId === api.ours.workspace.id).map(({ file }) => file)
    orgFiles = moved.files.filter((each) => each.workspaceId === api.ours.orgId).length
    assert.ok(orgFiles > 0)
    other = await room.submit({ subject: 'new', steps: ['connector.hotel.book_a'] })
    assert.equal(await room.settle(other), 'succeeded')
  })
  after(async () => {
    await room.close()
    await api.close()
    await rm(folder, { recursive: true, force: true })
  })

  const get = (path: string, key = api.ours.people.reader.key) => call(app, path, { key })
  const read = async <T>(path: string) => (await (await get(path)).json()) as T

  test('[PER-09] the events and the explanation of a command name the archive files and what to do', async () => {
    const shown = encodeId('command', id)
    const page = await read<{ items: unknown[]; archived: Archived }>(`/commands/${shown}/events`)
    assert.deepEqual([page.items, page.archived.map(({ file }) => file)], [[], files])
    assert.match(page.archived[0]?.sha256 ?? '', /^[0-9a-f]{64}$/)
    const story = await read<{ summary: string; archived: Archived; archived_note: string | null }>(
      `/commands/${shown}/explanation`,
    )
    assert.match(story.summary, /has succeeded\.$/)
    assert.equal(story.archived.length, 1)
    assert.match(story.archived_note ?? '', new RegExp(`concord history show ${shown}`))

    const fresh = encodeId('command', other)
    const whole = await read<{ items: unknown[]; archived: Archived }>(`/commands/${fresh}/events`)
    assert.ok(whole.items.length > 0)
    assert.deepEqual(whole.archived, [])
    assert.equal((await read<{ archived_note: unknown }>(`/commands/${fresh}/explanation`)).archived_note, null)
    const foreign = await get(`/commands/${shown}/events`, api.theirs.people.reader.key)
    assert.equal(foreign.status, 404)
  })

  test('[PER-09] the audit counts the archive files of a command and of the workspace', async () => {
    type Audit = { items: unknown[]; archived_files: number }
    const old = await read<Audit>(`/audit?command_id=${encodeId('command', id)}`)
    assert.deepEqual(old, { items: [], next_cursor: null, archived_files: 1 })
    assert.equal((await read<Audit>(`/audit?command_id=${encodeId('command', other)}`)).archived_files, 0)
    assert.equal((await read<Audit>('/audit')).archived_files, files.length)
    const org = (await (await get('/org/audit', api.ours.people.admin.key)).json()) as Audit
    assert.equal(org.archived_files, orgFiles)
    const foreign = await get(`/audit?command_id=${encodeId('command', id)}`, api.theirs.people.reader.key)
    assert.equal(((await foreign.json()) as Audit).archived_files, 0)
  })

  test('[PER-09] a stream from before the archived events is refused with 410, and continues if the reader skips them', async () => {
    for (const cursor of ['start', '0.0', '1.5']) {
      const refused = await get(`/events?after=${cursor}&until=now`)
      assert.equal(await outcomeOf(refused), '410 cursor_archived')
    }
    const rest = await (await get('/events?after=start&archived=skip&until=now')).text()
    assert.match(rest, /event: history_archived/)
    assert.match(rest, new RegExp(encodeId('command', other)))
    assert.doesNotMatch(rest, new RegExp(encodeId('command', id)))
    // A reader who has seen everything continues normally.
    const cursor = [...rest.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1] ?? ''
    assert.equal((await get(`/events?after=${cursor}&until=now`)).status, 200)
    assert.equal((await get('/events?until=now')).status, 200)
    assert.equal((await get('/events?archived=yes')).status, 422)
  })
})
