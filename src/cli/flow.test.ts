/** Flow on a terminal: a deployment sends the YAML as it is; jobs, tasks and the reasons of a task are shown. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const folder = mkdtempSync(join(tmpdir(), 'concord-flow-cli-'))
after(() => rmSync(folder, { recursive: true, force: true }))

const TASK = `ftask_${'5'.repeat(32)}`
const VERSION = `dag_${'6'.repeat(32)}`
const at = '2026-05-01T10:00:07.000Z'
const task = {
  task_id: TASK,
  dag: 'shop',
  job: 'daily',
  status: 'Failed',
  attempt: 2,
  max_attempts: 2,
  partitions: ['2026-05-01'],
  dedupe_key: 'partition:x:y:2026-05-01',
  worker_id: 'w1',
  error: 'The disk is full.',
  memo_of: null,
  command_id: null,
  created_at: at,
  started_at: at,
  completed_at: null,
  next_retry_at: null,
}
const screen = { folder, environment: { NO_COLOR: '1' }, columns: 160 }

test('deploy and rollback submit their commands, and a file without a name is refused before anything is sent', async () => {
  const yaml = '# orders\ndag: shop\njobs: []\n'
  writeFileSync(join(folder, 'shop.yaml'), yaml)
  writeFileSync(join(folder, 'nameless.yaml'), 'jobs: []\n')
  const answers = { 'POST /commands': { command_id: COMMAND_ID, status: 'running', trace_id: 't' } }
  const deployed = await runAgainst(answers, ['flow', 'deploy', 'shop.yaml', '--key', 'k1'], screen)
  assert.deepEqual([deployed.code, deployed.out], [0, `${COMMAND_ID}\n`])
  assert.deepEqual(deployed.heard[0]?.body, {
    task_name: 'Deploy DAG',
    payload: { dag: 'shop', yaml },
    idempotency_key: 'k1',
  })
  const back = await runAgainst(answers, ['flow', 'rollback', 'shop', VERSION], screen)
  assert.deepEqual(back.heard[0]?.body, { task_name: 'Roll Back DAG', payload: { dag: 'shop', version: VERSION } })
  const nameless = await runAgainst(answers, ['flow', 'deploy', 'nameless.yaml'], screen)
  assert.deepEqual([nameless.code, nameless.heard], [65, []])
  assert.match(nameless.err, /nameless\.yaml does not name its DAG/)
})

test('lists are tables with the filters of the request', async () => {
  const page = (item: object) => ({ items: [item], next_cursor: null })
  const dags = { 'GET /flow/dags?limit=50': page({ dag: 'shop', version: VERSION, jobs: 2, deployed_at: at }) }
  assert.match((await runAgainst(dags, ['flow', 'dags'], screen)).out, new RegExp(`shop +${VERSION} +2`))
  const version = { version: VERSION, is_current: true, command_id: COMMAND_ID, created_at: at }
  const versions = { 'GET /flow/dags/shop/versions?limit=50': page(version) }
  assert.match((await runAgainst(versions, ['flow', 'versions', 'shop'], screen)).out, /dag_6+ +yes +cmd_/)
  const job = {
    dag: 'shop',
    job: 'daily',
    state: 'Idle',
    inputs: ['orders'],
    outputs: ['totals'],
    queued: 0,
    running: 1,
    last_activity_at: null,
  }
  const jobs = { 'GET /flow/jobs?dag=shop&limit=50': page(job) }
  const shown = await runAgainst(jobs, ['flow', 'jobs', '--dag', 'shop'], screen)
  assert.match(shown.out, /shop +daily +Idle +0 +1 +orders +totals +not yet/)
  const tasks = { 'GET /flow/tasks?job=daily&status=Failed&limit=50': page(task) }
  const failed = await runAgainst(tasks, ['flow', 'tasks', '--job', 'daily', '--status', 'Failed'], screen)
  assert.match(failed.out, /shop\.daily +Failed +2 +2026-05-01[\s\S]*The disk is full\./)
})

test('why shows the cause, the standing, the key and what was read; cancel and retry say the new status', async () => {
  const why = {
    task,
    cause: 'The dataset "orders" was updated by ftask_1.',
    standing: 'Attempt 2 of 2 failed: The disk is full. No attempt is left.',
    caused_by: {},
    inputs: [{ dataset: 'orders', partition: '2026-05-01', materialized_at: at }],
  }
  const { out } = await runAgainst({ [`GET /flow/tasks/${TASK}/why`]: why }, ['flow', 'why', TASK], screen)
  for (const text of [
    /shop\.daily, Failed/,
    /updated by ftask_1/,
    /No attempt is left/,
    /partition:x:y/,
    /orders 2026/,
  ])
    assert.match(out, text)
  const retried = { [`POST /flow/tasks/${TASK}/retry`]: { ...task, status: 'Queued', attempt: 3 } }
  assert.equal((await runAgainst(retried, ['flow', 'retry', TASK], screen)).out, `${TASK} Queued, attempt 3\n`)
  const refused = { [`POST /flow/tasks/${TASK}/cancel`]: new Problem(409, 'flow.task.wrong_state') }
  assert.match((await runAgainst(refused, ['flow', 'cancel', TASK], screen)).err, /concord flow why <id>/)
  const wrong = await runAgainst({}, ['flow', 'why', COMMAND_ID], screen)
  assert.deepEqual([wrong.code, wrong.heard], [65, []])
  assert.match(wrong.err, /`concord flow tasks` shows the ids of tasks/)
})
