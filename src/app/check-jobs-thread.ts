/** The thread that `check-jobs-aside.ts` starts: opens the file as a guest, checks it, answers once. */
import { parentPort, workerData } from 'node:worker_threads'
import { checkInvariants } from '#domains/scheduler'
import { openJobs } from './scheduler.ts'

const { file } = workerData as { file: string }
function check() {
  const opened = openJobs({ file, role: 'guest' })
  if (!opened.ok) return opened
  const checked = checkInvariants(opened.value)
  opened.value.close()
  return checked
}

// A port of node's threads, not a window of a browser: it has no origin to name.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort?.postMessage(check())
