/** Missions on a terminal: the plan before its approval, the cause of a failure, and every finding of a plan. */
import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const MISSION = `mission_${'5'.repeat(32)}`
const at = '2026-05-01T10:00:07.000Z'
const mission = {
  mission_id: MISSION,
  command_id: COMMAND_ID,
  gate_command_id: null,
  title: 'Release',
  goal: 'Release',
  state: 'awaiting_approval',
  state_type: 'active',
  progress: { tasks: 0, completed: 0, failed: 0 },
  budget: null,
  error: null,
  result_summary: null,
  warnings: ['There is no setting "autonmy". Did you mean "autonomy"? It has no effect.'],
  created_at: at,
  started_at: null,
  completed_at: null,
  next: [{ do: 'approve', who: 'role:release-manager', words: 'approve the plan' }],
  tasks: [],
  edges: [],
  plan: {
    tasks: [
      { temp_id: 'notes', title: 'Write', depends_on: [], run: { task: 'Generate Report', payload: { topic: 'May' } } },
      { temp_id: 'send', title: 'Send', depends_on: ['notes'], run: { task: 'Publish Report', payload: {} } },
    ],
  },
}
const screen = { environment: { NO_COLOR: '1' }, columns: 80 }
const CAUSE = `The topic is not known. ${'It is long. '.repeat(20)}End.`

test('show prints the tasks of a plan that waits for a person, with their dependencies', async () => {
  const { out } = await runAgainst({ [`GET /missions/${MISSION}`]: mission }, ['missions', 'show', MISSION], screen)
  assert.match(out, /tasks +0\/2/)
  assert.match(out, /notes +Write +Generate Report +\{"topic":"May"\}/)
  assert.match(out, /send +Send +notes +Publish Report/)
  assert.match(out, /Did you mean "autonomy"/)
  assert.match(
    out,
    new RegExp(`next +concord missions approve ${MISSION} +\\(role:release-manager: approve the plan\\)`),
  )
})

test('an action sends its reason and prints the state and the next steps; a rejection needs a reason', async () => {
  const paused = { ...mission, state: 'paused', next: [{ do: 'resume', who: 'user_5', words: 'go on' }] }
  const answers = Object.fromEntries(
    ['pause', 'resume', 'cancel', 'approve', 'reject'].map((verb) => [`POST /missions/${MISSION}/${verb}`, paused]),
  )
  for (const verb of ['pause', 'resume', 'cancel', 'approve', 'reject']) {
    const done = await runAgainst(answers, ['missions', verb, MISSION, '--reason', 'Why.'], screen)
    assert.deepEqual([done.code, done.out, done.heard[0]?.body], [0, `${MISSION} paused\n`, { reason: 'Why.' }])
    assert.match(done.err, /next: concord missions resume mission_5+ +\(user_5: go on\)/)
  }
  const json = await runAgainst(answers, ['missions', 'pause', MISSION, '--json'], screen)
  assert.deepEqual([JSON.parse(json.out), json.heard[0]?.body], [paused, {}])
  assert.equal((await runAgainst(answers, ['missions', 'reject', MISSION], screen)).code, 64)
  const refused = new Problem(409, 'missions.mission.wrong_state')
  const late = await runAgainst(
    { [`POST /missions/${MISSION}/pause`]: refused },
    ['missions', 'pause', MISSION],
    screen,
  )
  assert.equal(late.code, 75)
  assert.match(late.err, /concord missions show mission_5+/)
  assert.doesNotMatch(late.err, /facts/)
})

test('an action on a task takes its temporary id or its id; why explains a mission by its command', async () => {
  const task = { task_id: `task_${'6'.repeat(32)}`, temp_id: 'notes', state: 'cancelled' }
  const at_ = `/missions/${MISSION}/tasks/${task.task_id}`
  const answers = {
    [`GET /missions/${MISSION}`]: { ...mission, tasks: [task] },
    [`POST ${at_}/retry`]: task,
    [`POST ${at_}/cancel`]: task,
    [`POST ${at_}/approve`]: task,
    [`POST ${at_}/reject`]: task,
    [`GET ${at_}/why`]: { task, summary: 'It waits.', depends_on: [], blocks: [] },
    [`GET /commands/${COMMAND_ID}/explanation`]: { summary: 'Run Mission is running.', chain: [] },
  }
  for (const [verb, name] of [
    ['retry', 'notes'],
    ['approve', 'notes'],
    ['reject', 'notes'],
    ['cancel-task', 'notes'],
    ['cancel-task', task.task_id],
  ] as const) {
    const done = await runAgainst(answers, ['missions', verb, MISSION, name, '--reason', 'Why.'], screen)
    assert.deepEqual([done.code, done.out], [0, `${task.task_id} cancelled\n`])
    assert.deepEqual(done.heard.at(-1)?.body, { reason: 'Why.' })
  }
  for (const verb of ['retry', 'approve', 'why']) {
    const wrong = await runAgainst(answers, ['missions', verb, MISSION, 'nots'], screen)
    assert.match(wrong.err, /The mission has no task "nots"[^]*Did you mean `notes`\? It has notes\./, verb)
    assert.deepEqual([wrong.code, wrong.heard.length], [65, 1])
  }
  const again = await runAgainst(answers, ['missions', 'reject', MISSION, 'notes', '--retry', '--reason', 'X'], screen)
  assert.deepEqual(again.heard.at(-1)?.body, { reason: 'X', retry: true })
  const ofTask = await runAgainst(answers, ['missions', 'why', MISSION, 'notes'], screen)
  const ofMission = await runAgainst(answers, ['missions', 'why', MISSION], screen)
  assert.deepEqual([ofTask.out, ofMission.out], ['It waits.\n', 'Run Mission is running.\n'])
})

