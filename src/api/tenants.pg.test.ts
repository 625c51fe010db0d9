import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { createWorkspace } from '#domains/identity'
import { bySystem } from '#kernel/actor'
import { decodeId, encodeId } from '#kernel/ids'
import { call, type Call, openTestApi, type TestApi } from '#test/api'
import { aPlan, type MissionRoom, openMissionRoom, planTask } from '#test/missions'
import { accepted, TRACE } from '#test/tenant'
import type { Api } from './api.ts'

const ABSENT = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'

/** Every place where a caller can send the id or name of another tenant. */
const places: readonly {
  readonly title: string
  readonly foreign: (api: TestApi) => string
  readonly send: (id: string) => readonly [string, Call]
}[] = [
  {
    title: 'key_id in DELETE /keys',
    foreign: (api) => encodeId('api_key', api.theirs.people.reader.keyId),
    send: (id) => [`/keys/${id}`, { method: 'DELETE' }],
  },
  {
    title: 'key_id as a UUID',
    foreign: (api) => api.theirs.people.admin.keyId,
    send: (id) => [`/keys/${id}`, { method: 'DELETE' }],
  },
  ...(['role', 'org-roles', 'deactivate', 'reactivate', 'invite'] as const).map((verb) => ({
    title: `user_id in POST /people/…/${verb}`,
    foreign: (api: TestApi) => encodeId('user', api.theirs.people.reader.principal.userId),
    send: (id: string) => {
      const body = { role: { role: 'writer' }, 'org-roles': { org_role: 'finance' } }[verb as string] ?? {}
      return [`/people/${id}/${verb}`, { method: 'POST', body }] as const
    },
  })),
  {
    title: 'workspace in POST /workspaces/…/members',
    foreign: (api) => encodeId('workspace', api.theirs.workspace.id),
    send: (id) => [
      `/workspaces/${id}/members`,
      { method: 'POST', body: { user_id: 'user_0197f3b2c4d57a8e9b0c1d2e3f405163' } },
    ],
  },
  {
    title: 'workspace_id in POST /keys',
    foreign: (api) => api.theirs.workspace.id,
    send: (id) => ['/keys', { method: 'POST', body: { name: 'k', role: 'reader', workspace_id: id } }],
  },
  {
    title: 'X-Workspace-ID',
    foreign: (api) => api.theirs.workspace.id,
    send: (id) => ['/events?after=0.0', { headers: { 'x-workspace-id': id } }],
  },
  {
    title: 'X-Workspace-ID with prefix',
    foreign: (api) => encodeId('workspace', api.theirs.workspace.id),
    send: (id) => ['/events?after=0.0', { headers: { 'x-workspace-id': id } }],
  },
  {
    title: 'workspace_id in the query',
    foreign: (api) => api.theirs.workspace.id,
    send: (id) => [`/events?after=0.0&workspace_id=${id}`, {}],
  },
]

describe('ids of another tenant', () => {
  let api: TestApi
  before(async () => {
    api = await openTestApi({ defaultWorkspace: 'main' })
  })
  after(() => api.close())

  async function ask(send: (id: string) => readonly [string, Call], id: string) {
    const [path, request] = send(id)
    const response = await call(api.app, path, { ...request, key: api.ours.people.admin.key })
    const { trace_id: _, request_id: __, ...body } = (await response.json()) as Record<string, unknown>
    return { status: response.status, body }
  }

  for (const { title, foreign, send } of places) {
    test(`[FLOW-108] [SEC-08] ${title}: 404, the same as for one that does not exist, and no trace`, async () => {
      const before_ = await api.fingerprint()
      const theirs = await ask(send, foreign(api))
      const absent = await ask(
        send,
        title.includes('prefix')
          ? encodeId('workspace', ABSENT)
          : title.includes('DELETE')
            ? encodeId('api_key', ABSENT)
            : ABSENT,
      )
      assert.equal(theirs.status, 404)
      assert.deepEqual(theirs, absent)
      assert.equal(await api.fingerprint(), before_)
    })
  }

  test('[SEC-08] lists hold nothing of the other tenant', async () => {
    for (const path of ['/keys?limit=500', '/workspaces?limit=500', '/me']) {
      const text = await (await call(api.app, path, { key: api.ours.people.admin.key })).text()
      for (const id of [
        api.theirs.orgId,
        api.theirs.workspace.id,
        ...Object.values(api.theirs.people).flatMap(({ principal, keyId }) => [principal.userId, keyId]),
      ]) {
        assert.equal(text.includes(id.replaceAll('-', '')), false, `${path} names ${id}`)
      }
    }
  })

  test('[MIS-323] the first place that names a workspace counts, and a foreign one there is not rescued', async () => {
    const { key } = api.ours.people.reader
    const own = { 'x-workspace': 'main' }
    const forged = await call(api.app, `/events?workspace_id=${api.ours.workspace.id}`, {
      key,
      headers: { ...own, 'x-workspace-id': api.theirs.workspace.id },
    })
    assert.equal(forged.status, 404)
    const fine = await call(api.app, `/events?workspace_id=${api.theirs.workspace.id}`, { key, headers: own })
    assert.equal(fine.status, 200)
    await fine.body?.cancel()
  })
})

