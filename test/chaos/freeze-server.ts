/**
 * A server that begins in its own process what it was asked for, frozen in the middle of its calls. No runtime knows of these turns: a worker
 * finds them when their time has run out, does them, and when the server thaws nothing of what it still wants to write is accepted.
 */
import { openChance } from '#test/chance'
import { until } from '#test/until'
import { eventsOf, heldBy, isFrozen } from './frozen.ts'
import { openHouse } from './house.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import { invitePeople } from './people.ts'

export type FreezeReport = Verdict & {
  /** Commands with an effect under way in the frozen server; all of them had begun in its process. */
  readonly held: number
  readonly inProcess: number
  /** Held commands that something was written about after the thaw. */
  readonly stale: readonly string[]
  /** From the freeze until everything was done by others, the slowest of the rounds. */
  readonly takenOverMs: number
}

const BATCH = 24
const FREEZE_AT = 6

export async function freezeServer({
  rounds,
  seed,
}: {
  readonly rounds: number
  readonly seed: string
}): Promise<FreezeReport> {
  const chance = openChance(seed)
  const house = await openHouse({ seed, latencyMs: 20 })
  const people = invitePeople(house, chance.split('people'))
  const [held, stale]: [string[], string[]] = [[], []]
  let [inProcess, takenOverMs] = [0, 0]
  try {
    for (let round = 0; round < rounds; round++) {
      const plan = [{ point: 'commands.effect_called', hit: FREEZE_AT + chance.whole(6), act: 'freeze' }] as const
      const server = await house.serve({ plan })
      await house.answerer()
      people.face(server)
      const asking = people.ask(server, 'pay', BATCH, `${seed}-${round}-freeze`)
      await until(() => isFrozen(server), 'a server that stops in its call')
      people.face(undefined)
      const from = performance.now()
      const mine = await heldBy(house)
      inProcess += await countSpot(house, mine)
      const heir = house.work()
      await waitForRest(house)
      takenOverMs = Math.max(takenOverMs, Math.round(performance.now() - from))
      const before = await eventsOf(house, mine)
      server.child.kill('SIGCONT')
      await asking
      // It is of use again.
      people.face(server)
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-thaw`)
      await waitForRest(house)
      const after = await eventsOf(house, mine)
      held.push(...mine)
      stale.push(...mine.filter((id) => before.get(id) !== after.get(id)))
      await people.askAgain(server)
      await waitForRest(house)
      people.face(undefined)
      for (const one of [heir, server]) {
        one.child.kill('SIGTERM')
        await one.ended
      }
    }
    const verdict = await judge(house, people.history)
    return { held: held.length, inProcess, stale, takenOverMs, ...verdict }
  } finally {
    await people.leave()
    await house.close()
  }
}

/** Their tokens are above every number of the runtime. */
async function countSpot({ db }: Awaited<ReturnType<typeof openHouse>>, ids: readonly string[]): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select count(distinct command_id)::int as count from concord.domain_effects
     where command_id = any($1::uuid[]) and status = 'executing' and turn_token >= 'ffffffff-ffff-8000-8000-000000000000'`,
    [ids],
  )
  return row?.count ?? 0
}
