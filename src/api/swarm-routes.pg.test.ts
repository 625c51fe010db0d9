/** Swarms and the authority of runs over HTTP: pages, the tree, the losers, who may read them, and a chain that was tampered with. */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import { authorityText } from '#kernel/agents/authority'
import { canonicalJson } from '#kernel/canonical-json'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { openDb } from '#store'
import { call, openTestApi, outcomeOf, type TestApi } from '#test/api'
import { testSwarms } from '#test/swarm-project'
import { openSwarmRoom, type SwarmRoom } from '#test/swarms'
import type { Api } from './api.ts'

type Member = {
  readonly agent_run_id: string
  readonly parent_agent_run_id: string | null
  readonly agent_name: string
  readonly cost_units: string
  readonly is_proven: boolean
}
type Swarm = {
  readonly swarm_run_id: string
  readonly name: string
  readonly join: { readonly losers: readonly string[] } | null
  readonly agents: readonly Member[]
}
type Chain = {
  readonly is_proven: boolean
  readonly requested_by: string
  readonly links: readonly {
    readonly agent_name: string
    readonly fault: string | null
    readonly removed_tools: readonly string[]
    readonly delegated_tools: readonly string[]
    readonly max_steps: number
  }[]
}

describe('swarms over HTTP', () => {
  let api: TestApi
  let room: SwarmRoom
  let app: Api
  type Ended = Awaited<ReturnType<SwarmRoom['swarmOf']>>
  const swarms = new Map<string, { row: Ended; id: string; runs: Awaited<ReturnType<SwarmRoom['runsOf']>> }>()
  before(async () => {
    api = await openTestApi()
    room = await openSwarmRoom(testSwarms, 1, { clock: api.world, tenant: api.ours })
    app = api.with({ work: { commands: room.world, approvals: room.approvals, webhooks: [], agents: room.agents } })
    for (const name of ['all_of_them', 'race', 'nested'] as const) {
      const row = await room.swarmOf(await room.start(name))
      swarms.set(name, { row, id: encodeId('swarm_run', row.swarm_run_id), runs: await room.runsOf(row) })
    }
  })
  after(async () => {
    await room.close()
    await api.close()
  })

  const ask = (path: string, key = api.ours.people.reader.key) =>
    call(app, path, { key, headers: { 'x-workspace': 'main' } })
  const get = async <View>(path: string, key?: string) => (await (await ask(path, key)).json()) as View
  const swarmOf = (name: string) => swarms.get(name) ?? assert.fail(name)
  const authorityOf = (agentRunId: string) => `/agent-runs/${encodeId('agent_run', agentRunId)}/authority`

  test('the list has pages, newest first; together they are all swarms of the workspace', async () => {
    const found: string[] = []
    for (let cursor = ''; ; ) {
      const page = await get<{ items: Swarm[]; next_cursor: string | null }>(`/swarms?limit=1${cursor}`)
      assert.ok(page.items.length <= 1)
      found.push(...page.items.map(({ swarm_run_id }) => swarm_run_id))
      if (page.next_cursor === null) break
      cursor = `&cursor=${page.next_cursor}`
    }
    assert.deepEqual(found, [...swarms.values()].map(({ id }) => id).toReversed())
    assert.deepEqual((await get<{ items: [] }>('/swarms', api.theirs.people.admin.key)).items, [])
  })

  test('a swarm shows every agent below the one that started it, its cost, its proof, and who lost', async () => {
    const nested = swarmOf('nested')
    const { agents } = await get<Swarm>(`/swarms/${nested.id}`)
    const nameOf = (id: string | null) => agents.find(({ agent_run_id }) => agent_run_id === id)?.agent_name ?? null
    assert.deepEqual(
      agents.map((each) => [each.agent_name, nameOf(each.parent_agent_run_id), each.cost_units, each.is_proven]),
      nested.runs.map(({ agent_name }, at) => [
        agent_name,
        [null, 'lead', nested.runs[1]?.agent_name, nested.runs[1]?.agent_name][at],
        '0',
        true,
      ]),
    )
    const race = swarmOf('race')
    const { join } = await get<Swarm>(`/swarms/${race.id}`)
    assert.deepEqual(
      join?.losers,
      race.row.joined?.losers.map((id) => encodeId('agent_run', id)),
    )
    assert.equal(join?.losers.length, 4)
  })

  test('a swarm and an authority of another workspace look like missing ones; the key of an agent does not open swarms', async () => {
    const { id, runs } = swarmOf('all_of_them')
    const key = api.theirs.people.admin.key
    const none = 'f'.repeat(32)
    for (const path of [`/swarms/${id}`, `/swarms/swarm_${none}`])
      assert.equal(await outcomeOf(await ask(path, key)), '404 agents.swarm.not_found', path)
    for (const path of [authorityOf(runs[1]?.agent_run_id ?? ''), `/agent-runs/agent_${none}/authority`])
      assert.equal(await outcomeOf(await ask(path, key)), '404 agents.run.not_found', path)
    assert.match(await outcomeOf(await ask('/swarms/swarm_x')), /^400 /)
    const made = await call(app, '/keys', {
      method: 'POST',
      key: api.ours.people.writer.key,
      headers: { 'x-workspace': 'main' },
      body: { name: 'planner', role: 'writer', agent: 'planner', tools: ['pay'] },
    })
    const agentKey = ((await made.json()) as { key: string }).key
    for (const path of ['/swarms', `/swarms/${id}`])
      assert.equal(await outcomeOf(await ask(path, agentKey)), '403 api.route.closed_to_agents', path)
    const foreign = await ask(authorityOf(runs[1]?.agent_run_id ?? ''), agentKey)
    assert.equal(await outcomeOf(foreign), '404 agents.run.not_found', 'another agent started it')
  })

  test('the authority of a run is a chain up to the person, and says what each link lost; a row that was changed breaks it', async () => {
    const { id, runs } = swarmOf('nested')
    const last = runs.at(-1)?.agent_run_id ?? ''
    const chain = await get<Chain>(authorityOf(last))
    assert.deepEqual(
      [chain.is_proven, chain.requested_by],
      [true, encodeId('user', api.ours.people.writer.principal.userId)],
    )
    assert.deepEqual(
      chain.links.map((link) => [
        link.agent_name,
        link.fault,
        link.removed_tools,
        link.delegated_tools,
        link.max_steps,
      ]),
      [
        ['lead', null, [], [], 20],
        [runs[1]?.agent_name, null, ['read_artifact', 'request_approval'], [], runs[1]?.max_steps],
        [runs.at(-1)?.agent_name, null, ['spawn_subagent'], [], 3],
      ],
    )
    const faults = async () => (await get<Chain>(authorityOf(last))).links.map(({ fault }) => fault)
    const owner = openDb({ url: api.url, poolMax: 1 })
    /** With the rights of a database owner, who can bypass the triggers. */
    const forge = (set: string, agentRunId: string) =>
      owner.transaction(async (tx) => {
        await tx.query('set local session_replication_role = replica')
        await tx.query(`update concord.agent_runs set ${set} where agent_run_id = $1`, [agentRunId])
      })
    try {
      const middle = runs[1]?.agent_run_id ?? ''
      const { authority_hash: hash } = runs[1] ?? {}
      await forge(`authority_hash = '${'0'.repeat(64)}'`, middle)
      assert.deepEqual(await faults(), [null, 'other_hash', 'other_parent'])
      const { agents } = await get<Swarm>(`/swarms/${id}`)
      assert.deepEqual(
        agents.map(({ is_proven }) => is_proven),
        [true, false, false, false],
      )
      await forge(`authority_hash = '${hash}'`, middle)
      assert.deepEqual(await faults(), [null, null, null])
      // Its gates, what it may write into memory and its limits are in the manifest alone.
      const manifest = runs[1]?.manifest ?? {}
      const [skill] = manifest['skills'] as readonly JsonObject[]
      const forgeManifest = (to: JsonObject) => {
        const hashed = createHash('sha256').update(canonicalJson(to)).digest('hex')
        return forge(`manifest = '${JSON.stringify(to)}', manifest_hash = '${hashed}'`, middle)
      }
      for (const change of [
        { approval_gates: ['nothing'] },
        { skills: [{ ...skill, memory_scope: { read: [], write: ['preference'] } }] },
        { limits: { max_steps: 10, max_cost_units: null, deadline_minutes: 9_000 } },
      ]) {
        await forgeManifest({ ...manifest, ...change })
        assert.deepEqual(await faults(), [null, 'other_event', null], Object.keys(change).join())
      }
      await forgeManifest(manifest)
      assert.deepEqual(await faults(), [null, null, null])
      await forge('max_steps = 2', last)
      assert.deepEqual(await faults(), [null, null, 'other_hash'])
      const text = authorityText(
        {
          allowed_tools: ['create_artifact'],
          forbidden_tools: [],
          delegable_tools: [],
          allowed_connectors: [],
          memory_scope: {},
          context_scope: {},
          max_steps: 2,
        },
        { parentHash: hash ?? '' },
      )
      await forge(`authority_hash = '${createHash('sha256').update(text).digest('hex')}'`, last)
      assert.deepEqual(
        await faults(),
        [null, null, 'other_event'],
        'the hash of the changed row is not the one of its start',
      )
    } finally {
      await owner.close()
    }
  })
})