test('show and watch print the cause of a failure whole, and watch prints seconds', async () => {
  const task = { temp_id: 'notes', title: 'Write', sequence_number: 1, state: 'failed', run: 'X', command_id: null }
  const failed = {
    ...mission,
    state: 'failed',
    state_type: 'terminal',
    error: CAUSE,
    next: [{ do: 'fork', who: 'user_5', words: 'run it again' }],
  }
  const event = (event_id: string, type: string, payload: object) => ({
    event_id,
    type,
    payload,
    task_title: 'Write',
    created_at: at,
  })
  const answers = {
    [`GET /missions/${MISSION}`]: { ...failed, tasks: [{ ...task, error: CAUSE, completed_at: null }] },
    [`GET /missions/${MISSION}/events?`]: {
      items: [
        event('1', 'task_verification_passed', { score: null }),
        event('2', 'task_crashed', { error_message: CAUSE }),
      ],
      next_cursor: null,
    },
  }
  const shown = await runAgainst(answers, ['missions', 'show', MISSION], screen)
  assert.ok(shown.out.replaceAll(/\s+/g, ' ').includes(`notes: ${CAUSE}`), shown.out)
  assert.match(shown.out, /next +concord missions fork mission_5+ --from notes +\(user_5: run it again\)/)
  const watched = await runAgainst(answers, ['missions', 'watch', MISSION], screen)
  assert.match(watched.out, /:07 {2}task completed: Write\n/)
  assert.ok(watched.out.includes(`task crashed: Write: ${CAUSE}\n`), watched.out)
  assert.deepEqual([watched.code, watched.err.includes('cli.mission.not_completed')], [65, true])
  const completed = { ...answers, [`GET /missions/${MISSION}`]: { ...failed, state: 'completed', error: null } }
  assert.equal((await runAgainst(completed, ['missions', 'watch', MISSION], screen)).code, 0)
})

test('create prints every finding of a plan, and counts those beyond the first 21', async () => {
  const findings = Array.from({ length: 30 }, (_, index) => ({ path: `plan.tasks[${index}]`, message: 'Wrong.' }))
  const refused = new Problem(422, 'missions.plan.invalid', { facts: { findings, count: 30 } })
  const args = ['missions', 'create', '--goal', 'Release', '--file', '-']
  const { err } = await runAgainst({ 'POST /missions': refused }, args, { ...screen, stdin: '{}' })
  assert.equal(err.match(/^ {2}also {3}plan\.tasks\[\d+\]: Wrong\.$/gm)?.length, 20)
  assert.match(err, /also {3}9 more/)
})

test('create prints every error of a body, and gives them to programs', async () => {
  const path = 'plan.tasks[0].temp_id'
  const missing = { code: 'api.field.missing', detail: `\`${path}\` is missing.`, path, hint: 'Add it.' }
  const unknown = { code: 'unknown_field', detail: 'No field.', path: 'plan.tasks[0].tempid', hint: 'Did you mean?' }
  const refused = new Problem(422, missing.code, { ...missing, errors: [missing, unknown] })
  const args = ['missions', 'create', '--goal', 'Release', '--file', '-']
  const { err } = await runAgainst({ 'POST /missions': refused }, args, { ...screen, stdin: '{}' })
  assert.deepEqual(err.match(/^ {2}also .*$/gm), ['  also   plan.tasks[0].tempid: No field. Did you mean?'])
  const json = await runAgainst({ 'POST /missions': refused }, [...args, '--json'], { ...screen, stdin: '{}' })
  const { error } = JSON.parse(json.err) as { error: { facts: unknown } }
  assert.deepEqual(error.facts, { errors: [missing, unknown] })
})

