/** Deployments: through the command and its undo, again, changed, and from another org; and the drive of tasks of this process. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { openArtifactTypes } from '#domains/artifacts'
import { undoDefinitions } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { type ArtifactRoom, openArtifactRoom } from '#test/artifacts'
import { answer, nextFence, openTestRoom, type TestRoom } from '#test/commands'
import { DIAMOND, type FlowRoom, openFlowRoom } from '#test/flow'
import { accepted, aTenant, aWorld } from '#test/tenant'
import { readDag } from './dag-file.ts'
import { dagArtifactType, deployDefinitions } from './deploy-command.ts'
import type { FlowDeps } from './deps.ts'
import { defineOperator } from './operator.ts'
import { openTaskDrive } from './run-task.ts'

const one = (config: string, more = '') => `
dag: one
jobs:
  - { name: src, activation: source, runtime: ecs_udf, operator: pull, source: { kind: event }, ${config} update_strategy: append, unique_key: [id], outputs: [ones] ${more} }
`

describe('deployments', () => {
  let room: FlowRoom
  before(async () => {
    room = await openFlowRoom()
  })
  after(() => room.close())
  const rows = <Row extends object>(text: string, values: readonly unknown[] = []) =>
    room.opened.db.query<Row>(text, values)

  test('[FLOW-011] [FLOW-013] [FLOW-030] [FLOW-035] the same YAML is the same version; a changed one has jobs of its own and the same datasets', async () => {
    const first = accepted(await room.deploy(DIAMOND))
    const again = accepted(await room.deploy(`# comment\n${DIAMOND}`))
    assert.deepEqual([again.version.id, again.isNew], [first.version.id, false])
    const ids = await rows('select name, id from flow.datasets order by name')
    const second = accepted(await room.deploy(DIAMOND.replace('operator: pull', 'operator: pull, max_attempts: 5')))
    assert.notEqual(second.version.id, first.version.id)
    assert.deepEqual(await rows('select name, id from flow.datasets order by name'), ids)
    const jobs = await rows<{ n: number }>('select count(*)::int as n from flow.jobs group by dag_version_id')
    assert.deepEqual(jobs, [{ n: 4 }, { n: 4 }])
    const current = await rows<{ dag_version_id: string }>(
      `select dag_version_id from flow.dag_current_versions where dag_name = 'shop'`,
    )
    assert.deepEqual(current, [{ dag_version_id: second.version.id }])
  })

  test('[FLOW-025] output i of a job is dataset i', async () => {
    const [job] = await rows<{ output_datasets: string[]; input_datasets: string[] }>(
      `select output_datasets, input_datasets from flow.jobs where name = 'both' limit 1`,
    )
    const names = new Map(
      (await rows<{ id: string; name: string }>('select id, name from flow.datasets')).map(({ id, name }) => [
        id,
        name,
      ]),
    )
    assert.deepEqual(
      job?.output_datasets.map((id) => names.get(id)),
      ['totals'],
    )
    assert.deepEqual(
      job?.input_datasets.map((id) => names.get(id)),
      ['lefts', 'rights'],
    )
  })

  test('[FLOW-097] state moves with a job of the same name, and is reset with reset_outputs and a changed config', async () => {
    accepted(await room.deploy(one('config: { n: 1 },')))
    await room.start('src')
    const task = await room.claim('pull')
    assert.ok(task)
    accepted(await room.complete(task, [{ index: 0, partitions: ['a'] }], { state: { cursor: '9' } }))
    const state = () =>
      rows<{ state: unknown }>(
        `select s.state from flow.dag_current_versions c join flow.jobs j on j.dag_version_id = c.dag_version_id join flow.operator_state s on s.job_id = j.id where c.dag_name = 'one'`,
      )
    accepted(await room.deploy(one('config: { n: 2 },')))
    assert.deepEqual(await state(), [{ state: { cursor: '9' } }])
    accepted(await room.deploy(one('config: { n: 3 }, bootstrap: { reset_outputs: true },')))
    assert.deepEqual(await state(), [])
  })

  test('an open task of an unchanged job goes on under the new version', async () => {
    accepted(await room.deploy(one('config: { n: 1 },')))
    const id = await room.start('src')
    accepted(await room.deploy(one('config: { n: 1 },', ', timeout_seconds: 60')))
    const task = await room.claim('pull')
    assert.equal(task?.id, id)
  })

  test('an output that another DAG produces and an unknown input are refused, and nothing is written', async () => {
    const before = await rows('select id from flow.dag_versions order by id')
    const job = (name: string, inputs: string, outputs: string) =>
      `dag: other\njobs:\n  - { name: ${name}, activation: reactive, runtime: ecs_udf, operator: count_rows, execution_strategy: PerUpdate, inputs: [${inputs}], outputs: [${outputs}], update_strategy: replace }\n`
    for (const [yaml, text] of [
      [job('x', 'totals', 'orders'), /produced by shop.pull/],
      [job('x', 'total', 'xs'), /no dataset "total"/],
    ] as const) {
      const refused = await room.deploy(yaml)
      assert.match(refused.ok ? '' : refused.reason, text)
    }
    assert.deepEqual(await rows('select id from flow.dag_versions order by id'), before)
  })

  test('[FLOW-108] another org has datasets of the same names, and none of ours', async () => {
    const other = await aTenant(aWorld(room.opened.db))
    accepted(await room.deploy(DIAMOND, other))
    const found = await rows<{ n: number }>(
      `select count(distinct id)::int as n from flow.datasets where name = 'orders'`,
    )
    assert.deepEqual(found, [{ n: 2 }])
  })
})

describe('the command Deploy DAG', () => {
  let room: TestRoom
  let flow: FlowDeps
  let base: FlowRoom
  let artifacts: ArtifactRoom
  before(async () => {
    base = await openFlowRoom()
    artifacts = await openArtifactRoom()
    const types = accepted(openArtifactTypes([dagArtifactType]))
    const wrap = (world: TestRoom['world']) => ({ ...world, artifacts: { ...artifacts.world, db: world.db, types } })
    room = await openTestRoom(wrap, () => [...deployDefinitions(() => flow), ...undoDefinitions(() => room.world)])
    flow = { ...base.deps, commands: room.world }
  })
  after(async () => {
    await room.close()
    await base.close()
    await artifacts.close()
  })
  const deploy = async (yaml: string) => {
    const id = await room.submit({ dag: 'shop', yaml }, { taskName: 'Deploy DAG' })
    return { id, status: await room.settle(id) }
  }
  const current = () => room.rows<{ dag_version_id: string }>('select dag_version_id from flow.dag_current_versions')

  test('[FLOW-010] [FLOW-012] the command deploys; bad YAML fails it and writes nothing', async () => {
    const bad = await deploy(DIAMOND.replace('count_rows', 'count_row'))
    assert.equal(bad.status, 'failed')
    assert.deepEqual(await current(), [])
    const good = await deploy(DIAMOND)
    assert.equal(good.status, 'succeeded')
    const [version] = await room.rows<{ id: string; command_id: string }>(
      'select id, command_id from flow.dag_versions',
    )
    assert.equal(version?.command_id, good.id)
    assert.deepEqual(await current(), [{ dag_version_id: version?.id }])
    const yaml = await room.rows(
      `select artifact_id from concord.artifacts where command_id = $1 and artifact_type = 'dag'`,
      [good.id],
    )
    assert.equal(yaml.length, 1)
  })

  test('Roll Back DAG serves an earlier version again, its undo the later one; an unknown version fails it', async () => {
    const [first] = await current()
    await deploy(DIAMOND.replace('operator: pull', 'operator: pull, max_attempts: 7'))
    const [second] = await current()
    assert.notDeepEqual(second, first)
    const rollBack = async (id: string) => {
      const version = encodeId('dag_version', id)
      const commandId = await room.submit({ dag: 'shop', version }, { taskName: 'Roll Back DAG' })
      return { id: commandId, status: await room.settle(commandId) }
    }
    assert.equal((await rollBack(room.world.newId())).status, 'failed')
    assert.deepEqual(await current(), [second])
    const rolled = await rollBack(first?.dag_version_id ?? '')
    assert.equal(rolled.status, 'succeeded')
    assert.deepEqual(await current(), [first])
    const undo = await room.submit({ command_id: encodeId('command', rolled.id) }, { taskName: 'Undo Command' })
    await room.settle(undo)
    await answer(room, undo, 'approved')
    await room.settle(undo)
    await room.settleWoken()
    assert.deepEqual(await current(), [second])
    assert.equal((await rollBack(first?.dag_version_id ?? '')).status, 'succeeded')
  })

  test('a function without a secret for its calls is refused at the deployment', async () => {
    const far = defineOperator({ name: 'far', config: z.strictObject({}), url: 'https://functions.example.com/far' })
    const yaml = `dag: far\njobs:\n  - { name: far, activation: source, runtime: lambda, operator: far, source: { kind: event }, update_strategy: replace, outputs: [fars] }\n`
    const host = { operators: new Map([[far.name, far]]) }
    const refused = readDag(Buffer.from(yaml), host)
    assert.ok(!refused.ok)
    assert.deepEqual(
      (refused.facts?.['findings'] as { code: string; path: string }[] | undefined)?.map(({ code, path }) => [
        code,
        path,
      ]),
      [['function_secret_missing', 'jobs[0].runtime']],
    )
    assert.match(refused.hint ?? '', /CONCORD_FUNCTION_SECRET/)
    assert.ok(readDag(Buffer.from(yaml), { ...host, callFunction: () => {} }).ok)
  })

  test('the undo of a deployment serves the version before it again, and that of the first serves none', async () => {
    const [before] = await current()
    const first = await room.rows<{ command_id: string }>(
      'select command_id from flow.dag_versions order by created_at',
    )
    const second = await deploy(DIAMOND.replace('operator: pull', 'operator: pull, max_attempts: 5'))
    assert.notDeepEqual(await current(), [before])
    for (const [id, left] of [
      [second.id, [before]],
      [first[0]?.command_id ?? '', []],
    ] as const) {
      const undo = await room.submit({ command_id: encodeId('command', id) }, { taskName: 'Undo Command' })
      await room.settle(undo)
      await answer(room, undo, 'approved')
      await room.settle(undo)
      await room.settleWoken()
      assert.deepEqual(await current(), left)
    }
  })
})

describe('the drive of tasks', () => {
  test('[FLOW-048] [FLOW-050] [FLOW-051] the dispatcher claims, runs the operator with config, inputs and state, and completes', async () => {
    const seen: unknown[] = []
    const greet = defineOperator({
      name: 'greet',
      config: z.strictObject({ who: z.string() }),
      async do({ config, task_id, attempt, outputs, state }) {
        seen.push([config.who, attempt, outputs.map(({ dataset }) => dataset), state])
        assert.match(task_id, /^ftask_/)
        if (config.who === 'nobody') throw new Error('There is nobody.')
        return { outputs: [{ index: 0, partitions: ['p'] }], state: { greeted: 1 } }
      },
    })
    const room = await openFlowRoom({}, [greet])
    const yaml = (who: string, dag: string) =>
      `dag: ${dag}\njobs:\n  - { name: ${dag}, activation: source, runtime: dispatcher, operator: greet, config: { who: ${who} }, source: { kind: event }, update_strategy: replace, outputs: [${dag}] }\n`
    accepted(await room.deploy(yaml('ada', 'hello')))
    accepted(await room.deploy(yaml('nobody', 'silence')))
    const drive = openTaskDrive(room.deps)
    for (const job of ['hello', 'silence', 'hello']) {
      const id = (await room.start(job)) ?? ''
      assert.deepEqual(await drive(id, nextFence()), { t: 'done' })
      // A second turn of the same task finds it ended and runs nothing.
      await drive(id, nextFence())
    }
    assert.deepEqual(seen, [
      ['ada', 1, ['hello'], {}],
      ['nobody', 1, ['silence'], {}],
      ['ada', 1, ['hello'], { default: { greeted: 1 } }],
    ])
    const [failed] = await room.tasks('silence')
    assert.deepEqual([failed?.status, failed?.error_message], ['Failed', 'There is nobody.'])
    await room.close()
  })

  test('[FLOW-047] [FLOW-110] a function gets the whole payload, claimed for it, and no credential; one that fails is retried', async () => {
    const sent: Parameters<NonNullable<FlowDeps['callFunction']>>[] = []
    let isBroken = false
    const callFunction: FlowDeps['callFunction'] = async (...call) => {
      sent.push(call)
      if (isBroken) throw new Error('The receiver answered 500.')
    }
    const far = defineOperator({ name: 'far', config: z.strictObject({}), url: 'https://functions.example.com/far' })
    const room = await openFlowRoom({ callFunction }, [far])
    accepted(
      await room.deploy(
        `dag: far\njobs:\n  - { name: far, activation: source, runtime: lambda, operator: far, source: { kind: event }, update_strategy: replace, outputs: [fars] }\n`,
      ),
    )
    const drive = openTaskDrive(room.deps)
    await drive((await room.start('far')) ?? '', nextFence())
    const [[url, payload] = []] = sent
    assert.equal(url, 'https://functions.example.com/far')
    const [task] = await room.tasks('far')
    assert.equal(task?.status, 'Running')
    assert.equal(payload?.lease_token, task?.lease_token)
    assert.doesNotMatch(JSON.stringify(payload), /postgres|password|flow_data/)
    isBroken = true
    const id = await room.start('far')
    await drive(id ?? '', nextFence())
    const failed = (await room.tasks('far')).find((each) => each.id === id)
    assert.equal(failed?.status, 'Failed')
    assert.ok(failed?.next_retry_at)
    await room.close()
  })
})
