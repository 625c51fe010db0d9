/** Jobs that end while no scheduler runs: kill -9 of the scheduler, then each command ends in its own way. The next start tells each truly. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { CRASH_ERROR, listJobs, openProcessTable, readJob, requestStop, submitJob } from '#domains/scheduler'
import { openJobsHome } from '#test/jobs-home'
import { must } from '#test/scheduler/fixture'
import { aRealScheduler, runUntilIdle } from '#test/scheduler/run-until-idle'
import { until } from '#test/until'

/** How a job ends when it may, and what must be known of it. Every one prints more than a pipe holds, after the scheduler has died. */
const ways = {
  good: { script: 'exit 0', told: ['COMPLETED', 0, null] },
  bad: { script: 'exit 3', told: ['FAILED', 3, 'exit code 3: last'] },
  like_a_signal: { script: 'exit 143', told: ['FAILED', 143, 'exit code 143: last'] },
  signal: { script: 'kill -SEGV $$', told: ['FAILED', null, 'ended by SIGSEGV: last'] },
  skipped: { script: 'exit 9', told: ['SKIPPED', null, 'exit code 9: last'] },
  listing: { script: 'echo made > "$JOB_ARTIFACTS"; exit 0', told: ['COMPLETED', 0, null] },
} as const
const OUTPUT_BYTES = 200_000
const EACH = 4

test('[L12] [SCH-111] jobs that end while the scheduler is dead are told truly, run once and leave no process', async (t) => {
  const { folder, start, linesOf } = openJobsHome(t)
  const file = join(folder, 'jobs.db')
  const at = (name: string) => join(folder, name)
  const started = `echo $JOB_ID >> '${at('ran')}'; `
  // Every reader of the pipe waits until it is opened for writing.
  execFileSync('mkfifo', [at('go')])
  const waiting = (script: string) => `${started} read -r line < '${at('go')}'; ${script}`
  const print = `head -c ${OUTPUT_BYTES} /dev/zero | tr '\\0' x; echo; echo last; `
  const type = (job_type: string, script: string) => ({
    job_type,
    retry_policy: { max_retries: 0 },
    runner: { command: 'sh', args: ['-c', script], skip_exit_codes: [9] },
  })
  const types = [
    ...Object.entries(ways).map(([name, { script }]) => type(name, waiting(print + script))),
    type('interrupted', `${started} exec sleep 600`),
    // Ends well when it is asked to end, in the middle of its work.
    type('polite', `trap 'exit 0' TERM; ${started} while :; do sleep 0.02; done`),
    type('stopped', `${started} exec sleep 600`),
  ]
  const ended = ['interrupted', 'polite']
  const wanted = [...Object.keys(ways).flatMap((name) => Array<string>(EACH).fill(name)), ...ended, 'stopped']
  const before = aRealScheduler(types, file)
  const submitted = wanted.map((job_type) => must(submitJob(before, { job_type })))
  before.close()
  const running = start('scheduler', 'run', '--file', file, '--workers', '100')
  await until(() => linesOf('ran').length === wanted.length, 'every job runs')
  running.child.kill('SIGKILL')
  await running.ended
  const again = aRealScheduler(types, file, 100)
  const runOf = (jobId: string) => must(readJob(again, jobId)).run
  const runIds = submitted.map(({ job_id }) => runOf(job_id)?.run_id ?? '')
  const stopped = submitted.at(-1)?.job_id ?? ''
  must(requestStop(again, stopped))
  writeFileSync(at('go'), '')
  const table = openProcessTable()
  const left = (runId: string) => table.list(runId).filter(({ isOfRun }) => isOfRun)
  for (const runId of runIds.slice(0, -3)) await until(() => left(runId).length === 0, 'every job has ended')
  await runUntilIdle(again)
  for (const { job_id, job_type } of submitted) {
    const run = runOf(job_id)
    const told = [run?.status, run?.exit_code, run?.error]
    if (ended.includes(job_type)) assert.deepEqual(told, ['FAILED', null, CRASH_ERROR])
    else if (job_type === 'stopped')
      assert.deepEqual([...told, run?.retry_decided], ['FAILED', null, 'cancelled', 'stopped'])
    else {
      assert.deepEqual(told, [...ways[job_type as keyof typeof ways].told], job_type)
      assert.ok(
        readFileSync(run?.log_path ?? '', 'utf8').length > OUTPUT_BYTES,
        'the output after the death of the scheduler',
      )
      if (job_type === 'listing') assert.deepEqual(JSON.parse(run?.artifacts ?? ''), [join(folder, 'made')])
    }
  }
  assert.equal(must(listJobs(again, { limit: 500 })).length, submitted.length)
  assert.deepEqual(linesOf('ran').toSorted(), submitted.map(({ job_id }) => job_id).toSorted())
  for (const runId of runIds) assert.deepEqual(left(runId), [])
  for (const runId of runIds) assert.equal(existsSync(join(`${file}.runs`, `${runId}.end`)), false)
  again.close()
})
