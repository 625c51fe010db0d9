/**
 * Two workers on one database. They share the load; one is killed and the other goes on; one is frozen in the middle of a call,
 * another takes its turns over, and when it thaws nothing of what it still wants to write is accepted.
 */
import { openChance } from '#test/chance'
import type { ConcordProcess } from '#test/concord-process'
import { until } from '#test/until'
import { eventsOf, heldBy, isFrozen } from './frozen.ts'
import { type House, kill, openHouse } from './house.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import { invitePeople } from './people.ts'

export type ShareReport = Verdict & {
  /** Turns given by each of the two, while both lived. */
  readonly shares: readonly number[]
  /** Effects that were under way in the frozen worker, and that another one finished. */
  readonly takenOver: number
  /** Attempts on record that belong to the thawed worker although another one had its turn. */
  readonly stale: readonly string[]
}

const BATCH = 80
/** The how-manieth call of the frozen one: the others of its batch are under way too. */
const FREEZE_AT = 6

export async function shareWork({
  rounds,
  seed,
}: {
  readonly rounds: number
  readonly seed: string
}): Promise<ShareReport> {
  const chance = openChance(seed)
  const house = await openHouse({ seed, latencyMs: 20 })
  const people = invitePeople(house, chance.split('people'))
  const server = await house.serve({ works: false })
  const running: ConcordProcess[] = [server]
  const hire = async (plan?: Parameters<House['work']>[0]) => {
    const worker = house.work(plan)
    running.push(worker)
    await worker.line((text) => text.includes('"ready":true'))
    return worker
  }
  const shares = [0, 0]
  const [stale, takenOver]: [string[], string[]] = [[], []]
  try {
    await house.answerer()
    people.face(server)
    for (let round = 0; round < rounds; round++) {
      const [first, second] = await Promise.all([hire(), hire()])
      // More than one of them has places for.
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-share`)
      await waitForRest(house)
      const [one, other] = await Promise.all([turnsOf(house, first), turnsOf(house, second)])
      shares[0] = (shares[0] ?? 0) + one
      shares[1] = (shares[1] ?? 0) + other

      const asking = people.ask(server, 'pay', BATCH, `${seed}-${round}-kill`)
      await kill(chance.whole(2) === 0 ? first : second)
      await asking
      await waitForRest(house)

      const frozen = await hire({ plan: [{ point: 'commands.effect_called', hit: FREEZE_AT, act: 'freeze' }] })
      const alive = first.child.signalCode === null ? first : second
      await kill(alive)
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-freeze`)
      await until(() => isFrozen(frozen), 'a worker that stops in its call')
      const held = await heldBy(house)
      const heir = await hire()
      await waitForRest(house)
      takenOver.push(...held)
      const before = await eventsOf(house, held)
      frozen.child.kill('SIGCONT')
      // It hears of its loss, and is of use again: new work is shared with it.
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-thaw`)
      await until(async () => (await turnsOf(house, frozen)) > 0, 'a thawed worker that works')
      await waitForRest(house)
      const after = await eventsOf(house, held)
      stale.push(...held.filter((id) => before.get(id) !== after.get(id)))
      for (const worker of [frozen, heir]) {
        worker.child.kill('SIGTERM')
        await worker.ended
      }
    }
    running.push(house.work())
    await people.askAgain(server)
    await waitForRest(house)
    return { shares, takenOver: takenOver.length, stale, ...(await judge(house, people.history)) }
  } finally {
    await people.leave()
    for (const one of running) {
      one.child.kill('SIGCONT')
      one.child.kill('SIGTERM')
      await one.ended
    }
    await house.close()
  }
}

/** The engine notes who gave a turn that it carried; the name of the worker holds the number of the process. */
async function turnsOf({ db }: House, { child }: ConcordProcess): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count from dbos.workflow_status w join dbos.workflow_input i using (workflow_uuid)
     where i.inputs like '%"kind":"command"%' and w.executor_id like '%-' || $1 || '-%' and w.status = 'SUCCESS'`,
    [String(child.pid)],
  )
  return row?.count ?? 0
}