type Ids = Readonly<Record<'mission_id' | 'task_id' | 'card_id' | 'recipe_id' | 'artifact_id' | 'lease_token', string>>
type Own = { readonly missionId: string; readonly artifactId: string }
type Sends = (ids: Ids, own?: Own) => { readonly query?: string; readonly body?: object }

const ROOM = /^\/(missions|mission-tasks|board|recipes|reports|api\/v1\/tasks)(\/|$)/
type Described = { readonly operationId: string; readonly requestBody?: unknown }
const { paths } = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8')) as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
}
const operations = Object.entries(paths).flatMap(([path, methods]) =>
  ROOM.test(path)
    ? Object.entries(methods).map(([method, { operationId, requestBody }]) => ({
        method: method.toUpperCase(),
        path,
        operationId,
        hasBody: requestBody !== undefined,
      }))
    : [],
)

const leased: Sends = ({ lease_token }) => ({ body: { lease_token, attempt: 1 } })
const plan = aPlan(planTask('own'))

/** The bodies of the routes with an id in their path, where an empty one is not accepted. */
const bodies: Readonly<Record<string, Sends>> = {
  raiseMissionBudget: () => ({ body: { hard_limit: '20' } }),
  changeMissionPlan: () => ({ body: { ...plan, version: 2 } }),
  forkMission: () => ({ body: { from: 'foreign-done' } }),
  editRecipe: () => ({ body: { name: 'Mine' } }),
  startMissionTask: leased,
  keepMissionTask: leased,
  continueMissionTask: leased,
  submitMissionTask: leased,
  failMissionTask: ({ lease_token }) => ({ body: { lease_token, attempt: 1, error: 'No.' } }),
  startMissionVerification: () => ({ body: { attempt: 1 } }),
  giveMissionVerdict: () => ({ body: { attempt: 1, output_checksum: 'a', verdict: 'pass' } }),
}

/** The routes that take an id of the room in the query or the body. */
const named: Readonly<Record<string, readonly Sends[]>> = {
  getBoard: [({ mission_id }) => ({ query: `mission_id=${mission_id}` })],
  listReports: [({ mission_id }) => ({ query: `mission_id=${mission_id}` })],
  createMission: [({ recipe_id }) => ({ body: { recipe: Number(recipe_id) } })],
  createCard: [({ card_id }) => ({ body: { title: 'Mine', parent_task_id: Number(card_id) } })],
  fileReport: [
    ({ artifact_id }) => ({ body: { report_type: 'audit', title: 'Mine', artifact_id } }),
    ({ task_id }, own) => ({ body: { report_type: 'audit', title: 'Mine', artifact_id: own?.artifactId, task_id } }),
  ],
}

/** The routes that answer about the whole workspace, with every filter that could name something of another one. */
const whole: Readonly<Record<string, readonly Sends[]>> = {
  listMissions: [
    () => ({ query: 'limit=500' }),
    () => ({ query: 'state=completed' }),
    () => ({ query: 'search=release' }),
  ],
  listRecipes: [() => ({})],
  listCards: [() => ({}), ({ card_id }) => ({ query: `parent_task_id=${card_id}` })],
  listReports: [() => ({})],
  getBoard: [() => ({})],
  readMissionOutcomes: [() => ({}), () => ({ query: 'task_type=research' })],
  claimMissionTask: [() => ({ body: { queues: ['foreign-queue'] } })],
  preflightPlan: [() => ({ body: { plan } })],
}

