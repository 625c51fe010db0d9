/** Run as a child process: prints the ids of the queue in a file, in order. */
import { listQueue } from '../../../src/domains/scheduler/job-views.ts'
import { must, openTest } from './fixture.ts'

const scheduler = must(openTest({ file: process.argv[2] ?? '', role: 'guest' }))
console.log(JSON.stringify(must(listQueue(scheduler, { limit: 500 })).jobs.map((job) => job.job_id)))
scheduler.close()
