/** The running loop with real child processes: outcomes, limits, what a child sees, and how the loop stops. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, existsSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, test } from 'node:test'
import { listJobs, readJob } from './job-views.ts'
import { requestStop, runFolderOf } from './run-files.ts'
import { openProcessTable } from './process-table.ts'
import { retryJob } from './change-job.ts'
import { runDirect } from './direct-job.ts'
import { SHUTDOWN_ERROR } from './run-job.ts'
import { PATH_CHARS_MAX } from './run-outcome.ts'
import { runScheduler } from './run-scheduler.ts'
import { until } from '#test/until'
import { aRealScheduler, aShellType, runUntilIdle, wait } from '#test/scheduler/run-until-idle'
import { aFolder, anId, codeOf, must, rowsOf } from '#test/scheduler/fixture'
import { submitJob } from './submit-job.ts'
import type { StoredRun } from './stored-rows.ts'

async function runOne(script: string, runner: object = {}, retries = 0): Promise<StoredRun> {
  const scheduler = aRealScheduler([aShellType(script, runner, retries)])
  const { job_id } = must(submitJob(scheduler, { job_type: 'story', params: { month: 5 } }))
  await runUntilIdle(scheduler)
  const { run } = must(readJob(scheduler, job_id))
  scheduler.close()
  assert.ok(run)
  return run
}

const logOf = (run: StoredRun) => readFileSync(run.log_path ?? '', 'utf8')

describe('a child process', () => {
  test('[SCH-070] exit 0 completes with its code, its log and its artifacts', async () => {
    const run = await runOne('cat; echo out; echo err >&2; echo /tmp/a.csv >> "$JOB_ARTIFACTS"')
    assert.deepEqual([run.status, run.exit_code, run.error], ['COMPLETED', 0, null])
    assert.deepEqual(JSON.parse(run.artifacts), ['/tmp/a.csv'])
    assert.match(logOf(run), /\{"month":5\}/)
    assert.match(logOf(run), /out\n/)
    assert.match(logOf(run), /err\n/)
    assert.equal(statSync(run.log_path ?? '').mode & 0o777, 0o600)
    assert.ok(run.process_pid && run.process_started_at && run.process_boot_id)
  })

  test('[L12] [SCH-070] a list of artifacts that cannot be read leaves the outcome as it is, and the log says so', async () => {
    const long = 'x'.repeat(PATH_CHARS_MAX)
    const lists = {
      folder: 'mkdir -p "$JOB_ARTIFACTS"; echo kept > "$JOB_ARTIFACTS/made"',
      pipe: 'mkfifo "$JOB_ARTIFACTS"',
      device: 'ln -s /dev/zero "$JOB_ARTIFACTS"',
      loop: 'ln -s "$JOB_ARTIFACTS" "$JOB_ARTIFACTS"',
      nowhere: 'ln -s /no/such/file "$JOB_ARTIFACTS"',
      endless: 'head -c 9000000 /dev/zero > "$JOB_ARTIFACTS"',
      many: `echo /first > "$JOB_ARTIFACTS"; yes /${long} | head -c 9000000 >> "$JOB_ARTIFACTS"; echo /last >> "$JOB_ARTIFACTS"`,
    }
    const types = Object.entries(lists).map(([name, script]) => ({ ...aShellType(script, {}, 1), job_type: name }))
    const scheduler = aRealScheduler(types, undefined, types.length)
    for (const job_type of Object.keys(lists)) must(submitJob(scheduler, { job_type }))
    await runUntilIdle(scheduler)
    const runs = must(listJobs(scheduler)).map(({ job_id, job_type }) => {
      const { run } = must(readJob(scheduler, job_id))
      assert.ok(run)
      const note = /The list of artifacts cannot be read or removed: ([^\n]*)/.exec(logOf(run))?.[1] ?? ''
      return { job_type, told: [run.status, run.exit_code, JSON.parse(run.artifacts)], note, run }
    })
    const seen = Object.fromEntries(runs.map(({ job_type, told, note }) => [job_type, [...told, note]]))
    const noFile = 'it is not a file.'
    assert.deepEqual(seen, {
      folder: ['COMPLETED', 0, [], noFile],
      pipe: ['COMPLETED', 0, [], noFile],
      device: ['COMPLETED', 0, [], noFile],
      loop: ['COMPLETED', 0, [], 'ELOOP.'],
      nowhere: ['COMPLETED', 0, [], ''],
      endless: ['COMPLETED', 0, [], ''],
      many: ['COMPLETED', 0, ['/first'], ''],
    })
    // What a job put into a folder of that name is its work.
    const folder = runs.find(({ job_type }) => job_type === 'folder')?.run.log_path?.replace('.log', '.artifacts')
    assert.equal(readFileSync(join(folder ?? '', 'made'), 'utf8'), 'kept\n')
    scheduler.close()
  })

  test('[L12] [SCH-070] runs from an installation whose path has characters that a URL escapes', async () => {
    const home = join(aFolder(), 'a b%20ü#?')
    for (const part of ['package.json', 'src/kernel', 'src/contract', 'src/domains/scheduler'])
      cpSync(part, join(home, part), { recursive: true })
    symlinkSync(resolve('node_modules'), join(home, 'node_modules'))
    const at = (name: string) => join(home, name)
    const files = { logPath: at('log'), logMaxBytes: 0, artifactList: at('artifacts'), endPath: at('end') }
    const order = { command: 'true', args: [], cwd: home, environment: {}, input: '', skipExitCodes: [], ...files }
    const input = JSON.stringify({ runId: anId(), order, limits: { timeoutMs: null, killAfterMs: 1_000 } })
    writeFileSync(
      at('start.ts'),
      `import { startChild } from './src/domains/scheduler/run-child.ts'
       process.stdout.write((await startChild({ ...${input}, wait: async () => {} }).ended).answer)`,
    )
    const answer = execFileSync(process.execPath, [at('start.ts')], { encoding: 'utf8' })
    assert.deepEqual(JSON.parse(answer || '{}').end, { outcome: 'completed', exitCode: 0 })
  })

  test('[SCH-071] another exit code fails with the last line, and is repeated by the rules of its type', async () => {
    const scheduler = aRealScheduler([aShellType('echo no paper; exit 7', {}, 2)])
    must(submitJob(scheduler, { job_type: 'story' }))
    await runUntilIdle(scheduler)
    const runs = rowsOf(scheduler, 'job_runs')
    assert.equal(runs.length, 3)
    for (const run of runs) assert.deepEqual([run['exit_code'], run['error']], [7, 'exit code 7: no paper'])
  })

  test('a signal of its own fails without an exit code', async () => {
    const run = await runOne('kill -SEGV $$')
    assert.deepEqual([run.status, run.exit_code], ['FAILED', null])
    assert.match(run.error ?? '', /SIGSEGV/)
  })

  test('[SCH-072] an exit code for "nothing to do" is skipped', async () => {
    assert.equal((await runOne('exit 9', { skip_exit_codes: [9] })).status, 'SKIPPED')
  })

  test('a command or a folder that is not there fails at once and is not repeated', async () => {
    for (const runner of [{ command: '/no/such/program' }, { cwd: '/no/such/folder' }]) {
      const run = await runOne('true', runner, 3)
      assert.deepEqual(
        [run.status, run.error_class, run.retry_decided],
        ['FAILED', 'validation_error', 'not_retryable'],
      )
      assert.match(run.error ?? '', /ENOENT/)
    }
  })

  test('a type without a command and without a handler fails with what to do', async () => {
    const scheduler = aRealScheduler([{ job_type: 'story' }])
    const { job_id } = must(submitJob(scheduler, { job_type: 'story' }))
    await runUntilIdle(scheduler)
    const { run } = must(readJob(scheduler, job_id))
    assert.match(run?.error ?? '', /No handler or command is registered for jobs of type "story".*handler/)
    assert.equal(run?.retry_decided, 'not_retryable')
  })

  test('a time limit ends it with all its children, also when it does not listen', async () => {
    let pid = 0
    // On a busy machine a shell may not come to its first line in a short time; then it gets a longer one.
    for (const timeout of ['150ms', '2s', '30s']) {
      const run = await runOne('trap "" TERM; sleep 600 & echo $! ; wait; sleep 600', { timeout, kill_after: '100ms' })
      assert.deepEqual([run.status, run.error_class], ['FAILED', 'timeout'])
      pid = Number(logOf(run).split('\n')[0])
      if (pid > 0) break
    }
    assert.ok(pid > 0)
    assert.equal(openProcessTable().startOf(pid), null)
  })

  test('what it leaves running in its group ends with it', async () => {
    const run = await runOne('sleep 600 & echo $!')
    assert.equal(run.status, 'COMPLETED')
    assert.equal(openProcessTable().startOf(Number(logOf(run).trim())), null)
  })

  test('the log is cut at its limit and the job continues', async () => {
    const run = await runOne('head -c 100000 /dev/zero | tr "\\0" x; echo; echo done >&2; exit 3', {
      log_max_bytes: 1_000,
    })
    const log = logOf(run)
    assert.ok(log.startsWith('x'.repeat(1_000)))
    assert.match(log, /cut at 1000 bytes/)
    assert.ok(log.length < 1_200, `${log.length}`)
    assert.match(run.error ?? '', /exit code 3/)
  })

  test('it sees the plain variables, the allowed ones and its own, and nothing else', async () => {
    const scheduler = aRealScheduler([aShellType('env', { env: ['ALLOWED'], set: { FIXED: 'f' } })])
    const { job_id } = must(submitJob(scheduler, { job_type: 'story' }))
    const environment = { PATH: process.env['PATH'], ALLOWED: 'a', SECRET: 's', AWS_KEY: 'k', JOB_RUN_ID: 'forged' }
    await runUntilIdle(scheduler, { environment })
    const { run } = must(readJob(scheduler, job_id))
    assert.ok(run)
    const names = logOf(run)
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split('=')[0] ?? '')
    const own = ['JOB_ARTIFACTS', 'JOB_ATTEMPT', 'JOB_ID', 'JOB_RUN_ID', 'JOB_TYPE']
    // The shell adds the last ones by itself.
    const seen = names.filter((name) => !['PWD', 'SHLVL', '_', 'OLDPWD'].includes(name)).sort()
    assert.deepEqual(seen, ['ALLOWED', 'FIXED', ...own, 'PATH'].sort())
    assert.match(logOf(run), new RegExp(`JOB_RUN_ID=${run.run_id}`))
  })
})

describe('a handler of this process', () => {
  test('completes, fails, skips and writes its log', async () => {
    const types = ['ok', 'bad', 'none'].map((job_type) => ({ job_type, retry_policy: { max_retries: 0 } }))
    const scheduler = aRealScheduler(types)
    for (const { job_type } of types) must(submitJob(scheduler, { job_type, params: { n: 1 } }))
    await runUntilIdle(scheduler, {
      handlers: {
        ok: { work: (params, { log }) => (log(JSON.stringify(params)), { artifacts: ['/tmp/x'] }) },
        bad: { work: () => Promise.reject(new Error('no')) },
        none: { work: () => ({ skipped: 'nothing new' }) },
      },
    })
    const jobs = must(listJobs(scheduler)).toReversed()
    const runs = jobs.map(({ job_id }) => must(readJob(scheduler, job_id)).run)
    assert.deepEqual(
      runs.map((run) => [run?.status, run?.error]),
      [
        ['COMPLETED', null],
        ['FAILED', 'no'],
        ['SKIPPED', 'nothing new'],
      ],
    )
    assert.equal(logOf(runs[0] as StoredRun), '{"n":1}\n')
  })

  test('its run is open until it has settled, also after its time', async () => {
    const scheduler = aRealScheduler([{ job_type: 'story', retry_policy: { max_retries: 1 } }])
    must(submitJob(scheduler, { job_type: 'story' }))
    let inside = 0
    let most = 0
    const work = async (_: unknown, { signal }: { signal: AbortSignal }) => {
      most = Math.max(most, (inside += 1))
      await wait(60_000, signal)
      await wait(50, new AbortController().signal)
      inside -= 1
      throw new Error('late')
    }
    await runUntilIdle(scheduler, { handlers: { story: { timeoutMs: 20, work } } })
    assert.deepEqual(
      rowsOf(scheduler, 'job_runs').map((run) => run['error_class']),
      ['timeout', 'timeout'],
    )
    assert.equal(most, 1)
  })
})

describe('stopping', () => {
  test('[SCH-107] [SCH-108] a short job ends by itself; the queue stays as it was', async () => {
    const folder = aFolder()
    const scheduler = aRealScheduler([aShellType(`echo x >> ${folder}/ran; sleep 0.3`)])
    const ids = [1, 2, 3].map(() => must(submitJob(scheduler, { job_type: 'story' })).job_id)
    const stop = new AbortController()
    const running = runScheduler(scheduler, { wait, stop: stop.signal, environment: process.env, pollMs: 10 })
    await until(() => existsSync(join(folder, 'ran')))
    stop.abort()
    assert.deepEqual(must(await running), { ended: 1, left: 0 })
    assert.equal(must(readJob(scheduler, ids[0] ?? '')).run?.status, 'COMPLETED')
    const queued = must(listJobs(scheduler, { status: 'queued' })).map((job) => job.job_id)
    assert.deepEqual(queued.toReversed(), ids.slice(1))
    await runUntilIdle(scheduler)
    assert.equal(readFileSync(join(folder, 'ran'), 'utf8'), 'x\n'.repeat(3))
  })

  async function stopDuring(script: (ready: string) => string) {
    const ready = join(aFolder(), 'ready')
    const scheduler = aRealScheduler([aShellType(script(ready), {}, 1)])
    const { job_id } = must(submitJob(scheduler, { job_type: 'story' }))
    const stop = new AbortController()
    const options = { wait, stop: stop.signal, environment: process.env, graceMs: 50, pollMs: 10 }
    const running = runScheduler(scheduler, options)
    await until(() => existsSync(ready))
    stop.abort()
    assert.deepEqual(must(await running), { ended: 1, left: 0 })
    const { run } = must(readJob(scheduler, job_id))
    assert.equal(openProcessTable().startOf(run?.process_pid ?? 0), null)
    const retries = must(listJobs(scheduler, { status: 'queued' })).map(({ retry_of }) => retry_of === job_id)
    return { told: [run?.status, run?.error, run?.retry_decided], retries }
  }

  test('[L12] [SCH-107] a long one is ended after the grace period, with its outcome and its retry written', async () => {
    const long = (ready: string) => `touch ${ready}; exec sleep 600`
    const polite = (ready: string) => `trap 'exit 0' TERM; touch ${ready}; while :; do sleep 0.02; done`
    for (const script of [long, polite])
      assert.deepEqual(await stopDuring(script), { told: ['FAILED', SHUTDOWN_ERROR, 'retry'], retries: [true] })
  })

  test('[SCH-066] a stop request ends a running job: FAILED as cancelled, without a retry', async () => {
    const scheduler = aRealScheduler([aShellType('exec sleep 600', {}, 3)])
    const { job_id } = must(submitJob(scheduler, { job_type: 'story' }))
    assert.equal(codeOf(requestStop(scheduler, job_id)), 'scheduler.job.not_running')
    const done = runUntilIdle(scheduler)
    await until(() => must(readJob(scheduler, job_id)).run !== null)
    must(requestStop(scheduler, job_id))
    await done
    const { run } = must(readJob(scheduler, job_id))
    assert.deepEqual([run?.status, run?.error, run?.retry_decided], ['FAILED', 'cancelled', 'stopped'])
  })
})

test('a repeated job is a new job; the old one and its verdict stay', async () => {
  const scheduler = aRealScheduler([aShellType('exit 1')])
  const { job_id } = must(submitJob(scheduler, { job_type: 'story', params: { a: 1 }, priority: 4 }))
  assert.equal(codeOf(retryJob(scheduler, job_id)), 'scheduler.job.not_failed')
  await runUntilIdle(scheduler)
  const again = must(retryJob(scheduler, job_id))
  assert.deepEqual([again.params, again.priority, again.retry_of], ['{"a":1}', 4, null])
  assert.equal(must(readJob(scheduler, job_id)).run?.retry_decided, 'exhausted')
})

test('[SCH-101] [SCH-103] a direct execution runs with the queue held back, and renews its reservation', async () => {
  const folder = aFolder()
  const scheduler = aRealScheduler([aShellType(`until [ -e ${folder}/renewed ]; do sleep 0.02; done`)])
  const queued = must(submitJob(scheduler, { job_type: 'story' }))
  scheduler.recovery.isDone = true
  const deps = {
    handlers: {},
    environment: process.env,
    folder: '.',
    runFolder: runFolderOf(scheduler.db.file) ?? '',
    table: openProcessTable(),
    // The wait for a third of the lifetime is shortened, so the reservation is renewed while the job runs.
    wait: (ms: number, signal?: AbortSignal) => wait(ms === scheduler.settings.reservationMs / 3 ? 10 : ms, signal),
  }
  const options = {
    deps,
    reservedBy: 'test',
    timeoutMs: 60_000,
    stop: new AbortController().signal,
    alert: () => assert.fail('an alert'),
  }
  const running = runDirect(scheduler, { job_type: 'story' }, options)
  await until(() => rowsOf(scheduler, 'direct_reservations').some((row) => row['renewed_at'] !== null), 'a renewal')
  writeFileSync(join(folder, 'renewed'), '')
  const { run, job } = must(await running)
  assert.equal(run.status, 'COMPLETED')
  const [reservation] = rowsOf(scheduler, 'direct_reservations')
  assert.deepEqual([reservation?.['status'], job.reservation_id], ['RELEASED', reservation?.['reservation_id']])
  assert.equal(must(readJob(scheduler, queued.job_id)).job.status, 'QUEUED')
})
