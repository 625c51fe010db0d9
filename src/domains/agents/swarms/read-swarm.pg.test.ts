/** What a turn of a swarm reads: its agents as they were started, their commands, and the evaluations that count. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { agentKey } from '#kernel/idempotency-key'
import type { JsonObject } from '#kernel/json-value'
import { freshDatabase } from '#test/database'
import { testSwarms } from '#test/swarm-project'
import {
  calls,
  evaluates,
  openSwarmRoom,
  type Play,
  playedBy,
  type SwarmRoom,
  type ToolCall,
  writes,
} from '#test/swarms'
import { aTenant, aWorld } from '#test/tenant'
import type { AgentObservation } from '../agent-runtime.ts'
import { swarmTurns } from './read-swarm.ts'
import { defineSwarm } from './swarm-definition.ts'
import type { StoredSwarmRun } from './swarm-run.ts'

const equipment = {
  allowed_tools: ['read_artifact'],
  allowed_connectors: ['crm'],
  memory_scope: {
    subject_type: 'customer',
    subject_id: 'c1',
    allowed_memory_types: ['preference'],
    allow_semantic_retrieval: false,
    max_results: 1,
  },
}
const told: unknown[] = []
const equipped = defineSwarm('equipped', {
  objective: 'Do it.',
  execution_mode: 'parallel',
  join_strategy: 'all_success',
  inputs: ['customer'],
  coordinator: {
    ...equipment,
    agent_name: 'lead',
    agent_role: 'coordinator',
    allowed_tools: ['spawn_subagent', 'read_artifact'],
    allowed_connectors: ['crm', 'mail'],
  },
  agents: [
    {
      ...equipment,
      agent_name: 'a',
      agent_role: 'worker',
      delegated_goal: 'Call them.',
      max_steps: 7,
      constraints: { tone: 'kind' },
      runtime: playedBy(({ messages }) => {
        told.push(...messages.flatMap((message) => (message.role === 'agent' ? [message.content] : [])))
        return { final: { text: 'done' } }
      }),
    },
  ],
})

type Made = { readonly artifact_id: string; readonly digest: string }
const madeIn = (written: AgentObservation | undefined) => (written?.content ?? {}) as unknown as Made
const publishes = ({ artifact_id, digest: checksum }: Made): ToolCall => ({
  tool: 'publish_artifact',
  artifact_id,
  checksum,
  destination: 'internal',
})
/** Writes an artifact, does what the function says with it, and publishes it. */
const writesAndPublishes = (between: (made: Made) => readonly ToolCall[]): Play => {
  let made: Made
  return calls(
    [writes('mine')],
    (_told, [written]: readonly AgentObservation[]) => {
      made = madeIn(written)
      return between(made)
    },
    () => [publishes(made)],
  )
}
const passes: Play = calls((ids) => ids.map((id) => evaluates(id, 'pass', 1)))
const spawnsReviewer = (artifact_ids: readonly string[]): ToolCall => ({
  tool: 'spawn_subagent',
  agent_name: 'friend',
  agent_role: 'reviewer',
  delegated_goal: 'Pass it.',
  allowed_tools: ['create_artifact'],
  max_steps: 3,
  constraints: { artifact_ids: [...artifact_ids] },
})
const tools = ['create_artifact', 'publish_artifact', 'spawn_subagent']
const reviewed = (name: string, agents: Readonly<Record<string, readonly [role: string, play: Play]>>, more = {}) =>
  defineSwarm(name, {
    objective: 'Do it.',
    execution_mode: 'review_driven',
    join_strategy: 'all_success',
    coordinator: { agent_name: 'lead', agent_role: 'coordinator', allowed_tools: tools },
    // An agent that is not declared passes everything.
    runtime: playedBy(passes),
    agents: Object.entries(agents).map(([agent_name, [agent_role, play]]) => ({
      agent_name,
      agent_role,
      delegated_goal: 'Do it.',
      allowed_tools: tools,
      runtime: playedBy(play),
    })),
    ...more,
  })