test('a plan is a JSON text, a YAML document, or lines with one task each', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'plans-'))
  t.after(() => rm(folder, { recursive: true }))
  const plan = { version: 1, strategy: 'mixed', estimated_cost: '4.50' }
  const task = { temp_id: 'notes', title: 'Write', task_type: 'writing', run: { task: 'Generate Report' } }
  await writeFile(join(folder, 'plan.json'), JSON.stringify({ ...plan, tasks: [task] }))
  await writeFile(
    join(folder, 'plan.yaml'),
    [
      'version: 1\nstrategy: mixed\nestimated_cost: "4.50"\ntasks:',
      '  - { temp_id: notes, title: Write, task_type: writing, run: { task: Generate Report } }\n',
    ].join('\n'),
  )
  await writeFile(join(folder, 'plan.ndjson'), `${JSON.stringify(plan)}\n${JSON.stringify(task)}\n`)
  await writeFile(join(folder, 'twice.yml'), 'version: 1\nversion: 2\n')
  const create = async (file: string) => {
    const args = ['missions', 'create', '--goal', 'Release', '--file', file]
    const { code, err, heard } = await runAgainst({ 'POST /missions': mission }, args, { ...screen, folder })
    return { code, err, body: heard[0]?.body }
  }
  for (const file of ['plan.json', 'plan.yaml'])
    assert.deepEqual((await create(file)).body, { goal: 'Release', plan: { ...plan, tasks: [task] } }, file)
  assert.deepEqual((await create('plan.ndjson')).body, [
    JSON.stringify({ goal: 'Release', plan }),
    JSON.stringify(task),
  ])
  const verbs = [
    [['missions', 'preflight'], 'POST /missions/preflight', (whole: object) => ({ config: {}, plan: whole })],
    [['missions', 'change-plan', MISSION, '--file'], `PUT /missions/${MISSION}/plan`, (whole: object) => whole],
    [['recipes', 'edit', '12', '--file'], 'PATCH /recipes/12', (whole: object) => ({ plan: whole })],
  ] as const
  for (const [args, line, bodyOf] of verbs)
    for (const file of ['plan.json', 'plan.yaml', 'plan.ndjson']) {
      const refused = new Problem(422, 'missions.plan.invalid')
      const { heard } = await runAgainst({ [line]: refused }, [...args, file], { ...screen, folder })
      const lines = [JSON.stringify(bodyOf(plan)), JSON.stringify(task)]
      const sent = file === 'plan.ndjson' ? lines : bodyOf({ ...plan, tasks: [task] })
      assert.deepEqual(heard[0]?.body, sent, `${line} ${file}`)
    }
  const settings = ['--goal', 'X', '--file', 'plan.yaml', '--config', '{autonomy:x}']
  const wrong = await runAgainst({}, ['missions', 'create', ...settings], { ...screen, folder })
  assert.match(wrong.err, /^error --config: /)
  assert.doesNotMatch(wrong.err, /--payload/)
  const twice = await create('twice.yml')
  assert.deepEqual([twice.code, twice.body], [65, undefined])
  assert.match(twice.err, /twice\.yml:2/)
})

test('board prints the columns side by side, with the progress of missions', async () => {
  const card = { title: 'Mission: Release', planning_data: { task_count: 3, tasks_completed: 1 }, error_message: null }
  const columns = [
    { status: 'inbox', count: 0, is_more: false, cards: [] },
    { status: 'in_progress', count: 1, is_more: false, cards: [{ ...card, id: 7 }] },
    {
      status: 'done',
      count: 1_000,
      is_more: true,
      cards: [{ id: 8, title: 'Old\nnews', planning_data: {}, error_message: 'No.' }],
    },
  ]
  const { out } = await runAgainst(
    { [`GET /board?mission_id=${MISSION}`]: { columns } },
    ['board', '--mission', MISSION],
    screen,
  )
  assert.match(out, /^inbox 0 +in progress 1 +done 1000\+\n +7 Mission: Release 1\/3 +✗ 8 Old.+news\n$/)
  const empty = await runAgainst({ 'GET /board?': { columns: [] } }, ['board'], screen)
  assert.equal(empty.err, 'The board is empty.\n')
})