describe('missions of another workspace', () => {
  let api: TestApi
  let room: MissionRoom
  let app: Api
  let foreign: Ids
  /** An administrator of another organisation, and the one of this organisation in a second workspace. Both have a mission and an artifact. */
  let callers: readonly { readonly key: string; readonly workspace: string; readonly own: Own }[]
  const absent: Ids = {
    mission_id: encodeId('mission', ABSENT),
    task_id: encodeId('mission_task', ABSENT),
    artifact_id: encodeId('artifact', ABSENT),
    card_id: '2000000000',
    recipe_id: '900000000',
    lease_token: ABSENT,
  }

  const send = async (
    { key, workspace }: { readonly key: string; readonly workspace: string },
    { method, path, hasBody }: (typeof operations)[number],
    ids: Ids,
    { query, body = hasBody ? {} : undefined }: ReturnType<Sends>,
  ) => {
    const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => ids[name as keyof Ids])
    const request = { method, key, headers: { 'x-workspace': workspace }, ...(body !== undefined && { body }) }
    const answer = await call(app, query === undefined ? filled : `${filled}?${query}`, request)
    const { trace_id: _, request_id: __, ...shown } = (await answer.json()) as Record<string, unknown>
    return { status: answer.status, shown }
  }
  const uuidOf = (missionId: string) => {
    const id = decodeId('mission', missionId)
    assert.ok(id.ok)
    return id.value
  }
  const putArtifact = async (missionId: string) => {
    const id = randomUUID()
    await room.db.query(
      `insert into concord.artifacts (artifact_id, workspace_id, command_id, artifact_type, location, status, created_by, checksum, content_type, size_bytes)
       select $2, workspace_id, command_id, 'report', $3, 'ready', 'user:ada', $4, 'text/plain', 7 from missions.orchestration_runs where id = $1`,
      [missionId, id, `disk:${'a'.repeat(64)}`, `sha256:${'a'.repeat(64)}`],
    )
    return encodeId('artifact', id)
  }
  /** What the application alone keeps apart. That row security keeps it apart alone is proven with the rules of the tables. */
  const switchOffRowSecurity = () =>
    room.db.transaction(async (tx) => {
      await tx.query('set local role none')
      const tables = await tx.query<{ name: string }>(
        `select oid::regclass::text as name from pg_class where relrowsecurity and relnamespace = 'missions'::regnamespace`,
      )
      assert.ok(tables.length >= 9)
      for (const { name } of tables) await tx.query(`alter table ${name} disable row level security`)
    })
  const find = (name: string) => {
    const found = operations.find(({ operationId }) => operationId === name)
    assert.ok(found, name)
    return found
  }

  before(async () => {
    api = await openTestApi()
    room = await openMissionRoom({ on: { clock: api.world, tenant: api.ours } })
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [] } })
    await switchOffRowSecurity()
    const { orgId, people } = api.ours
    const second = { orgId, slug: 'second', name: 'Second', ownerUserId: people.admin.principal.userId }
    accepted(await createWorkspace(api.world, bySystem(TRACE), second))
    const writer = { key: people.writer.key, workspace: 'main' }
    const done = await room.run(aPlan(planTask('foreign-done', { task_type: 'research' })))
    const doneId = encodeId('mission', done.id)
    const saved = await send(
      writer,
      find('saveRecipe'),
      { ...absent, mission_id: doneId },
      { body: { name: 'foreign' } },
    )
    const worker = { run: { worker: 'foreign-queue', payload: {} } }
    const open = await room.run(aPlan(planTask('foreign-done'), planTask('w1', worker), planTask('w2', worker)))
    const { shown } = await send(writer, find('claimMissionTask'), absent, { body: { queues: ['foreign-queue'] } })
    const claimed = shown['claimed'] as { readonly task_id: string; readonly lease_token: string }
    const [card] = await room.rows<{ id: number }>(`select id from missions.board_tasks where source_id = $1`, [
      open.id,
    ])
    foreign = {
      mission_id: encodeId('mission', open.id),
      task_id: claimed.task_id,
      lease_token: claimed.lease_token,
      artifact_id: await putArtifact(open.id),
      card_id: String(card?.id),
      recipe_id: String(saved.shown['recipe_id']),
    }
    callers = await Promise.all(
      [
        { key: api.theirs.people.admin.key, workspace: 'main' },
        { key: people.admin.key, workspace: 'second' },
      ].map(async (caller) => {
        const made = await send(caller, find('createMission'), absent, { body: { goal: 'Mine', plan } })
        const missionId = String(made.shown['mission_id'])
        return { ...caller, own: { missionId, artifactId: await putArtifact(uuidOf(missionId)) } }
      }),
    )
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  test('every id of the room exists, and its own people read it', async () => {
    const { key } = api.ours.people.writer
    for (const name of ['getMission', 'explainMissionTask', 'getRecipe', 'getCard', 'keepMissionTask']) {
      const sends = bodies[name]?.(foreign) ?? {}
      assert.equal((await send({ key, workspace: 'main' }, find(name), foreign, sends)).status, 200, name)
    }
    for (const caller of callers)
      assert.equal(
        (await send(caller, find('getMission'), { ...absent, mission_id: caller.own.missionId }, {})).status,
        200,
      )
  })

  test('[MIS-320] [MIS-321] [MIS-324] [MIS-326] [MIS-369] every route with an id in its path: 404, the same as for one that does not exist, and no trace', async () => {
    const before_ = await api.fingerprint()
    for (const operation of operations.filter(({ path }) => path.includes('{')))
      for (const caller of callers) {
        const sends = bodies[operation.operationId]?.(foreign) ?? {}
        const theirs = await send(caller, operation, foreign, sends)
        assert.equal(theirs.status, 404, `${operation.operationId}: ${JSON.stringify(theirs.shown)}`)
        assert.deepEqual(replaced(theirs), replaced(await send(caller, operation, absent, sends)))
        if (!/mission_id.*task_id/.test(operation.path)) continue
        // A task of another workspace under a mission of one's own.
        const own = { ...foreign, mission_id: caller.own.missionId }
        const mixed = await send(caller, operation, own, sends)
        assert.equal(mixed.status, 404, operation.operationId)
        assert.deepEqual(mixed, await send(caller, operation, { ...own, task_id: absent.task_id }, sends))
      }
    assert.equal(await api.fingerprint(), before_)
  })

  test('[MIS-320] [MIS-321] [MIS-324] [MIS-326] [MIS-369] the other routes: an id in the query or the body is a missing one, and lists and claims hold nothing of other workspaces', async () => {
    const without = operations.filter(({ path }) => !path.includes('{')).map(({ operationId }) => operationId)
    assert.deepEqual(without.toSorted(), [...new Set([...Object.keys(named), ...Object.keys(whole)])].toSorted())
    const before_ = await api.fingerprint()
    for (const caller of callers) {
      for (const [name, all] of Object.entries(named))
        for (const sends of all) {
          const theirs = await send(caller, find(name), foreign, sends(foreign, caller.own))
          assert.equal(theirs.status, 404, `${name}: ${JSON.stringify(theirs.shown)}`)
          assert.deepEqual(
            replaced(theirs),
            replaced(await send(caller, find(name), absent, sends(absent, caller.own))),
          )
        }
      for (const [name, all] of Object.entries(whole))
        for (const sends of all) {
          const { status, shown } = await send(caller, find(name), foreign, sends(foreign))
          assert.equal(status, 200, `${name}: ${JSON.stringify(shown)}`)
          const hidden = [foreign.mission_id, foreign.task_id, 'foreign', 'research', 'Release 2.4']
          for (const text of hidden) assert.equal(JSON.stringify(shown).includes(text), false, `${name} shows ${text}`)
        }
    }
    assert.equal(await api.fingerprint(), before_)
  })

  /** A refusal may repeat the number that the caller sent. */
  const replaced = (answer: object) =>
    [foreign, absent]
      .flatMap(({ card_id, recipe_id }) => [card_id, recipe_id])
      .reduce((text, id) => text.replaceAll(new RegExp(`\\b${id}\\b`, 'g'), 'N'), JSON.stringify(answer))
})
