/**
 * Freezes a server that runs commands in its own process, in the middle of its calls. The runtime does not know these turns: a
 * worker finds them when their lease has expired and finishes them. When the server thaws, all its late writes are refused.
 */
import { openChance } from '#test/chance'
import { until } from '#test/until'
import { eventsOf, heldBy, isFrozen } from './frozen.ts'
import { openInstallation } from './installation.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import { invitePeople } from './people.ts'

export type FreezeReport = Verdict & {
  /** Commands with a running effect in the frozen server, which had started them itself. */
  readonly held: number
  readonly inProcess: number
  /** Held commands with a write after the thaw. */
  readonly stale: readonly string[]
  /** The time from the freeze until others had finished everything, in the slowest round. */
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
  const installation = await openInstallation({ seed, latencyMs: 20 })
  const people = invitePeople(installation, chance.split('people'))
  const [held, stale]: [string[], string[]] = [[], []]
  let [inProcess, takenOverMs] = [0, 0]
  try {
    for (let round = 0; round < rounds; round++) {
      const plan = [{ point: 'commands.effect_called', hit: FREEZE_AT + chance.whole(6), act: 'freeze' }] as const
      const server = await installation.serve({ plan })
      await installation.answerer()
      people.face(server)
      const asking = people.ask(server, 'pay', BATCH, `${seed}-${round}-freeze`)
      await until(() => isFrozen(server), 'a server that stops in its call')
      people.face(undefined)
      const from = performance.now()
      const mine = await heldBy(installation)
      inProcess += await countInProcess(installation, mine)
      const heir = installation.work()
      await waitForRest(installation)
      takenOverMs = Math.max(takenOverMs, Math.round(performance.now() - from))
      const before = await eventsOf(installation, mine)
      server.child.kill('SIGCONT')
      await asking
      // The server works again.
      people.face(server)
      await people.ask(server, 'pay', BATCH, `${seed}-${round}-thaw`)
      await waitForRest(installation)
      const after = await eventsOf(installation, mine)
      held.push(...mine)
      stale.push(...mine.filter((id) => before.get(id) !== after.get(id)))
      await people.askAgain(server)
      await waitForRest(installation)
      people.face(undefined)
      for (const one of [heir, server]) {
        one.child.kill('SIGTERM')
        await one.ended
      }
    }
    const verdict = await judge(installation, people.history)
    return { held: held.length, inProcess, stale, takenOverMs, ...verdict }
  } finally {
    await people.leave()
    await installation.close()
  }
}

/** Their tokens are higher than every number of the runtime. */
async function countInProcess(
  { db }: Awaited<ReturnType<typeof openInstallation>>,
  ids: readonly string[],
): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select count(distinct command_id)::int as count from concord.domain_effects
     where command_id = any($1::uuid[]) and status = 'executing' and turn_token >= 'ffffffff-ffff-8000-8000-000000000000'`,
    [ids],
  )
  return row?.count ?? 0
}