test('preflight shows who approves, the cost, what is missing and what is known later, for a plan and for a mission', async () => {
  const found = {
    is_ready: false,
    tasks: 7,
    approvals: [
      {
        approver: 'role:owner',
        approval_type: 'command_approval',
        approvals_required: 2,
        why: 'A rule.',
        could_decide: ['local:ada'],
        not_counted: [],
        blocked_by: null,
        usual_wait_ms: 540_000,
        tasks: ['a', 'b', 'c', 'd', 'e', 'f', 'g'],
        when: 'arguments',
      },
    ],
    spend: { limit: '8.00', spent: '0.00', first_attempts: '3.00', all_attempts: '9.00', worst_case: '8.00' },
    irreversible: [{ tasks: ['a'], effect_type: 'bank.pay', effect_class: 'keyed', reason: 'It cannot be undone.' }],
    missing: [{ kind: 'task', name: 'Stepp', tasks: ['b'], reason: 'There is no such task.' }],
    unknown: [{ tasks: ['c'], what: 'sum: from results.', until: 'a ends' }],
  }
  const args = ['missions', 'preflight']
  const plan = await runAgainst({ 'POST /missions/preflight': found }, [...args, '-'], { ...screen, stdin: '{"a":1}' })
  assert.equal(plan.code, 65, plan.err)
  assert.deepEqual(plan.heard[0]?.body, { plan: { a: 1 }, config: {} })
  for (const text of [
    'not ready; 7 tasks',
    'at most 8.00; hard limit 8.00',
    '2 more',
    '2 of role:owner',
    '9 min',
    'bank.pay',
    'task Stepp',
    'a ends',
  ])
    assert.ok(plan.out.replaceAll(/\s+/g, ' ').includes(text), `${text} in ${plan.out}`)
  const ready = { ...found, is_ready: true }
  const own = await runAgainst({ [`POST /missions/${MISSION}/preflight`]: ready }, [...args, MISSION], screen)
  assert.deepEqual([own.code, own.out.startsWith('ready')], [0, true])
})

test('graph draws each task with its state and what it waits for, as Mermaid, or as a picture whose lines pass beside the boxes', async () => {
  const node = (id: string, temp_id: string, status: string) => ({ id, temp_id, label: `Do ${temp_id}`, status })
  const graph = {
    nodes: [node('mtask_a', 'notes', 'completed'), node('mtask_b', 'send', 'awaiting_human')],
    edges: [{ from: 'mtask_a', to: 'mtask_b', how: 'data' }],
  }
  const answers = { [`GET /missions/${MISSION}/graph`]: graph }
  const { out } = await runAgainst(answers, ['missions', 'graph', MISSION], screen)
  assert.equal(out, 'notes  Do notes (completed)\nsend  Do send (awaiting human)  after notes\n')
  const { out: mermaid } = await runAgainst(answers, ['missions', 'graph', MISSION, '--mermaid'], screen)
  assert.match(mermaid, /^graph LR\n  n0\["Do notes \(completed\)<br\/>mtask_a"\]\n[^]*n0 --> n1\n$/)
  const far = {
    nodes: [...graph.nodes, node('mtask_c', '<last> & "end"', 'pending')],
    edges: [
      ...graph.edges,
      { from: 'mtask_b', to: 'mtask_c', how: 'data' },
      { from: 'mtask_a', to: 'mtask_c', how: 'ordering' },
    ],
  }
  const { out: svg } = await runAgainst(
    { [`GET /missions/${MISSION}/graph`]: far },
    ['missions', 'graph', MISSION, '--svg'],
    screen,
  )
  const boxes = [...svg.matchAll(/<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)"/g)].map((found) =>
    found.slice(1).map(Number),
  )
  const columns = boxes.map(([x]) => x ?? 0)
  assert.deepEqual([columns.length, new Set(columns).size, columns.toSorted((a, b) => a - b)], [3, 3, columns])
  assert.match(svg, /^<svg [^]*awaiting human[^]*Do &lt;last&gt; &amp; &quot;end&quot;[^]*<\/svg>\n$/)
  const paths = [...svg.matchAll(/<path d="(M[^"]+)" marker-end[^>]*>/g)].map(([whole, line = '']) => ({ whole, line }))
  assert.deepEqual(
    paths.map(({ whole }) => whole.includes('dash')),
    [false, false, true],
    'an edge that only orders is dashed',
  )
  // The line over a column passes beside its box.
  const passes = Number(/([\d.]+) H/.exec(paths[2]?.line ?? '')?.[1])
  const [, y = 0, , height = 0] = boxes[1] ?? []
  assert.ok(passes < y || passes > y + height)
  const task = (temp_id: string, depends_on: unknown[]) => ({ temp_id, title: `Do ${temp_id}`, depends_on })
  const planned = {
    [`GET /missions/${MISSION}/graph`]: { nodes: [], edges: [] },
    [`GET /missions/${MISSION}`]: {
      plan: { tasks: [task('notes', []), task('send', ['notes']), task('log', [{ task: 'send', type: 'ordering' }])] },
    },
  }
  const { out: plan } = await runAgainst(planned, ['missions', 'graph', MISSION], screen)
  assert.equal(
    plan,
    'notes  Do notes (pending)\nsend  Do send (pending)  after notes\nlog  Do log (pending)  after send\n',
  )
})

test('report prints the text', async () => {
  const answers = {
    [`GET /missions/${MISSION}/report`]: { title: 'Release', text: '# Release\n\n- State: completed\n' },
  }
  const { out } = await runAgainst(answers, ['missions', 'report', MISSION], screen)
  assert.match(out, /^# Release\n\n- State: completed\n/)
})
