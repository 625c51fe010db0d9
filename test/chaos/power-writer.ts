/** Run as a child process: submits, dispatches and finishes as fast as it can, and prints each promise. */
import { randomBytes } from 'node:crypto'
import { claimJobs, finishRun, openScheduler, recover, submitJob } from '#domains/scheduler'
import { uuidV7Generator } from '#kernel/ids'

const [file = '', synchronous = 'full'] = process.argv.slice(2)
const now = () => new Date()
const world = { now, random: () => 0.5, newId: uuidV7Generator(now, randomBytes) }
// Stamped with the shared clock of all processes. Writing to a pipe does not return before the system has the data.
const say = (what: string) => void process.stdout.write(`${process.hrtime.bigint()} ${what}\n`)

const opened = openScheduler({ file, deps: world })
if (!opened.ok) throw new Error(`${opened.code}: ${opened.reason}`)
const scheduler = opened.value
const recovered = await recover(scheduler, { endOrphan: async () => 'gone' })
if (!recovered.ok) throw new Error(recovered.reason)
// The setting that the scheduler never uses, for the test that must lose something.
if (synchronous === 'normal') scheduler.db.exec('pragma synchronous = normal')
say('ready')
for (let refused = 0; refused < 20; ) {
  const job = submitJob(scheduler, { job_type: 'story', params: { text: 'x'.repeat(100) } })
  if (job.ok) say(`job ${job.value.job_id}`)
  const claimed = claimJobs(scheduler)
  for (const { runId, job: started } of claimed.ok ? claimed.value.runs : []) {
    say(`executed ${started.job_id} ${runId}`)
    if (finishRun(scheduler, runId, { outcome: 'completed' }).ok) say(`finished ${runId}`)
  }
  // Without power there are no more promises; the supervisor ends this process.
  if (!job.ok || !claimed.ok) refused += 1
}
