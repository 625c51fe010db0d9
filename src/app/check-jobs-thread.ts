/** The thread that `open-jobs.ts` starts: opens a scheduler file as a guest, checks it and posts one answer. */
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

// This is a port of a Node thread, not a browser window, so it has no origin.
// oxlint-disable-next-line unicorn/require-post-message-target-origin
parentPort?.postMessage(check())
