/**
 * A worker process: `node runtime-worker-child.ts <url> '<RuntimeWorkerOptions as JSON>'` says `ready` when its runtime is open.
 *
 * stranger  answers every turn of `job` with done and leaves the row `stranger:job:{id}`
 * steps     takes the row `{id}` = { step, of, by } one step further per write, slowly, fenced; says every refused write
 * facts     writes down, fenced, how many facts the row `{id}:facts` has, and waits for a wake
 * busy      writes down who it is and how many turns it had under way at most, and stays in the turn until the row `open` is there
 * none      only opens
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createDbosRuntime } from './dbos-runtime.ts'
import { inEnvironment, type Next, queuesIn } from '../../src/runtime/index.ts'
import { openDb } from '../../src/store/db.ts'
import { openChance } from './chance.ts'
import { caseRowsOn } from './runtime-case-store.ts'
import type { RuntimeWorkerOptions } from './runtime-worker.ts'

const [, , url = '', given = '{}'] = process.argv
const { drive, prefix, times = {}, environment, queues = {} } = JSON.parse(given) as RuntimeWorkerOptions
const db = openDb({ url, role: 'concord_engine', poolMax: 4, onConnectionError: () => {} })
const rows = caseRowsOn(db, prefix)
const done: Next = { t: 'done' }
const engine = queuesIn(environment, queues)
const only = engine.only ? { only: engine.only } : {}
const runtime = inEnvironment(createDbosRuntime({ db, times, poolMax: 8, queues: engine.queues, ...only }), environment)

if (drive === 'stranger') {
  runtime.register('job', async (id) => {
    await rows.transaction((tx) => tx.write(`stranger:job:${id}`, true))
    return done
  })
}

type Steps = { step: number; of: number; by: number[] }

if (drive === 'steps') {
  runtime.register('job', async (id, { token }) => {
    for (;;) {
      await sleep(50)
      const steps = await rows.transaction(async (tx) => {
        const row = await tx.read<Steps>(id)
        if (!(await tx.fence(id, token))) return undefined
        if (!row || row.step >= row.of) return row
        const next = { ...row, step: row.step + 1, by: [...row.by, process.pid] }
        await tx.write(id, next)
        return next
      })
      if (!steps) {
        console.log(`refused ${id}`)
        return done
      }
      if (steps.step >= steps.of) return done
    }
  })
}

if (drive === 'facts') {
  const chance = openChance('a worker')
  runtime.register('job', async (id, { token }) => {
    const seen = (await rows.read<number[]>(`${id}:facts`))?.length ?? 0
    // A wake between the read and the write must not be lost.
    await sleep(chance.whole(20))
    await rows.transaction(async (tx) => {
      if (await tx.fence(`${id}:seen`, token)) await tx.write(`${id}:seen`, seen)
    })
    return { t: 'wait', until: null }
  })
}

if (drive === 'busy') {
  let [now, peak] = [0, 0]
  runtime.register(
    'job',
    async (id) => {
      peak = Math.max(peak, ++now)
      await rows.transaction((tx) => tx.write(`${id}:begun`, process.pid))
      while (!(await rows.read('open'))) await sleep(5)
      await rows.transaction((tx) => tx.write(`${id}:done`, { by: process.pid, peak }))
      now -= 1
      return done
    },
    { queue: 'connector_calls' },
  )
}

process.stdin.on('end', () => process.exit(1)).resume()
const opened = await runtime.open()
console.log(opened.ok ? 'ready' : `${opened.code}: ${opened.reason}`)
if (!opened.ok) process.exit(1)
