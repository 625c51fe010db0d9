/**
 * Kills the real server with -9 at seeded moments of starting, migrating, adopting and answering, and finally checks the database
 * for every acknowledged write.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ConcordProcess, freePort, serveConcord, spawnConcord } from '#test/concord-process'
import { openChance, type Chance } from '#test/chance'

export type KillPlan = { readonly rounds: number; readonly seed: string; readonly onRound?: (done: number) => void }

export type KillReport = {
  readonly rounds: number
  readonly killedWhileStarting: number
  readonly killedWhileAnswering: number
  readonly killedOnAFreshFolder: number
  readonly postmastersKilled: number
  readonly acknowledged: number
  readonly unclear: number
  readonly lost: readonly string[]
  /** Starts that failed, with their output. */
  readonly stuck: readonly string[]
}

type Home = { readonly folder: string; readonly env: Record<string, string> }

async function aHome(): Promise<Home> {
  const folder = await mkdtemp(join(tmpdir(), 'concord-kill-'))
  return {
    folder,
    env: {
      CONCORD_HOME: join(folder, 'home'),
      CONCORD_PORT: await freePort(),
      CONCORD_LOG_LEVEL: 'error',
      CONCORD_RATE_LIMIT: '1000000',
    },
  }
}

async function kill(server: ConcordProcess): Promise<void> {
  server.child.kill('SIGKILL')
  await server.ended
}

/** A start takes about a second; the kills cover it from the first import to the first request. */
const STARTING_MS = 1_200

export async function killServer({ rounds, seed, onRound = () => {} }: KillPlan): Promise<KillReport> {
  const chance = openChance(seed)
  const home = await aHome()
  const counts = {
    killedWhileStarting: 0,
    killedWhileAnswering: 0,
    killedOnAFreshFolder: 0,
    postmastersKilled: 0,
    unclear: 0,
  }
  const acknowledged = new Set<string>()
  const stuck: string[] = []
  try {
    for (let round = 0; round < rounds; round++) {
      if (chance.whole(20) === 0) {
        await killFresh(chance, stuck)
        counts.killedOnAFreshFolder++
      } else if (chance.whole(2) === 0) {
        const server = spawnConcord(['--json', 'up'], { env: home.env })
        await sleep(chance.whole(STARTING_MS))
        await kill(server)
        counts.killedWhileStarting++
      } else {
        counts.unclear += await killAnswering(home, `${seed}-${round}`, chance, acknowledged, stuck)
        counts.killedWhileAnswering++
      }
      if (chance.whole(10) === 0 && (await killPostmaster(home))) counts.postmastersKilled++
      onRound(round + 1)
    }
    const lost = await findLost(home, acknowledged)
    return { rounds, ...counts, acknowledged: acknowledged.size, lost, stuck }
  } finally {
    await removeHome(home)
  }
}

async function killAnswering(
  home: Home,
  round: string,
  chance: Chance,
  acknowledged: Set<string>,
  stuck: string[],
): Promise<number> {
  let unclear = 0
  const server = await serveConcord({ env: home.env }).catch((error: Error) => void stuck.push(error.message))
  if (!server) return unclear
  const key = (await readFile(server.keyFile, 'utf8')).trim()
  const firstAnswer = Promise.withResolvers<void>()
  const sending = Array.from({ length: 8 }, async (_, writer) => {
    for (let n = 0; n < 50; n++) {
      const slug = `k-${round}-${writer}-${n}`.toLowerCase()
      const answer = await fetch(`${server.address}/workspaces`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify({ slug, name: slug }),
      }).catch(() => undefined)
      if (answer?.status === 201) {
        acknowledged.add(slug)
        firstAnswer.resolve()
      } else unclear++
      if (!answer) return
    }
  })
  // Not before the first answer: an earlier kill would prove nothing.
  await Promise.race([firstAnswer.promise, sleep(10_000)])
  await sleep(chance.whole(250))
  await kill(server)
  await Promise.all(sending)
  return unclear
}

/** Kills initdb and the migrations on an empty folder, then starts until they are done. */
async function killFresh(chance: Chance, stuck: string[]): Promise<void> {
  const fresh = await aHome()
  try {
    const first = spawnConcord(['--json', 'up'], { env: fresh.env })
    await sleep(chance.whole(3_000))
    await kill(first)
    const second = await serveConcord({ env: fresh.env }).catch((error: Error) => void stuck.push(error.message))
    if (second) {
      second.child.kill('SIGTERM')
      await second.ended
    }
  } finally {
    await removeHome(fresh)
  }
}

async function killPostmaster({ env }: Home): Promise<boolean> {
  const text = await readFile(join(env['CONCORD_HOME'] ?? '', 'postgres/postmaster.pid'), 'utf8').catch(() => '')
  const pid = Number(text.split('\n')[0])
  if (!(pid > 0)) return false
  try {
    process.kill(pid, 'SIGKILL')
    return true
  } catch {
    return false
  }
}

async function findLost(home: Home, acknowledged: ReadonlySet<string>): Promise<string[]> {
  const server = await serveConcord({ env: home.env })
  const key = (await readFile(server.keyFile, 'utf8')).trim()
  const seen = new Set<string>()
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = new URLSearchParams({ limit: '500', ...(cursor === undefined ? {} : { cursor }) })
    const answer = await fetch(`${server.address}/workspaces?${query.toString()}`, {
      headers: { authorization: `Bearer ${key}` },
    })
    const page = (await answer.json()) as { items: { slug: string }[]; next_cursor: string | null }
    for (const { slug } of page.items) seen.add(slug)
    cursor = page.next_cursor
  }
  server.child.kill('SIGTERM')
  await server.ended
  return [...acknowledged].filter((slug) => !seen.has(slug))
}

async function removeHome(home: Home): Promise<void> {
  await killPostmaster(home)
  await sleep(50)
  await rm(home.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
}
