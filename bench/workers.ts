/**
 * The gain of a second worker: commands per second with one and with two workers on one database, for an effect with a slow
 * provider. It promises nothing: the workers share two cores with Postgres and the server.
 *
 * node bench/workers.ts [--commands 400] [--latency 20,500] [--workers 1,2]
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { openChance } from '#test/chance'
import { type Installation, kill, openInstallation } from '../test/chaos/installation.ts'
import { invitePeople } from '../test/chaos/people.ts'
import { readFlags } from '../scripts/read-flags.ts'

const { values: options } = readFlags({
  options: {
    commands: { type: 'string', default: '400' },
    latency: { type: 'string', default: '20,500' },
    workers: { type: 'string', default: '1,2' },
  },
})
const numbers = (text: string) => text.split(',').map(Number)
const count = Number(options.commands)
/** Requests at once; more would measure the client. */
const AT_ONCE = 100
const LOOK_MS = 250
const LIMIT_MS = 600_000

for (const latencyMs of numbers(options.latency)) {
  const installation = await openInstallation({ seed: 'bench', latencyMs })
  const people = invitePeople(installation, openChance('bench'))
  const server = await installation.serve({ works: false })
  try {
    for (const [index, workers] of numbers(options.workers).entries()) {
      const rate = await measure(workers, `${latencyMs}-${index}`)
      console.log(
        `effect of ${latencyMs} ms, ${workers} worker${workers === 1 ? '' : 's'}: ${rate.toFixed(0)} commands/s`,
      )
    }
  } finally {
    await people.leave()
    await kill(server)
    await installation.close()
  }

  /** The middle of a backlog, without the start of the workers and the last commands. */
  async function measure(workers: number, round: string): Promise<number> {
    for (let sent = 0; sent < count; sent += AT_ONCE) await people.ask(server, 'steady', AT_ONCE, `${round}-${sent}`)
    const hired = Array.from({ length: workers }, () => installation.work())
    for (let waits = 0; (await openCount(installation)) > 0; waits++) {
      if (waits * LOOK_MS > LIMIT_MS) throw new Error('The backlog was not finished in time.')
      await sleep(LOOK_MS)
    }
    for (const worker of hired) {
      worker.child.kill('SIGTERM')
      await worker.ended
    }
    const [row] = await installation.db.query<{ rate: number }>(
      `with ended as (select extract(epoch from completed_at)::float8 as at from concord.commands
         where idempotency_key like $1 || '-%' order by at offset $2 limit $3)
       select count(*) / (max(at) - min(at)) as rate from ended`,
      [round, Math.floor(count * 0.15), Math.floor(count * 0.7)],
    )
    return row?.rate ?? 0
  }
}

async function openCount({ db }: Installation): Promise<number> {
  const [row] = await db.query<{ open: number }>(
    'select count(*)::int as open from concord.commands where completed_at is null',
  )
  return row?.open ?? 0
}