const writer = ['worker', calls([writes('a')])] as const
const reviewer = ['reviewer', passes] as const
/** The coordinator starts a worker, then a reviewer for its own artifact and for that of the worker. */
const startsBoth = (): Play => {
  let own: Made
  return calls(
    [
      writes('of the coordinator'),
      {
        tool: 'spawn_subagent',
        agent_name: 'a',
        agent_role: 'worker',
        delegated_goal: 'Do it.',
        allowed_tools: ['create_artifact'],
        max_steps: 3,
      },
    ],
    (_told, [written]) => {
      own = madeIn(written)
      return [spawnsReviewer([own.artifact_id, byWorker])]
    },
  )
}
/** What the second of two reviewers answers. */
let secondReview: Play = passes
let byWorker = ''
const writesOnce = calls([writes('a')], (_told, [written]) => {
  byWorker = madeIn(written).artifact_id
  return []
})
const judged = [
  reviewed('judges_itself', {
    a: ['worker', writesAndPublishes(({ artifact_id }) => [evaluates(artifact_id, 'pass', 1)])],
    reviewer,
  }),
  reviewed('brings_its_judge', {
    a: ['worker', writesAndPublishes(({ artifact_id }) => [spawnsReviewer([artifact_id])])],
    reviewer,
  }),
  reviewed('judge_writes', {
    writer,
    a: ['reviewer', writesAndPublishes(({ artifact_id }) => [evaluates(artifact_id, 'pass', 1)])],
  }),
  reviewed(
    'two_reviewers',
    { writer, first: reviewer, second: ['reviewer', (turn, seen) => secondReview(turn, seen)] },
    { limits: { max_parallel: 1 } },
  ),
  reviewed(
    'led',
    { a: ['worker', writesOnce], friend: reviewer },
    {
      planner: 'coordinator',
      coordinator: {
        agent_name: 'lead',
        agent_role: 'coordinator',
        allowed_tools: tools,
        runtime: playedBy(startsBoth()),
      },
    },
  ),
]

