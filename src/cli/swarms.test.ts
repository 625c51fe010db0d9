/** Swarms and the chain of authority on a terminal of 80 columns. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { COMMAND_ID, runAgainst } from '#test/recorded-server'

const SWARM = `swarm_${'5'.repeat(32)}`
const PERSON = `user_${'7'.repeat(32)}`
const run = (digit: number) => `agent_${String(digit).repeat(32)}`
const member = (digit: number, parent: number | null, agent_name: string, more: object = {}) => ({
  agent_run_id: run(digit),
  parent_agent_run_id: parent && run(parent),
  command_id: COMMAND_ID,
  agent_name,
  agent_role: 'researcher',
  status: 'succeeded',
  end_reason: 'final_answer_created',
  spawn_depth: parent === null ? 0 : 1,
  step_count: 2,
  max_steps: 10,
  cost_units: '0.250000',
  invocation_type: 'delegate',
  delegated_goal: 'Find it.',
  authority_hash: 'a'.repeat(64),
  is_proven: true,
  ...more,
})
const swarm = {
  swarm_run_id: SWARM,
  command_id: COMMAND_ID,
  name: 'report',
  status: 'succeeded',
  end_reason: 'joined',
  objective: 'Write it.',
  execution_mode: 'hierarchical',
  join_strategy: 'first_success',
  limits: { max_agents: 5, max_depth: 2, max_total_steps: 80, max_cost_units: '50.000000', max_parallel: null },
  join: {
    decision: 'succeeded',
    summary: 'The first agent succeeded.',
    selected_artifact_id: `art_${'6'.repeat(32)}`,
    confidence: 1,
    requires_human_review: false,
    losers: [run(3)],
  },
  created_at: '2026-05-01T10:00:00.000Z',
  deadline_at: null,
  completed_at: '2026-05-01T11:00:00.000Z',
}
/** In the order of their start: the child of the second agent is the last. */
const agents = [
  member(1, null, 'coordinator', { agent_role: 'coordinator', end_reason: 'join_decided' }),
  member(2, 1, 'first'),
  member(3, 1, 'second', { status: 'cancelled', end_reason: 'join_decided' }),
  member(4, 2, 'helper\u001b[31m', { spawn_depth: 2 }),
]
const show = (more: object = {}) =>
  runAgainst({ [`GET /swarms/${SWARM}`]: { ...swarm, agents, ...more } }, ['swarms', 'show', SWARM], {
    columns: 80,
    environment: { NO_COLOR: '1' },
  })

describe('swarms', () => {
  test('show draws each agent below the one that started it, with state, steps and cost; ids are whole', async () => {
    const { out } = await show()
    const tree = out.slice(out.indexOf('agent  ')).replaceAll(/ +/g, ' ')
    assert.deepEqual(tree.trimEnd().split('\n'), [
      'agent role status steps cost',
      'coordinator coordinator succeeded 2/10 0.250000',
      `│ ${run(1)}`,
      '├ first researcher succeeded 2/10 0.250000',
      `│ │ ${run(2)}`,
      '│ └ helper\\u{1b}[31m researcher succeeded 2/10 0.250000',
      `│ ${run(4)}`,
      '└ second researcher cancelled: lost 2/10 0.250000',
      ` ${run(3)}`,
    ])
    assert.ok(
      out.split('\n').every((line) => line.length <= 80),
      out,
    )
    for (const text of ['4 of 5, depth 2 of 2', '8 of 80', '1.000000 of 50.000000', 'proven for every agent'])
      assert.ok(out.includes(text), text)
  })

  test('show names every agent whose authority is not proven', async () => {
    const { out } = await show({ agents: [agents[0], { ...agents[1], is_proven: false }] })
    assert.ok(out.includes(`NOT PROVEN: ${run(2)}`), out)
  })

  test('list shows a page, and how to get the next', async () => {
    const page = { items: [swarm], next_cursor: 'c2' }
    const { out, err } = await runAgainst({ 'GET /swarms?limit=1': page }, ['swarms', 'list', '--limit', '1'])
    assert.match(out, new RegExp(`${SWARM}  report  succeeded`))
    assert.match(err, /--cursor c2/)
  })
})

describe('agents verify', () => {
  const link = (digit: number, agent_name: string, more: object = {}) => ({
    agent_run_id: run(digit),
    agent_name,
    agent_role: 'analyst',
    fault: null,
    authority_hash: String(digit).repeat(64),
    parent_authority_hash: null,
    allowed_tools: ['look', 'pay'],
    removed_tools: [],
    delegated_tools: [],
    allowed_connectors: ['postgres'],
    removed_connectors: [],
    max_steps: 20,
    ...more,
  })
  const narrowed = { removed_tools: ['pay'], delegated_tools: ['run_sql'], removed_connectors: ['mail'], max_steps: 5 }
  const verify = (below: object, flags: readonly string[] = []) => {
    const links = [link(1, 'coordinator'), link(2, 'analyst', { ...narrowed, ...below })]
    const is_proven = Object.keys(below).length === 0
    const answer = { agent_run_id: run(2), is_proven, requested_by: PERSON, links }
    const names = { items: [{ user_id: PERSON, name: 'local:ana' }] }
    const answers = { [`GET /agent-runs/${run(2)}/authority`]: answer, [`GET /people/names?user_id=${PERSON}`]: names }
    return runAgainst(answers, ['agents', 'verify', run(2), ...flags])
  }

  test('one line for each link: the person at the top, then what each run lost and was passed', async () => {
    const { out, code } = await verify({})
    assert.equal(code, 0)
    assert.deepEqual(out.replaceAll(/ +/g, ' ').trimEnd().split('\n'), [
      'who status hash may',
      'local:ana person what this person may do today',
      '└ coordinator proven 111111111111 uses look, pay; connectors postgres; 20 steps',
      ' └ analyst proven 222222222222 without pay; without the connectors mail; was passed run_sql; 5 of 20 steps',
    ])
  })

  test('a broken link says what is wrong, and the exit code is not 0', async () => {
    const { out, err, code } = await verify({ fault: 'other_hash' })
    assert.equal(code, 65)
    assert.match(out, /analyst +broken +2{12} +Its row does not have this hash/)
    assert.match(err, /The chain is broken at analyst\.\n +where +agent_2{32}/)
    const json = await verify({ fault: 'other_hash' }, ['--json'])
    assert.deepEqual([json.code, (JSON.parse(json.out) as { is_proven: boolean }).is_proven], [65, false])
  })

  test('without an id every run of the workspace is proven, and one broken chain is enough', async () => {
    const chain = (digit: number, fault: string | null) => ({
      agent_run_id: run(digit),
      is_proven: fault === null,
      requested_by: PERSON,
      links: [link(digit, `agent ${digit}`, { fault })],
    })
    const all = (fault: string | null) =>
      runAgainst(
        {
          'GET /agent-runs?limit=500': {
            items: [{ agent_run_id: run(1) }, { agent_run_id: run(2) }],
            next_cursor: null,
          },
          [`GET /agent-runs/${run(1)}/authority`]: chain(1, null),
          [`GET /agent-runs/${run(2)}/authority`]: chain(2, fault),
        },
        ['agents', 'verify'],
      )
    const well = await all(null)
    assert.deepEqual([well.code, well.out.match(/proven/g)?.length], [0, 2], well.err)
    const { code, out } = await all('other_parent')
    assert.equal(code, 65)
    assert.match(out, /agent 1 +proven +1\n.*agent 2 +broken +1/)
  })
})
