import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { proofSize } from '#test/proof-size'
import { type Money, maxMoney, zeroMoney } from '../money.ts'
import { type Authority, type AuthorityGap, authorityText, decideAuthority } from './authority.ts'
import { decideSpawn, type SpawnCounts, type SpawnParent, type SpawnRequest } from './spawn.ts'

const parent: SpawnParent = {
  allowed_tools: ['spawn_subagent', 'run_sql'],
  forbidden_tools: [],
  delegable_tools: [],
  allowed_connectors: ['postgres'],
  memory_scope: { subject_type: 'user', allowed_memory_types: ['preference'], max_results: 10 },
  context_scope: { artifacts: ['report'] },
  max_steps: 20,
  spawn_depth: 0,
  allowed_child_roles: [],
  cost_left: 5n as Money,
  deadline_at: new Date(5),
}
const swarm: SpawnCounts = { maxDepth: 1, maxAgents: 4, agentCount: 1, maxTotalSteps: 80, stepsTaken: 20 }
const request: SpawnRequest = {
  agent_role: 'researcher',
  allowed_tools: ['run_sql'],
  allowed_connectors: ['postgres'],
  memory_scope: {},
  context_scope: {},
  max_steps: 10,
  max_cost: 5n as Money,
  deadline_at: new Date(5),
}
const textsOf = (change: Partial<SpawnRequest>, on: Partial<SpawnParent> = {}, counts: Partial<SpawnCounts> = {}) =>
  decideSpawn({ ...request, ...change }, { ...parent, ...on }, { ...swarm, ...counts }).reasons

test('a spawn within its parent is allowed and has no reasons', () => {
  assert.deepEqual(decideSpawn(request, parent, swarm), { decision: 'allowed', reasons: [] })
  assert.equal(decideSpawn({ ...request, max_steps: 21 }, parent, swarm).decision, 'denied')
})

const failing: readonly (readonly [Parameters<typeof textsOf>, string])[] = [
  [[{}, { spawn_depth: 1 }], 'Spawn depth exceeded.'],
  [[{}, {}, { agentCount: 4 }], 'Swarm agent limit exceeded.'],
  [[{}, { allowed_child_roles: ['reviewer'] }], 'Role not allowed: researcher'],
  [[{ allowed_tools: ['run_sql', 'publish_artifact'] }], 'Child requested tools outside parent scope.'],
  [[{}, { forbidden_tools: ['run_sql'] }], 'Child requested tools outside parent scope.'],
  [[{ allowed_connectors: ['github'] }], 'Child requested connectors outside parent scope.'],
  [[{ memory_scope: { max_results: 11 } }], 'Child requested memory outside parent scope.'],
  [[{ memory_scope: { allowed_memory_types: ['fact'] } }], 'Child requested memory outside parent scope.'],
  [[{ context_scope: { artifacts: ['salary'] } }], 'Child requested context outside parent scope.'],
  [[{ context_scope: { tables: true } }], 'Child requested context outside parent scope.'],
  [[{ max_steps: 21 }], 'Child requested more steps than its parent.'],
  [[{ max_steps: Number.NaN }, {}, {}], 'Child requested more steps than its parent.'],
  [[{ max_cost: 6n as Money }], 'Child requested more cost than its parent has left.'],
  [[{}, { cost_left: zeroMoney }], 'Child requested more cost than its parent has left.'],
  [[{ deadline_at: new Date(6) }], 'Child requested a later deadline than its parent.'],
  [[{ deadline_at: new Date(Number.NaN) }], 'Child requested a later deadline than its parent.'],
  [[{}, {}, { stepsTaken: 71 }], 'Swarm step limit exceeded.'],
]
for (const [at, [args, text]] of failing.entries()) {
  test(`[SWM-21][SWM-22] case ${at}: ${text}`, () => assert.ok(textsOf(...args).includes(text)))
}

