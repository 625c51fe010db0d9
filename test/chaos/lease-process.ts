/** A worker of missions as a process: claims, starts and submits until it is ended. It writes each start into its book before it works. */
import { appendFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

const [url = '', key = '', book = '', loops = '1'] = process.argv.slice(2)
/** Long enough to be killed with a lease. */
const WORK_MS = 150

type Claimed = { readonly task_id: string; readonly lease_token: string; readonly attempt: number }

/** Undefined: the server is away, or refuses. */
async function post(path: string, body: object): Promise<Record<string, unknown> | undefined> {
  const answer = await fetch(`${url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  }).catch(() => undefined)
  const said = answer?.ok ? await answer.json().catch(() => undefined) : undefined
  return said as Record<string, unknown> | undefined
}

async function work(): Promise<never> {
  for (;;) {
    const answer = await post('/mission-tasks/claim', { queues: ['chaos'], wait_seconds: 2 })
    const claimed = answer?.['claimed'] as Claimed | null | undefined
    if (!claimed) {
      await sleep(answer ? 0 : 100)
      continue
    }
    const { task_id, lease_token, attempt } = claimed
    const lease = { lease_token, attempt }
    if (!(await post(`/mission-tasks/${task_id}/start`, lease))) continue
    await appendFile(book, `${process.pid} ${task_id} ${attempt}\n`)
    await sleep(WORK_MS)
    await post(`/mission-tasks/${task_id}/submit`, { ...lease, output: { attempt }, cost: '0.001' })
  }
}

await Promise.all(Array.from({ length: Number(loops) }, work))
