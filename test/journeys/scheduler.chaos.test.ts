/** The scheduler from the command line, with real processes: it is killed, stopped, stopped twice, followed and queried. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { isAlive, openJobsHome } from '#test/jobs-home'
import { until } from '#test/until'

type Report = {
  job: { job_id: string; status: string; retry_of: string | null }
  run: { run_id: string; status: string; error: string | null; retry_decided: string | null } | null
  chain: Report[]
}

const types = (script: string) => ({
  job_types: [{ job_type: 'story', retry_policy: { max_retries: 1 }, runner: { command: 'sh', args: ['-c', script] } }],
})

describe('kill -9 of the scheduler with a running child', () => {
  test('[SCH-121] [SCH-111] [SCH-109] the child ends before the retry starts, and every run happens once', async (t) => {
    const { folder, invoke, startScheduler, concord, ask, linesOf } = openJobsHome(t)
    // Each run writes its id, its process, and every earlier process that is still alive (a zombie is not). The first run sleeps.
    const script = `for p in $(cat pids 2>/dev/null); do [ -e /proc/$p/stat ] && ! grep -q ') Z' /proc/$p/stat && cat /proc/$p/stat >> together; done
      echo $$ >> pids; echo "$JOB_RUN_ID $JOB_ID" >> runs; [ "$JOB_ATTEMPT" = 2 ] || sleep 600 & wait`
    writeFileSync(join(folder, 'types.json'), JSON.stringify(types(script)))
    const first = await startScheduler('--types', 'types.json')
    const id = await concord('jobs', 'add', '--type', 'story')
    const next = await concord('jobs', 'add', '--', 'sh', '-c', 'echo next >> after')
    await until(() => linesOf('runs').length === 1)
    const [pid] = linesOf('pids').map(Number)
    first.child.kill('SIGKILL')
    await first.ended
    assert.ok(pid !== undefined && isAlive(pid), 'the child outlives its scheduler')
    const second = await invoke('scheduler', 'run', '--types', 'types.json', '--until-idle')
    assert.equal(second.code, 0, second.err)
    assert.ok(!isAlive(pid))
    assert.deepEqual(linesOf('together'), [], 'no two runs at the same time')
    const { run: lost, chain } = await ask<Report>('jobs', 'show', id)
    assert.deepEqual([lost?.status, lost?.error], ['FAILED', 'Scheduler crash recovery'])
    assert.deepEqual(
      chain.map((each) => each.run?.status),
      ['FAILED', 'COMPLETED'],
    )
    const done = linesOf('runs').map((line) => line.split(' '))
    assert.equal(new Set(done.map(([runId]) => runId)).size, 2)
    assert.equal(new Set(done.map(([, jobId]) => jobId)).size, 2)
    assert.equal((await ask<Report>('jobs', 'show', next)).run?.status, 'COMPLETED')
    assert.deepEqual(linesOf('after'), ['next'])
  })
})

describe('signals', () => {
  test('[SCH-107] SIGTERM lets a short job end and starts no other; the next start continues with the queue', async (t) => {
    const { start, concord, ask, linesOf } = openJobsHome(t)
    const ids: string[] = []
    for (let n = 1; n <= 3; n++) ids.push(await concord('jobs', 'add', '--', 'sh', '-c', `echo ${n} >> ran; sleep 0.5`))
    const running = start('scheduler', 'run')
    await until(() => linesOf('ran').length === 1)
    running.child.kill('SIGTERM')
    const ended = await running.ended
    assert.equal(ended.code, 0, ended.err)
    assert.deepEqual(linesOf('ran'), ['1'])
    const states: (string | undefined)[] = []
    for (const id of ids) states.push((await ask<Report>('jobs', 'show', id)).job.status)
    assert.deepEqual(states, ['finished', 'queued', 'queued'])
    await concord('scheduler', 'run', '--until-idle')
    assert.deepEqual(linesOf('ran'), ['1', '2', '3'])
  })

  test('[SCH-107] the scheduler ends a long job after the grace period; a second signal ends everything at once', async (t) => {
    const { start, concord, ask, linesOf } = openJobsHome(t)
    const long = await concord('jobs', 'add', '--', 'sh', '-c', 'echo $$ >> pids; exec sleep 600')
    const polite = start('scheduler', 'run', '--grace', '100ms')
    await until(() => linesOf('pids').length === 1)
    polite.child.kill('SIGTERM')
    assert.equal((await polite.ended).code, 0)
    assert.match((await ask<Report>('jobs', 'show', long)).run?.error ?? '', /Scheduler stopped/)

    const again = await concord('jobs', 'retry', long)
    const hurried = start('scheduler', 'run', '--grace', '10m')
    await until(() => linesOf('pids').length === 2)
    hurried.child.kill('SIGTERM')
    await hurried.line((line) => line.startsWith('stopping'))
    hurried.child.kill('SIGTERM')
    assert.equal((await hurried.ended).code, 143)
    await until(() => linesOf('pids').every((pid) => !isAlive(Number(pid))))
    assert.equal((await ask<Report>('jobs', 'show', again)).run?.status, 'running')
    await concord('scheduler', 'run', '--until-idle')
    assert.equal((await ask<Report>('jobs', 'show', again)).run?.error, 'Scheduler crash recovery')
  })
})

describe('the commands', () => {
  test('logs follow a running job, cancel ends it, watch and list show it', async (t) => {
    const { start, concord, ask } = openJobsHome(t)
    const id = await concord('jobs', 'add', '--', 'sh', '-c', 'echo 50%; exec sleep 600')
    const running = start('scheduler', 'run')
    const logs = start('jobs', 'logs', id, '--follow')
    await logs.line((line) => line === '50%')
    assert.match(await concord('jobs', 'watch', '--once'), /1 running, 0 queued[\s\S]*running.*50%/)
    const { jobs } = await ask<{ jobs: Report[] }>('jobs', 'list')
    assert.deepEqual(
      jobs.map(({ job }) => [job.job_id, job.status]),
      [[id, 'running']],
    )
    assert.match(await concord('jobs', 'cancel', id), /asked to stop it/)
    assert.equal((await logs.ended).code, 0)
    const { run } = await ask<Report>('jobs', 'show', id)
    assert.deepEqual([run?.error, run?.retry_decided], ['cancelled', 'stopped'])
    running.child.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
  })

  test('a person reorders the queue and cancels a job; an invalid id gets an explanation', async (t) => {
    const { invoke, concord, linesOf } = openJobsHome(t)
    const ids: string[] = []
    for (const n of ['a', 'b', 'c']) ids.push(await concord('jobs', 'add', '--', 'sh', '-c', `echo ${n} >> ran`))
    const [a = '', b = '', c = ''] = ids
    await concord('jobs', 'move', c, '--before', a)
    assert.equal(await concord('jobs', 'cancel', b), 'cancelled')
    await concord('scheduler', 'run', '--until-idle')
    assert.deepEqual(linesOf('ran'), ['c', 'a'])
    const wrong = await invoke('jobs', 'show', 'job_x')
    assert.equal(wrong.code, 65)
    assert.match(wrong.err, /concord jobs list/)
    const finished = await invoke('jobs', 'retry', a)
    assert.equal(finished.code, 75)
  })

  test('a schedule is created, shown, switched and removed; a second owner is refused', async (t) => {
    const { invoke, startScheduler, concord, ask } = openJobsHome(t)
    const add = [
      'jobs',
      'schedules',
      'add',
      '--name',
      'nightly',
      '--cron',
      '30 2 * * *',
      '--zone',
      'Europe/Berlin',
      '--',
      'true',
    ]
    await concord(...add)
    const { times } = await ask<{ times: string[] }>('jobs', 'schedules', 'next', 'nightly', '--count', '3')
    assert.equal(times.length, 3)
    assert.match(await concord('jobs', 'schedules', 'disable', 'nightly'), /switched off/)
    assert.match(await concord('jobs', 'schedules', 'enable', 'nightly'), /next at/)
    assert.equal((await invoke(...add)).code, 75)
    await concord('jobs', 'schedules', 'remove', 'nightly')
    await concord(...add)
    const bad = await invoke(...add.slice(0, 5), '--cron', '99 * * * *', '--', 'true')
    assert.equal(bad.code, 65)
    const running = await startScheduler()
    const second = await invoke('scheduler', 'run')
    assert.equal(second.code, 75)
    assert.match(second.err, new RegExp(`process ${running.child.pid}`))
  })

  test('run-direct runs the job at once and prints how it ended', async (t) => {
    const { invoke, concord } = openJobsHome(t)
    const { run } = JSON.parse(await concord('jobs', 'run-direct', '--json', '--', 'true')) as Report
    assert.equal(run?.status, 'COMPLETED')
    const failed = await invoke('jobs', 'run-direct', '--', 'sh', '-c', 'exit 4')
    assert.equal(failed.code, 65)
    assert.match(failed.err, /exit code 4/)
    const said = await invoke('jobs', 'run-direct', '--', 'echo', 'hello there')
    assert.equal(said.out, 'hello there\n')
    assert.match(said.err, /^job_[0-9a-f]{32} completed\n/)
    const states = async (...flags: string[]) =>
      (JSON.parse(await concord('jobs', 'list', '--json', ...flags)) as { jobs: Report[] }).jobs.map(
        (each) => each.run?.status,
      )
    assert.deepEqual(await states('--all'), ['COMPLETED', 'FAILED', 'COMPLETED'])
    assert.deepEqual(await states('--status', 'failed'), ['FAILED'])
    assert.deepEqual(await states(), [])
  })

  test('a job without a command, an unknown type, and a template by its name', async (t) => {
    const { invoke, concord } = openJobsHome(t)
    const nothing = await invoke('jobs', 'add')
    assert.equal(nothing.code, 64)
    assert.match(nothing.err, /concord jobs add -- node report\.mjs/)
    const unknown = await invoke('jobs', 'add', '--type', 'poem')
    assert.equal(unknown.code, 65)
    assert.match(unknown.err, /Registered types: command, research, story/)
    await concord('job-templates', 'add', '--name', 'report', '--', 'true')
    assert.match(await concord('jobs', 'add', '--template', 'report'), /^job_/)
    assert.match(
      await concord('jobs', 'schedules', 'add', '--name', 'nightly', '--cron', '30 2 * * *', '--template', 'report'),
      /^sched_/,
    )
    const stranger = await invoke('jobs', 'add', '--template', 'raport')
    assert.match(stranger.err, /job-templates list/)
  })
})