test('[SWM-28] a child without a limit has that of its parent; a parent without one gives any', () => {
  assert.deepEqual(
    textsOf({ max_cost: null, deadline_at: null }, { cost_left: zeroMoney, deadline_at: new Date(0) }),
    [],
  )
  const any = { max_cost: maxMoney, deadline_at: new Date(8.64e15) }
  assert.deepEqual(textsOf(any, { cost_left: null, deadline_at: null }), [])
})

test('[SWM-22] every reason is collected, in a fixed order', () => {
  const wide = { allowed_tools: ['x'], allowed_connectors: ['x'], agent_role: 'worker' }
  assert.deepEqual(textsOf(wide, { spawn_depth: 1, allowed_child_roles: ['reviewer'] }, { agentCount: 9 }), [
    'Spawn depth exceeded.',
    'Swarm agent limit exceeded.',
    'Role not allowed: worker',
    'Child requested tools outside parent scope.',
    'Child requested connectors outside parent scope.',
  ])
})

test('[SWM-23] the coordinator counts and has depth 0: a limit of 4 takes it and three children', () => {
  for (const agentCount of [1, 2, 3]) assert.deepEqual(textsOf({}, {}, { agentCount }), [])
  assert.deepEqual(textsOf({}, {}, { agentCount: 4 }), ['Swarm agent limit exceeded.'])
})

test('[SWM-26] a parent can pass on a tool that the loader made delegable and no other, and cannot use it itself', () => {
  const coordinator = { allowed_tools: ['spawn_subagent'], delegable_tools: ['run_sql'] }
  assert.deepEqual(textsOf({}, coordinator), [])
  assert.deepEqual(textsOf({}, { ...coordinator, delegable_tools: [] }), [
    'Child requested tools outside parent scope.',
  ])
  const own = {
    requester: 'all',
    role: 'all',
    ancestors: [],
    manifest: { tools: coordinator.allowed_tools, forbiddenTools: [] },
  } as const
  assert.deepEqual(decideAuthority('run_sql', own), ['manifest'])
})

/** Eight names of each kind are the bits of a number: containment of sets is one operation on two numbers. */
const bits = [0, 1, 2, 3, 4, 5, 6, 7]
const names = (set: number) => bits.filter((bit) => (set >> bit) & 1).map((bit) => `n${bit}`)
const isSubset = (child: number, of: number) => (child & ~of) === 0

