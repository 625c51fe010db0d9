/** The commands that run beside a scheduler, and those for groups, templates, reservations and the self-check. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { openJobsHome } from '#test/jobs-home'
import { until } from '#test/until'

type Report = {
  job: { job_id: string; status: string; hold: string | null }
  run: { status: string; error: string | null } | null
}

describe('run-direct beside a running scheduler', () => {
  test('[SCH-101] the running scheduler runs it after the current job and before the queue', async (t) => {
    const { folder, invoke, start, startScheduler, concord, ask, linesOf } = openJobsHome(t)
    const running = await startScheduler()
    await concord('jobs', 'add', '--', 'sh', '-c', 'echo first >> ran; while [ ! -e go ]; do sleep 0.02; done')
    await until(() => linesOf('ran').length === 1)
    await concord('jobs', 'add', '--', 'sh', '-c', 'echo last >> ran')
    const direct = start(
      'jobs',
      'run-direct',
      '--wait',
      '90s',
      '--json',
      '--',
      'sh',
      '-c',
      'ps -o ppid= -p $PPID | tr -d " " > owner; echo direct >> ran',
    )
    await until(async () =>
      (await ask<{ jobs: Report[] }>('jobs', 'list')).jobs.some(({ job }) => job.hold === 'direct'),
    )
    writeFileSync(join(folder, 'go'), '')
    const ended = await direct.ended
    assert.equal(ended.code, 0, ended.err)
    assert.equal((JSON.parse(ended.out) as Report).run?.status, 'COMPLETED')
    await until(() => linesOf('ran').length === 3)
    assert.deepEqual(linesOf('ran'), ['first', 'direct', 'last'])
    assert.deepEqual(linesOf('owner'), [String(running.child.pid)])
    const failed = await invoke('jobs', 'run-direct', '--', 'sh', '-c', 'exit 4')
    assert.equal(failed.code, 65)
    assert.match(failed.err, /exit code 4/)
    running.child.kill('SIGTERM')
    assert.equal((await running.ended).code, 0)
    await concord('scheduler', 'check')
  })

  test('[SCH-102] two at once without a scheduler run one after the other; Ctrl-C ends the job of the scheduler', async (t) => {
    const { folder, invoke, start, startScheduler, concord, ask, linesOf } = openJobsHome(t)
    const script = 'echo $$ >> pids; [ -e stop ] && exec sleep 600; sleep 0.3'
    const both = [1, 2].map(() => invoke('jobs', 'run-direct', '--wait', '90s', '--', 'sh', '-c', script))
    for (const { code, err } of await Promise.all(both)) assert.equal(code, 0, err)
    assert.equal(linesOf('pids').length, 2)
    writeFileSync(join(folder, 'stop'), '')
    const running = await startScheduler()
    const direct = start('jobs', 'run-direct', '--', 'sh', '-c', script)
    await until(() => linesOf('pids').length === 3)
    direct.child.kill('SIGINT')
    assert.equal((await direct.ended).code, 65)
    const { jobs } = await ask<{ jobs: Report[] }>('jobs', 'list', '--status', 'finished', '--limit', '1')
    assert.equal(jobs[0]?.run?.error, 'cancelled')
    assert.deepEqual(
      (await ask<{ reservations: { status: string }[] }>('reservations', 'list')).reservations[0]?.status,
      'RELEASED',
    )
    running.child.kill('SIGTERM')
    await running.ended
    await concord('scheduler', 'check')
  })
})

describe('plans from the command line', () => {
  test('[SCH-056] a template is created, used, changed, shown and removed', async (t) => {
    const { invoke, concord, ask, linesOf } = openJobsHome(t)
    const id = await concord(
      'job-templates',
      'add',
      '--name',
      'greet',
      '--priority',
      '2',
      '--',
      'sh',
      '-c',
      'echo hi >> ran',
    )
    await concord('jobs', 'add', '--template', id)
    await concord('scheduler', 'run', '--until-idle')
    assert.deepEqual(linesOf('ran'), ['hi'])
    assert.equal(await concord('job-templates', 'change', 'greet', '--priority', '5'), 'changed')
    assert.equal((await ask<{ priority: number }>('job-templates', 'show', id)).priority, 5)
    assert.match(await concord('job-templates', 'list'), /greet/)
    const twice = await invoke('job-templates', 'add', '--name', 'greet', '--', 'true')
    assert.equal(twice.code, 75)
    const schema = await invoke('job-templates', 'change', 'greet', '--schema', '{"type":1}')
    assert.equal(schema.code, 65)
    assert.equal(await concord('job-templates', 'remove', 'greet'), 'removed')
    const gone = await invoke('job-templates', 'show', 'greet')
    assert.equal(gone.code, 65)
    assert.match(gone.err, /job-templates list/)
  })

  test('[SCH-127] a group runs in sequence and reports its progress; an invalid one stores nothing', async (t) => {
    const { folder, invoke, concord, ask, linesOf } = openJobsHome(t)
    const member = (text: string) => ({
      job_type: 'command',
      params: { command: 'sh', args: ['-c', `echo ${text} >> ran`], cwd: folder },
    })
    writeFileSync(join(folder, 'group.json'), JSON.stringify({ mode: 'sequential', jobs: ['a', 'b', 'c'].map(member) }))
    const [id = ''] = (await concord('job-groups', 'add', 'group.json')).split('\n')
    assert.equal((await ask<{ status: string }>('job-groups', 'show', id)).status, 'queued')
    await concord('scheduler', 'run', '--until-idle', '--workers', '3')
    assert.deepEqual(linesOf('ran'), ['a', 'b', 'c'])
    assert.match(await concord('job-groups', 'list'), /completed +3 completed/)
    writeFileSync(
      join(folder, 'wrong.json'),
      JSON.stringify({ mode: 'sequential', jobs: [member('d'), { job_type: 'poem' }] }),
    )
    const wrong = await invoke('job-groups', 'add', 'wrong.json')
    assert.equal(wrong.code, 65)
    assert.match(wrong.err, /jobs\[1\]/)
    assert.equal((await ask<{ groups: unknown[] }>('job-groups', 'list')).groups.length, 1)
    assert.equal((await invoke('job-groups', 'list', '--limit', '-1')).code, 65)
  })

  test('[SCH-097] [SCH-102] a reservation stops the queue until it is released; a second one is refused', async (t) => {
    const { invoke, startScheduler, concord, linesOf } = openJobsHome(t)
    await startScheduler()
    const id = await concord('reservations', 'reserve', '--by', 'maintenance', '--for', '10m')
    await concord('jobs', 'add', '--', 'sh', '-c', 'echo ran >> ran')
    assert.equal((await invoke('reservations', 'reserve')).code, 75)
    assert.match(await concord('reservations', 'renew', id, '--for', '20m'), /^until /)
    assert.match(await concord('jobs', 'watch', '--once'), /0 running, 1 queued/)
    assert.equal(await concord('reservations', 'release', id), 'released')
    await until(() => linesOf('ran').length === 1)
    assert.equal((await invoke('reservations', 'release', id)).code, 75)
  })
})

describe('the self-check', () => {
  test('[SCH-124] [SCH-119] planted damage is reported with its rule and repaired by the next start', async (t) => {
    const { folder, invoke, concord, ask } = openJobsHome(t)
    const id = await concord('jobs', 'add', '--', 'true')
    const sound = await ask<{ checked: string[]; not_checked: string[] }>('scheduler', 'check')
    assert.deepEqual(sound.not_checked, ['S10', 'S11'])
    const file = new DatabaseSync(join(folder, 'home', 'jobs.db'))
    file.exec(`update jobs set status = 'RUNNING', started_at = 1`)
    file.close()
    const broken = await invoke('scheduler', 'check')
    assert.equal(broken.code, 65)
    assert.match(broken.out, /^S01 broken: no RUNNING job without a run \(1\)/)
    await concord('scheduler', 'run', '--until-idle')
    await concord('scheduler', 'check')
    const { job, run } = await ask<Report & { run: { run_id: string } }>('jobs', 'show', id)
    const execution = { job_id: job.job_id, run_id: run.run_id }
    writeFileSync(join(folder, 'ran.json'), JSON.stringify({ executions: [execution, execution] }))
    const twice = await invoke('scheduler', 'check', '--executions', 'ran.json')
    assert.equal(twice.code, 65)
    assert.match(twice.out, /S11 broken: nothing was executed twice/)
    writeFileSync(join(folder, 'ran.json'), '{"executions":[{"job_id":"x"}]}')
    const wrong = await invoke('scheduler', 'check', '--executions', 'ran.json')
    assert.deepEqual([wrong.code, /executions\[0\]/.test(wrong.err)], [65, true])
  })

  test('101 a damaged file, and a file of another scheduler, are refused with their own exit codes', async (t) => {
    const { folder, invoke, start } = openJobsHome(t)
    writeFileSync(join(folder, 'broken.db'), 'not a database, '.repeat(100))
    for (const command of [
      ['scheduler', 'run'],
      ['scheduler', 'check'],
      ['jobs', 'list'],
    ]) {
      const damaged = await invoke(...command, '--file', 'broken.db')
      assert.equal(damaged.code, 65, damaged.err)
      assert.match(damaged.err, /backup/i)
    }
    const running = start('scheduler', 'run', '--file', 'mine.db')
    await running.line((line) => line.includes('Running the jobs'))
    assert.equal((await invoke('scheduler', 'run', '--file', 'mine.db')).code, 75)
  })

  test('75–78 invalid times are refused with their field and leave no template behind', async (t) => {
    const { invoke, ask } = openJobsHome(t)
    const add = (cron: string, zone = 'UTC') =>
      invoke('jobs', 'schedules', 'add', '--name', 'n', '--cron', cron, '--zone', zone, '--json', '--', 'true')
    const cases: [string, string | undefined, string][] = [
      ['* * * *', undefined, 'cron_fields'],
      ['61 * * * *', undefined, 'cron_value'],
      ['0 0 30 2 *', undefined, 'cron_never'],
      ['* * * * *', 'Mars/Base', 'timezone_unknown'],
    ]
    for (const [cron, zone, code] of cases) {
      const { code: exit, err } = await add(cron, zone)
      assert.deepEqual([exit, (JSON.parse(err) as { error: { code: string } }).error.code], [65, code])
    }
    assert.deepEqual((await ask<{ templates: unknown[] }>('job-templates', 'list')).templates, [])
  })
})
