/** Checks a scheduler file in its own thread: the check reads every row, and the server keeps answering. */
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { SelfCheck } from '#domains/scheduler'
import type { Decision } from '#kernel/refusal'

/** From source or built: the thread's file lies beside this one, with the same ending. */
const thread = new URL(`./check-jobs-thread${extname(import.meta.filename)}`, import.meta.url)

const underWay = new Map<string, Promise<Decision<SelfCheck>>>()

/** Concurrent calls for one file share one thread. */
export function checkJobsAside(file: string): Promise<Decision<SelfCheck>> {
  const known = underWay.get(file)
  if (known) return known
  const checking = startThread(file).finally(() => underWay.delete(file))
  underWay.set(file, checking)
  return checking
}

function startThread(file: string): Promise<Decision<SelfCheck>> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(thread, { workerData: { file } })
    worker.once('message', (checked: Decision<SelfCheck>) => resolve(checked))
    worker.once('error', reject)
    worker.once('exit', () => reject(new Error('the thread of the self-check ended without an answer')))
  })
}
