/** Recipes over HTTP: saved from a mission, edited, run with variables, and compared with their origin. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Body, useMissionApi } from '#test/mission-api'
import { aPlan, planTask } from '#test/missions'

describe('recipes over HTTP', () => {
  const http = useMissionApi()
  const { ask } = http
  const uuidOf = (id: unknown) => String(id).replace(/^.*_(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  const missionId = (uuid: string) => `mission_${uuid.replaceAll('-', '')}`
  /** Drives a mission that needs no approval to its end. */
  const finish = async (made: Body) => {
    await http.room.settle(uuidOf(made['command_id']))
    await http.room.rest()
    return (await ask('GET', `/missions/${String(made['mission_id'])}`)).body
  }
  const plan = aPlan(
    planTask('send', {
      title: 'Send it',
      description: 'By mail.',
      success_criteria: 'It arrived.',
      depends_on: ['notes', { task: 'check', type: 'ordering' }],
      trigger_rule: 'all_done',
      tools_requested: ['mail'],
      suggested_model: 'writer-1',
    }),
    planTask('check', { trigger_rule: 'none_failed' }),
    planTask('notes', { task_type: 'writing' }),
    planTask('close', { depends_on: [{ task: 'send', type: 'ordering' }], trigger_rule: 'always' }),
  )

  test('[MIS-312] [MIS-313] [MIS-314] [MIS-315] [MIS-316] [MIS-317] [MIS-318] [MIS-341] [MIS-382] a completed mission becomes a recipe; others are refused', async () => {
    const config = { autonomy: 'full_auto', retry: { max_retries: 2 }, model_preferences: { default: 'small-1' } }
    const waiting = await ask('POST', '/missions', { goal: 'Wait', plan })
    const early = await ask('POST', `/missions/${String(waiting.body['mission_id'])}/save-recipe`, {})
    assert.deepEqual([early.status, early.body['code']], [409, 'missions.recipe.not_completed'])
    assert.deepEqual((early.body['facts'] as Body)['state'], 'pending')
    const run = await http.room.run(plan, config)
    assert.equal(run.state, 'completed')
    await http.room.rows(
      `update missions.orchestration_tasks set agent_type = 'contractor' where run_id = '${run.id}' and spec->>'temp_id' = 'notes'`,
    )
    const [agent] = await http.room.rows<{ id: number }>(
      `insert into missions.agents (workspace_id, name, adapter) values ('${run.workspace_id}', 'ada', 'process') returning id`,
    )
    await http.room.rows(
      `update missions.orchestration_tasks set agent_type = 'roster', agent_id = ${agent?.id} where run_id = '${run.id}' and spec->>'temp_id' = 'check'`,
    )
    const saved = await ask('POST', `/missions/${missionId(run.id)}/save-recipe`, {})
    assert.equal(saved.status, 201, JSON.stringify(saved.body))
    const [row] = await http.room.rows(
      `select * from missions.workflow_recipes where id = ${String(saved.body['recipe_id'])}`,
    )
    assert.deepEqual(
      [
        row?.['name'],
        row?.['description'],
        row?.['workspace_id'],
        row?.['created_by'],
        row?.['owner_type'],
        row?.['tags'],
      ],
      [run.title, run.goal, run.workspace_id, run.created_by, 'workspace', ['from_mission', 'auto_generated']],
    )
    assert.match(String(row?.['template_id']), new RegExp(`^mission-${run.id.slice(0, 8)}-\\d{17}$`))
    const execution = row?.['execution_config'] as Body
    assert.deepEqual([execution['mode'], execution['budget'], execution['max_retries']], ['parallel', null, 2])
    assert.match(String((execution['notes'] as string[])[0]), /one list/)
    const { shape: _shape, score, ...from } = execution['originated_from'] as Body
    assert.equal(score, null)
    assert.deepEqual(from, {
      run_id: run.id,
      completed_at: run.completed_at?.toISOString(),
      cost: run.total_cost,
      duration_ms: run.duration_ms,
      task_count: 4,
    })
    assert.deepEqual(row?.['steps'], [
      // In topological order, ties by the order of the plan.
      {
        id: 'check',
        order: 1,
        prompt_template: 'check',
        agent_id: agent?.id,
        model_override: 'small-1',
        task_type: 'other',
        tools_needed: [],
        depends_on: [],
        pass_to: [],
        error_handling: { on_failure: 'stop' },
      },
      {
        id: 'notes',
        order: 2,
        prompt_template: 'notes',
        agent_id: null,
        model_override: 'small-1',
        task_type: 'writing',
        tools_needed: [],
        depends_on: [],
        pass_to: ['send'],
        error_handling: { on_failure: 'stop' },
        note: 'A contractor did it. Choose an agent before the next run.',
      },
      {
        id: 'send',
        order: 3,
        prompt_template: 'Send it\n\nBy mail.\n\nSuccess criteria: It arrived.',
        agent_id: null,
        model_override: 'writer-1',
        task_type: 'other',
        tools_needed: ['mail'],
        depends_on: ['notes', 'check'],
        pass_to: [],
        error_handling: { on_failure: 'continue' },
      },
      {
        id: 'close',
        order: 4,
        prompt_template: 'close',
        agent_id: null,
        model_override: 'small-1',
        task_type: 'other',
        tools_needed: [],
        depends_on: ['send'],
        pass_to: [],
        error_handling: { on_failure: 'always_run' },
      },
    ])
    const unchanged = await http.room.missionOf(run.id)
    assert.deepEqual([unchanged.version_id, unchanged.state], [run.version_id, 'completed'])
  })

  test('[MIS-319] [MIS-389] a recipe has no variable until a person adds one; a run gives each a value, and is compared with the origin', async () => {
    const run = await http.room.run(aPlan(planTask('notes'), planTask('send', { depends_on: ['notes'] })))
    const saved = (await ask('POST', `/missions/${missionId(run.id)}/save-recipe`, { name: 'Release' })).body
    const at = `/recipes/${String(saved['recipe_id'])}`
    assert.deepEqual([saved['name'], saved['variables']], ['Release', []])
    const edited = aPlan(
      planTask('notes', { run: { task: 'Step', payload: { name: 'notes of {{version}}', from: '{{days}}' } } }),
      planTask('sign', { depends_on: ['notes'] }),
    )
    const changed = await ask('PATCH', at, { description: 'Release {{version}}', plan: edited })
    assert.deepEqual([changed.status, changed.body['variables']], [200, ['days', 'version']])
    assert.deepEqual(
      (changed.body['steps'] as Body[]).map(({ id }) => id),
      ['notes', 'sign'],
    )
    const wrong = await ask('POST', '/missions', { recipe: saved['recipe_id'], variables: { versoin: '2', other: 1 } })
    assert.deepEqual(
      [wrong.status, wrong.body['code'], wrong.body['path']],
      [422, 'missions.recipe.variables', 'variables'],
    )
    assert.deepEqual(wrong.body['facts'], {
      missing: ['days', 'version'],
      unknown: ['versoin', 'other'],
      variables: ['days', 'version'],
    })
    const made = await ask('POST', '/missions', {
      recipe: saved['recipe_id'],
      variables: { version: '2.5 {{days}}', days: [1, 2] },
      config: { autonomy: 'full_auto' },
    })
    assert.equal(made.status, 201, JSON.stringify(made.body))
    const done = await finish(made.body)
    assert.deepEqual([done['state'], done['goal']], ['completed', 'Release 2.5 {{days}}'])
    // The person who asks decides about the gate, whatever the mission of the recipe had.
    const gated = await ask('POST', '/missions', { recipe: saved['recipe_id'], variables: { version: '3', days: 1 } })
    assert.equal((await finish(gated.body))['state'], 'awaiting_approval')
    const [notes] = (done['plan'] as { tasks: { run: Body }[] }).tasks
    assert.deepEqual(notes?.run['payload'], { name: 'notes of 2.5 {{days}}', from: [1, 2] })
    const { body: drift } = await ask('GET', `${at}/drift`)
    const first = (drift['runs'] as Body[]).find(({ mission_id }) => mission_id === made.body['mission_id'])
    assert.deepEqual(
      [first?.['mission_id'], (drift['origin'] as Body)['mission_id']],
      [made.body['mission_id'], missionId(run.id)],
    )
    const drifted = first?.['drift'] as Body | undefined
    assert.deepEqual([drifted?.['added'], drifted?.['removed'], drifted?.['rewired']], [['sign'], ['send'], []])
    const listed = (await ask('GET', '/recipes?limit=1')).body
    assert.deepEqual([listed.items?.map(({ name }) => name), listed['next_cursor'] === null], [['Release'], false])
  })

  test('a goal is never blank nor above its limit, also after its variables are filled; its first line is the title', async () => {
    const run = await http.room.run(aPlan(planTask('a')))
    const recipe = (await ask('POST', `/missions/${missionId(run.id)}/save-recipe`, {})).body['recipe_id']
    const edit = (description: string) => ask('PATCH', `/recipes/${String(recipe)}`, { description })
    const start = async (x: string) => {
      const { status, body } = await ask('POST', '/missions', { recipe, variables: { x } })
      return status === 201 ? body['title'] : [status, body['code'], body['path']]
    }
    assert.equal((await edit('\n')).status, 422)
    assert.equal((await edit('{{x}}')).status, 200)
    for (const x of ['', ' \n', 'b'.repeat(10_001)])
      assert.deepEqual(await start(x), [422, 'missions.request.invalid', 'goal'])
    assert.equal(await start('\n\n Release\nsoon'), 'Release')
    assert.equal((await edit('{{x}}'.repeat(2_000))).status, 200)
    assert.deepEqual(await start('b'.repeat(60_000)), [422, 'missions.recipe.too_large', 'variables.x'])
    assert.equal((await ask('POST', '/missions', { goal: '\n\n', plan })).status, 422)
    assert.equal((await ask('POST', '/missions', { goal: '\nx', plan })).body['title'], 'x')
  })

  test('a hidden value that comes back as it was shown stays the stored one; without a stored one it is a finding', async () => {
    const paying = (id: string, card: string) => planTask(id, { run: { task: 'Step', payload: { name: id, card } } })
    const run = await http.room.run(aPlan(paying('pay', '4111 1111')))
    const at = `/missions/${missionId(run.id)}`
    const saved = (await ask('POST', `${at}/save-recipe`, {})).body
    const [shown] = (saved['plan'] as { tasks: ReturnType<typeof planTask>[] }).tasks
    assert.equal(shown?.run.payload['card'], '[payment]')
    const cardsOf = async (table: string, column: string, id: unknown) =>
      (
        await http.room.rows<{ card: string }>(
          `select t->'run'->'payload'->>'card' as card from missions.${table}, jsonb_array_elements(${column}->'tasks') as t where id::text = $1`,
          [String(id)],
        )
      ).map(({ card }) => card)
    // What a person changes beside it is kept.
    const renamed = { ...shown, run: { ...shown.run, payload: { ...shown.run.payload, name: 'again' } } }
    const edit = (...tasks: Body[]) =>
      ask('PATCH', `/recipes/${String(saved['recipe_id'])}`, { plan: { ...aPlan(), tasks } })
    assert.equal((await edit(renamed, paying('new', '42'))).status, 200)
    const ofRecipe = () => cardsOf('workflow_recipes', `template_definition->'plan'`, saved['recipe_id'])
    assert.deepEqual(await ofRecipe(), ['4111 1111', '42'])
    const waiting = await http.room.create(aPlan(paying('pay', '4111 1111')))
    const put = (...tasks: Body[]) =>
      ask('PUT', `/missions/${missionId(waiting.id)}/plan`, { ...aPlan(), version: 2, tasks })
    await http.room.settle(waiting.command_id)
    await http.room.rest()
    const lost = { ...shown, temp_id: 'other' }
    for (const refused of [
      await edit(shown, lost),
      await put(shown, lost),
      await ask('POST', '/missions', { goal: 'x', plan: { ...aPlan(), tasks: [paying('pay', '1'), lost] } }),
      await ask('POST', `${at}/fork`, { from: 'pay', refire: ['pay'], plan: { ...aPlan(), tasks: [shown, lost] } }),
    ])
      assert.deepEqual(
        [refused.status, refused.body['code'], refused.body['path']],
        [422, 'missions.plan.invalid', 'plan.tasks[1].run.payload.card'],
      )
    assert.deepEqual(await ofRecipe(), ['4111 1111', '42'])
    assert.equal((await put(renamed)).status, 200)
    assert.deepEqual(await cardsOf('orchestration_runs', 'plan', waiting.id), ['4111 1111'])
    const fork = await ask('POST', `${at}/fork`, { from: 'pay', refire: ['pay'], plan: { ...aPlan(), tasks: [shown] } })
    assert.equal(fork.status, 201, JSON.stringify(fork.body))
    assert.deepEqual(await cardsOf('orchestration_runs', 'plan', uuidOf(fork.body['mission_id'])), ['4111 1111'])
  })

  test('a recipe that runs itself ends: a mission inside five others starts none', async () => {
    const run = await http.room.run(aPlan(planTask('a')))
    const recipe = (await ask('POST', `/missions/${missionId(run.id)}/save-recipe`, {})).body['recipe_id'] as number
    const config = { autonomy: 'full_auto' } as const
    const itself = planTask('again', { run: { task: 'Run Mission', payload: { recipe, config } } })
    assert.equal((await ask('PATCH', `/recipes/${recipe}`, { plan: aPlan(itself) })).status, 200)
    const made = await ask('POST', '/missions', { recipe, config })
    await http.room.settle(uuidOf(made.body['command_id']))
    await http.room.rest()
    const runs = await http.room.rows<{ state: string; error: string }>(
      `select r.state, t.error_message as error from missions.orchestration_runs as r join missions.orchestration_tasks as t on t.run_id = r.id
where r.tags @> jsonb_build_object('recipe_id', $1::int) order by r.created_at, r.id`,
      [recipe],
    )
    assert.deepEqual(
      runs.map(({ state }) => state),
      Array(6).fill('failed'),
    )
    assert.match(runs.at(-1)?.error ?? '', /missions\.request\.too_deep/)
  })

  test('a recipe of another workspace looks like one that does not exist, and readers change none', async () => {
    const run = await http.room.run(aPlan(planTask('a')))
    const saved = (await ask('POST', `/missions/${missionId(run.id)}/save-recipe`, {})).body
    const { key } = http.api.theirs.people.admin
    for (const id of [saved['recipe_id'], 999_999]) {
      const found = await Promise.all([
        ask('GET', `/recipes/${String(id)}`, undefined, key),
        ask('GET', `/recipes/${String(id)}/drift`, undefined, key),
        ask('PATCH', `/recipes/${String(id)}`, { name: 'x' }, key),
        ask('POST', '/missions', { goal: 'x', recipe: id }, key),
      ])
      assert.deepEqual(
        found.map(({ status, body: { code } }) => `${status} ${String(code)}`),
        Array(4).fill('404 missions.recipe.not_found'),
      )
    }
    assert.equal((await ask('POST', `/missions/${missionId(run.id)}/save-recipe`, {}, key)).status, 404)
    assert.deepEqual((await ask('GET', '/recipes', undefined, key)).body.items, [])
    const reader = http.api.ours.people.reader.key
    assert.equal((await ask('PATCH', `/recipes/${String(saved['recipe_id'])}`, { name: 'x' }, reader)).status, 403)
    assert.equal((await ask('GET', '/recipes/0')).body['code'], 'id_format')
    const both = await ask('POST', '/missions', { goal: 'x', plan, recipe: saved['recipe_id'] })
    const none = await ask('POST', '/missions', { goal: 'x' })
    assert.deepEqual([both.body['code'], none.body['code']], Array(2).fill('missions.request.invalid'))
  })
})
