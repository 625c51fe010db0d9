/** The thread that `check-jobs-aside.ts` starts: opens the file as a guest, checks it, answers once. */
import { parentPort, workerData } from 'node:worker_threads'
import { checkInvariants } from '#domains/scheduler'
import { openJobs } from './scheduler.ts'

const { file } = workerData as { file: string }
const opened = openJobs({ file, role: 'guest' })
if (opened.ok) {
  const checked = checkInvariants(opened.value)
  opened.value.close()
  parentPort?.postMessage(checked)
} else {
  parentPort?.postMessage(opened)
}
