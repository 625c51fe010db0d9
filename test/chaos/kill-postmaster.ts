/**
 * Kills Postgres itself with -9 while commands are under way, as often as asked. Whoever notices first starts it again; nothing
 * that was acknowledged may be gone, and nothing may have been done twice.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findBrokenInvariants } from '#domains/commands'
import { openChance } from '#test/chance'
import { until } from '#test/until'
import { type House, openHouse } from './house.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import { invitePeople, type Story } from './people.ts'

export type PostmasterReport = Verdict & {
  readonly kills: number
  /** From the kill to the first answer of the new one; for the report, not for a promise. */
  readonly downMs: { readonly median: number; readonly most: number }
}

export type PostmasterPlan = {
  readonly kills: number
  readonly seed: string
  readonly onKill?: (done: number, downMs: number) => void
}

const stories: readonly Story[] = ['pay', 'agreed', 'stopped', 'inline', 'chain', 'again', 'told', 'doubt']
const IN_FLIGHT = 20

export async function killPostmaster({ kills, seed, onKill = () => {} }: PostmasterPlan): Promise<PostmasterReport> {
  const chance = openChance(seed)
  const house = await openHouse({ seed, embedded: true })
  const people = invitePeople(house, chance.split('people'))
  const server = await house.serve()
  const worker = house.work()
  const down: number[] = []
  const broken: string[] = []
  try {
    await house.answerer()
    people.face(server)
    for (let round = 0; round < kills; round++) {
      const half = IN_FLIGHT / 2
      const asking = [chance.pick(stories), chance.pick(stories)].map((story, n) =>
        people.ask(server, story, half, `${seed}-${round}-${n}`),
      )
      await sleep(chance.whole(500))
      down.push(await killAndWait(house))
      onKill(round + 1, down.at(-1) ?? 0)
      await Promise.all(asking)
      broken.push(...(await listBroken(house, round + 1)))
    }
    await people.askAgain(server)
    await waitForRest(house)
    const sorted = down.toSorted((a, b) => a - b).map(Math.round)
    const downMs = { median: sorted[Math.floor(sorted.length / 2)] ?? 0, most: sorted.at(-1) ?? 0 }
    const verdict = await judge(house, people.history)
    return { kills: down.length, downMs, ...verdict, broken: [...broken, ...verdict.broken] }
  } finally {
    await people.leave()
    for (const running of [server, worker]) {
      running.child.kill('SIGTERM')
      await running.ended
    }
    await house.close()
  }
}

/** Every invariant holds at every moment: after each kill it is asked while commands are still under way. */
async function listBroken({ db }: House, round: number): Promise<string[]> {
  const found = await findBrokenInvariants(db)
  return found.map(({ code, name, count }) => `after kill ${round}: ${code} ${name}: ${count}`)
}

async function killAndWait(house: House): Promise<number> {
  const file = join(house.env['CONCORD_HOME'] ?? '', 'postgres/postmaster.pid')
  const pidOf = async () => Number((await readFile(file, 'utf8').catch(() => '')).split('\n')[0])
  const before = await pidOf()
  process.kill(before, 'SIGKILL')
  const at = performance.now()
  await until(async () => {
    const now = await pidOf()
    if (!(now > 0) || now === before) return false
    return house.db.query('select 1').then(
      () => true,
      () => false,
    )
  }, 'Postgres after its death')
  return performance.now() - at
}