/** Mulberry32: one seed gives a thousand trees. */
function numbersFrom(seed: number) {
  let state = seed
  return (below: number) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

type Sets = {
  tools: number
  forbidden: number
  delegable: number
  connectors: number
  memory: number
  search: boolean
  results: number
  steps: number
  cost: number
  deadline: number
}
const authorityOf = (sets: Sets): Authority => ({
  allowed_tools: names(sets.tools),
  forbidden_tools: names(sets.forbidden),
  delegable_tools: names(sets.delegable),
  allowed_connectors: names(sets.connectors),
  memory_scope: { types: names(sets.memory), search: sets.search, results: sets.results },
  context_scope: { views: names(sets.memory >> 1) },
  max_steps: sets.steps,
})
const limitsOf = ({ cost, deadline }: Sets) => ({ max_cost: BigInt(cost) as Money, deadline_at: new Date(deadline) })
const toolsOf = (sets: Sets) => ({
  tools: names(sets.tools),
  forbiddenTools: names(sets.forbidden),
  delegableTools: names(sets.delegable),
})

/** One run of the property has a thousand. */
const SEEDS = proofSize(100, 1_000)
test(`[SWM-21] of ${SEEDS * 1_000} trees a run exists if and only if its parent contains it, and it can use exactly what all above it permit`, () => {
  fc.assert(
    fc.property(fc.integer(), (seed) => {
      const next = numbersFrom(seed)
      // Mostly narrow: a tree whose every request is refused shows nothing.
      const part = (of: number) => (next(4) === 0 ? next(256) : of & next(256))
      for (let tree = 0; tree < 1000; tree++) {
        let above: Sets = {
          tools: 255 & ~next(32),
          forbidden: next(4),
          delegable: next(64) << 2,
          connectors: next(256),
          memory: next(256),
          search: next(2) === 0,
          results: next(20),
          steps: 1 + next(20),
          cost: next(20),
          deadline: next(20),
        }
        const chain: Sets[] = [above]
        const person = next(8) === 0 ? null : 255 & ~(1 << next(16))
        const role = 255 & ~(1 << next(16))
        const maxDepth = next(4)
        for (let depth = 0; depth < 3; depth++) {
          const usable = (above.tools | above.delegable) & ~above.forbidden
          const child: Sets = {
            tools: part(usable),
            forbidden: next(4),
            delegable: 0,
            connectors: part(above.connectors),
            memory: part(above.memory),
            search: above.search && next(4) > 0,
            results: next(above.results + 2),
            steps: 1 + next(above.steps + 1),
            cost: next(above.cost + 2),
            deadline: next(above.deadline + 2),
          }
          const asked = authorityOf(child)
          const { decision } = decideSpawn(
            { ...asked, ...limitsOf(child), agent_role: 'worker' },
            {
              ...authorityOf(above),
              ...limitsOf(above),
              cost_left: limitsOf(above).max_cost,
              spawn_depth: depth,
              allowed_child_roles: [],
            },
            { maxDepth, maxAgents: 9, agentCount: depth + 1, maxTotalSteps: 1000, stepsTaken: 0 },
          )
          const isContained =
            depth + 1 <= maxDepth &&
            isSubset(child.tools, usable) &&
            isSubset(child.connectors, above.connectors) &&
            isSubset(child.memory, above.memory) &&
            (above.search || !child.search) &&
            child.results <= above.results &&
            child.steps <= above.steps &&
            child.cost <= above.cost &&
            child.deadline <= above.deadline
          if ((decision === 'allowed') !== isContained)
            assert.fail(`seed ${seed}, tree ${tree}, depth ${depth}: ${decision}`)
          if (!isContained) break
          chain.push(child)
          above = child
        }
        const own = chain.at(-1) ?? above
        const upper = chain.slice(0, -1)
        const tool = next(8)
        const may = (set: number) => ((set >> tool) & 1) === 1
        const gaps = decideAuthority(`n${tool}`, {
          requester: person === null ? null : names(person),
          role: names(role),
          ancestors: upper.map(toolsOf),
          manifest: toolsOf(own),
        })
        const expected: [AuthorityGap, boolean][] = [
          ['requester', person === null || !may(person)],
          ['role', !may(role)],
          ['parent', !upper.every((each) => may(each.tools | each.delegable))],
          ['manifest', !may(own.tools)],
          ['forbidden', chain.some((each) => may(each.forbidden))],
        ]
        const open = expected.flatMap(([gap, isOpen]) => (isOpen ? [gap] : []))
        if (gaps.join() !== open.join())
          assert.fail(`seed ${seed}, tree ${tree}: ${gaps.join()} instead of ${open.join()}`)
      }
    }),
    { numRuns: SEEDS },
  )
})

test('the text of an authority changes with every part and with its parent, and not with the order of a list', () => {
  const origin = { parentHash: 'a' }
  const text = authorityText(parent, origin)
  assert.equal(authorityText({ ...parent, allowed_tools: parent.allowed_tools.toReversed() }, origin), text)
  const changes: Partial<Authority>[] = [
    { allowed_tools: ['run_sql'] },
    { forbidden_tools: ['run_sql'] },
    { delegable_tools: ['run_sql'] },
    { allowed_connectors: [] },
    { memory_scope: {} },
    { context_scope: {} },
    { max_steps: 19 },
  ]
  const texts = [
    text,
    authorityText(parent, { parentHash: 'b' }),
    authorityText(parent, { userId: 'a' }),
    ...changes.map((change) => authorityText({ ...parent, ...change }, origin)),
  ]
  assert.equal(new Set(texts).size, texts.length)
})