describe('what a swarm reads', () => {
  let room: SwarmRoom
  before(async () => {
    room = await openSwarmRoom([...testSwarms, equipped, ...judged])
  })
  after(() => room.close())

  test('[SWM-28] every child has its parent, swarm, command, goal, constraints, tools, connectors, scopes, limits and depth; its invocation says the same', async () => {
    const id = await room.start('equipped', { customer: 'c1' })
    const row = await room.swarmOf(id)
    const [lead, child, ...more] = await room.runsOf(row)
    const [each, ...others] = await room.invocationsOf(row)
    assert.ok(lead && child && each)
    assert.deepEqual([more, others], [[], []])
    const given = {
      parent_agent_run_id: lead.agent_run_id,
      swarm_run_id: row.swarm_run_id,
      allowed_tools: ['read_artifact'],
      allowed_connectors: ['crm'],
      memory_scope: equipment.memory_scope,
      context_scope: { customer: 'c1' },
      max_steps: 7,
      spawn_depth: 1,
    }
    const those = (of: typeof child | typeof each) =>
      Object.fromEntries(Object.keys(given).map((name) => [name, of[name as keyof typeof given]]))
    assert.deepEqual(those(child), given)
    assert.deepEqual(those(each), given)
    assert.deepEqual([child.goal, each.delegated_goal], ['Call them.', 'Call them.'])
    assert.deepEqual(each.constraints, { tone: 'kind', part: 'a', artifact_ids: [] })
    assert.deepEqual(told, [each.constraints], 'the child was told its constraints')
    assert.deepEqual([each.status, each.invocation_type], ['succeeded', 'delegate'])
    assert.deepEqual([each.child_agent_run_id, child.invocation_id], [child.agent_run_id, each.invocation_id])
    assert.equal(child.command_id, each.command_id)
    assert.notEqual(child.command_id, row.command_id)
    assert.equal(child.parent_authority_hash, lead.authority_hash)
    assert.equal(child.budget_account_id, row.swarm_run_id, 'it pays from the account of the swarm')
  })

  test('a process of an earlier release leaves columns that it does not know at their defaults', async (t) => {
    const { db } = await freshDatabase(t)
    const tables = ['swarm_runs', 'agent_runs', 'agent_invocations']
    for (const table of tables)
      await db.query(`alter table concord.${table} add column later text not null default 'unset'`)
    const clock = aWorld(db)
    const upgraded = await openSwarmRoom([equipped], 1, { clock, tenant: await aTenant(clock) })
    const row = await upgraded.swarmOf(await upgraded.start('equipped', { customer: 'c1' }))
    assert.equal(row.status, 'succeeded')
    for (const table of tables)
      assert.deepEqual(await db.query(`select distinct later from concord.${table}`), [{ later: 'unset' }], table)
    await upgraded.close()
  })

  test('a turn reads the commands that start agents, not those of the agents; evaluations only for a join', async () => {
    const row = await room.swarmOf(await room.start('reviewed'))
    const read = (swarm: StoredSwarmRun) => swarmTurns(room.agents).read(room.world.db, swarm)
    const facts = await read(row)
    assert.deepEqual(
      facts.own.map(({ idempotency_key }) => idempotency_key),
      facts.members.map(({ index }) => agentKey(row.swarm_run_id, index ?? -1)),
    )
    assert.equal(facts.evaluations, null, 'the swarm has joined')
    assert.equal((await read({ ...row, end_reason: null })).evaluations?.length, 1)
  })

  for (const [name, by, what] of [
    ['judges_itself', 'a', 'a worker that evaluates its own work'],
    ['brings_its_judge', 'friend', 'a reviewer that a worker started'],
    ['judge_writes', 'a', 'a reviewer of the plan that evaluates its own work'],
  ] as const)
    test(`[SWM-08] ${what} is no review: nothing is published by it`, async () => {
      const row = await room.swarmOf(await room.start(name))
      const [published, ...more] = await room.rows<{ status: string; error: string | null; judges: string[] }>(
        `select c.status, c.error, (select array_agg(j.agent_name) from concord.artifacts e join concord.agent_runs j using (agent_run_id)
           where e.swarm_run_id = r.swarm_run_id and e.artifact_type = 'evaluation_result' and e.lineage::text like '%' || a.artifact_id || '%') as judges
          from concord.commands c join concord.agent_runs r using (agent_run_id)
          join concord.artifacts a on a.agent_run_id = r.agent_run_id and a.artifact_type = 'analysis'
          where r.swarm_run_id = $1 and c.command_type = 'publish_artifact'`,
        [row.swarm_run_id],
      )
      assert.deepEqual([published?.status, more], ['failed', []])
      assert.ok(published?.judges.includes(by), 'it was evaluated before')
      assert.match(published?.error ?? '', /No reviewer of its swarm has passed the artifact/)
    })

  test('[SWM-08] a pass of the first of two reviewers publishes nothing before the second has ended with a pass too', async () => {
    for (const [decision, outcome] of [
      ['pass', 'succeeded'],
      ['fail', 'failed'],
    ] as const) {
      secondReview = calls((ids) => ids.map((id) => evaluates(id, decision, 1)))
      const id = await room.begin('two_reviewers')
      await room.settle(id)
      const publish = async () => {
        const [made] = await room.rows<{ artifact_id: string; checksum: string }>(
          `select a.artifact_id, a.checksum from concord.artifacts a join concord.swarm_runs s using (swarm_run_id)
            where s.command_id = $1 and a.artifact_type = 'analysis'`,
          [id],
        )
        assert.ok(made)
        const payload = { ...made, artifact_id: encodeId('artifact', made.artifact_id), destination: 'internal' }
        return room.settle(await room.submit(payload, { taskName: 'Publish Artifact' }))
      }
      const isFirstDone = async () =>
        (await room.runsOf(await room.swarmOf(id))).some(
          ({ agent_name, completed_at }) => agent_name === 'first' && completed_at !== null,
        )
      while (!(await isFirstDone())) assert.ok(await room.step())
      assert.equal(await publish(), 'failed', 'the second is at work')
      await room.rest()
      assert.deepEqual([(await room.swarmOf(id)).status, await publish()], [outcome, outcome])
    }
  })

  test('[SWM-08] reviewers that a planning coordinator starts judge the work of others, not its own', async () => {
    const row = await room.swarmOf(await room.start('led'))
    const made = await room.rows<{ artifact_id: string; checksum: string; is_own: boolean }>(
      `select artifact_id, checksum, agent_run_id = $2 as is_own from concord.artifacts where swarm_run_id = $1 and artifact_type = 'analysis' order by is_own`,
      [row.swarm_run_id, row.coordinator_agent_run_id],
    )
    const outcomes: (readonly [isOwn: boolean, status: string])[] = []
    for (const { artifact_id, checksum, is_own } of made) {
      const payload: JsonObject = {
        artifact_id: encodeId('artifact', artifact_id),
        checksum,
        destination: 'internal',
      }
      const id = await room.submit(payload, { taskName: 'Publish Artifact' })
      outcomes.push([is_own, await room.settle(id)])
    }
    assert.deepEqual(outcomes, [
      [false, 'succeeded'],
      [true, 'failed'],
    ])
    assert.equal(row.status, 'succeeded')
  })
})
