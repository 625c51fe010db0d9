/**
 * Kills Postgres with -9 while commands run. The product restarts it; no acknowledged command may be lost, and nothing may be
 * done twice.
 */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findBrokenInvariants } from '#domains/commands'
import { openChance } from '#test/chance'
import { until } from '#test/until'
import { type Installation, openInstallation } from './installation.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import { invitePeople, type Story } from './people.ts'

export type PostmasterReport = Verdict & {
  readonly kills: number
  /** The time from the kill to the first answer, for the report. */
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
  const installation = await openInstallation({ seed, embedded: true })
  const people = invitePeople(installation, chance.split('people'))
  const server = await installation.serve()
  const worker = installation.work()
  const down: number[] = []
  const broken: string[] = []
  try {
    await installation.answerer()
    people.face(server)
    for (let round = 0; round < kills; round++) {
      const half = IN_FLIGHT / 2
      const asking = [chance.pick(stories), chance.pick(stories)].map((story, n) =>
        people.ask(server, story, half, `${seed}-${round}-${n}`),
      )
      await sleep(chance.whole(500))
      down.push(await killAndWait(installation))
      onKill(round + 1, down.at(-1) ?? 0)
      await Promise.all(asking)
      broken.push(...(await listBroken(installation, round + 1)))
    }
    await people.askAgain(server)
    await waitForRest(installation)
    const sorted = down.toSorted((a, b) => a - b).map(Math.round)
    const downMs = { median: sorted[Math.floor(sorted.length / 2)] ?? 0, most: sorted.at(-1) ?? 0 }
    const verdict = await judge(installation, people.history)
    return { kills: down.length, downMs, ...verdict, broken: [...broken, ...verdict.broken] }
  } finally {
    await people.leave()
    for (const running of [server, worker]) {
      running.child.kill('SIGTERM')
      await running.ended
    }
    await installation.close()
  }
}

/** Every invariant holds at every moment: it is checked after each kill, while commands are still running. */
async function listBroken({ db }: Installation, round: number): Promise<string[]> {
  const found = await findBrokenInvariants(db)
  return found.map(({ code, name, count }) => `after kill ${round}: ${code} ${name}: ${count}`)
}

async function killAndWait(installation: Installation): Promise<number> {
  const file = join(installation.env['CONCORD_HOME'] ?? '', 'postgres/postmaster.pid')
  const pidOf = async () => Number((await readFile(file, 'utf8').catch(() => '')).split('\n')[0])
  const before = await pidOf()
  process.kill(before, 'SIGKILL')
  const at = performance.now()
  await until(async () => {
    const now = await pidOf()
    if (!(now > 0) || now === before) return false
    return installation.db.query('select 1').then(
      () => true,
      () => false,
    )
  }, 'Postgres after its death')
  return performance.now() - at
}
