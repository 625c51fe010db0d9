/**
 * Two workers on one database share the load. One is killed and the other continues; one is frozen in the middle of a call and
 * another takes its turns over. When it thaws, all its late writes are refused.
 */
import { openChance } from '#test/chance'
import type { ConcordProcess } from '#test/concord-process'
import { until } from '#test/until'
import { eventsOf, heldBy, isFrozen } from './frozen.ts'
import { type Installation, kill, openInstallation } from './installation.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import { invitePeople } from './people.ts'

export type ShareReport = Verdict & {
  /** The turns of each worker while both were alive. */
  readonly shares: readonly number[]
  /** Effects of the frozen worker that another one finished. */
  readonly takenOver: number
  /** Attempts of the thawed worker that were recorded although another one had its turn. */
  readonly stale: readonly string[]
}

const BATCH = 80
/** The call at which it is frozen; the other calls of its batch are running, too. */
const FREEZE_AT = 6

export async function shareWork({
  rounds,
  seed,
}: {
  readonly rounds: number
  readonly seed: string
}): Promise<ShareReport> {
  const chance = openChance(seed)
  const installation = await openInstallation({ seed, latencyMs: 20 })
  const people = invitePeople(installation, chance.split('people'))
  const server = await installation.serve({ works: false })
  const running: ConcordProcess[] = [server]
  const hire = async (plan?: Parameters<Installation['work']>[0]) => {
    const worker = installation.work(plan)
    running.push(worker)
    await worker.line((text) => text.includes('"ready":true'))
    return worker
  }
  const shares = [0, 0]
  const [stale, takenOver]: [string[], string[]] = [[], []]
  try {
    await installation.answerer()
    people.face(server)
    for (let round = 0; round < rounds; round++) {
      const [first, second] = await Promise.all([hire(), hire()])
      // More than one worker has slots for.
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-share`)
      await waitForRest(installation)
      const [one, other] = await Promise.all([turnsOf(installation, first), turnsOf(installation, second)])
      shares[0] = (shares[0] ?? 0) + one
      shares[1] = (shares[1] ?? 0) + other

      const asking = people.ask(server, 'pay', BATCH, `${seed}-${round}-kill`)
      await kill(chance.whole(2) === 0 ? first : second)
      await asking
      await waitForRest(installation)

      const frozen = await hire({ plan: [{ point: 'commands.effect_called', hit: FREEZE_AT, act: 'freeze' }] })
      const alive = first.child.signalCode === null ? first : second
      await kill(alive)
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-freeze`)
      await until(() => isFrozen(frozen), 'a worker that stops in its call')
      const held = await heldBy(installation)
      const heir = await hire()
      await waitForRest(installation)
      takenOver.push(...held)
      const before = await eventsOf(installation, held)
      frozen.child.kill('SIGCONT')
      // The thawed worker notices its loss and takes new work again.
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-thaw`)
      await until(async () => (await turnsOf(installation, frozen)) > 0, 'a thawed worker that works')
      await waitForRest(installation)
      const after = await eventsOf(installation, held)
      stale.push(...held.filter((id) => before.get(id) !== after.get(id)))
      for (const worker of [frozen, heir]) {
        worker.child.kill('SIGTERM')
        await worker.ended
      }
    }
    running.push(installation.work())
    await people.askAgain(server)
    await waitForRest(installation)
    return { shares, takenOver: takenOver.length, stale, ...(await judge(installation, people.history)) }
  } finally {
    await people.leave()
    for (const one of running) {
      one.child.kill('SIGCONT')
      one.child.kill('SIGTERM')
      await one.ended
    }
    await installation.close()
  }
}

/** The engine records the worker of a turn; its name contains the process id. */
async function turnsOf({ db }: Installation, { child }: ConcordProcess): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count from dbos.workflow_status w join dbos.workflow_input i using (workflow_uuid)
     where i.inputs like '%"kind":"command"%' and w.executor_id like '%-' || $1 || '-%' and w.status = 'SUCCESS'`,
    [String(child.pid)],
  )
  return row?.count ?? 0
}
