/**
 * Kills the server or a worker with -9 exactly at each named point of the governed path, with at least twenty commands in flight
 * and at least eight of them standing at that very point, on one database that lives through all of it. Then everything is left
 * in peace, and the judge compares what was said, what was paid and what is on record.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Chance, openChance } from '#test/chance'
import type { ConcordProcess, Served } from '#test/concord-process'
import { type DeathPlan, type House, kill, openHouse } from './house.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import { invitePeople, type People, type Story } from './people.ts'
import { type PathPoint, pathPoints } from './path-points.ts'

export type Role = 'server' | 'worker'
export type Kill = { readonly role: Role; readonly target: PathPoint }
export type PointsReport = Verdict & {
  readonly kills: number
  /** Commands that stood at the point when the process ended, by role and point. */
  readonly cut: Readonly<Record<string, number>>
  /** Points that were not cut often enough. */
  readonly missed: readonly string[]
}

export type PointsPlan = {
  /** How often each point is cut for each role that passes it; eight commands or one batch each time. */
  readonly rounds: number
  readonly seed: string
  readonly only?: readonly string[]
  readonly onKill?: (kills: readonly Kill[]) => void
}

/** How many commands stand at the point when the process ends. */
export const TOGETHER = 8
/** In flight: the ones that lead to the point, and others between. */
const MAIN = 14
const OTHERS = 8
/** More than a worker has places: the rest of them is overdue before its turn comes. */
const CROWD = 44
/** A process that does not come to its point by then is told to go; the round is void and is tried again. */
const PATIENCE_MS = 60_000
const TRIES_MAX = 3
const fillers: readonly Story[] = ['pay', 'inline', 'agreed', 'told', 'again', 'chain', 'doubt']

export async function killAtPoints({ rounds, seed, only, onKill = () => {} }: PointsPlan): Promise<PointsReport> {
  const chance = openChance(seed)
  const house = await openHouse({ seed })
  const people = invitePeople(house, chance.split('people'))
  const site = openSite(house, people, chance, seed)
  const wanted = pathPoints.filter(({ point }) => only === undefined || only.includes(point))
  const kills: Kill[] = []
  const report = async () => {
    const cut = countCuts(await house.cover(), kills)
    return { cut, missed: wanted.flatMap((target) => listMissed(target, cut, rounds)) }
  }
  try {
    for (let round = 0; round < rounds; round++) {
      // The server takes no turns here, so the worker has all of them; the server dies of its own points meanwhile.
      const requests = wanted.filter(({ where }) => where === 'request')
      const turns = wanted.filter(({ where }) => where === 'turn')
      for (let at = 0; at < Math.max(requests.length, turns.length); at++) {
        kills.push(...(await site.killBoth(requests[at], turns[at])))
        onKill(kills)
      }
      for (const target of turns) {
        kills.push(...(await site.killWorkingServer(target)))
        onKill(kills)
      }
    }
    // A machine that was too busy to bring enough of them to the point in time gets another try.
    for (let tries = 1; tries < TRIES_MAX; tries++) {
      for (const { role, target } of (await report()).missed) {
        if (role === 'server' && target.where === 'turn') kills.push(...(await site.killWorkingServer(target)))
        else if (role === 'server') kills.push(...(await site.killBoth(target, undefined)))
        else kills.push(...(await site.killBoth(undefined, target)))
        onKill(kills)
      }
    }
    await site.calm()
    const { cut, missed } = await report()
    const verdict = await judge(house, people.history)
    return { kills: kills.length, cut, missed: missed.map(({ words }) => words), ...verdict }
  } finally {
    await site.close()
    await people.leave()
    await house.close()
  }
}

type Missed = Kill & { readonly words: string }

function listMissed(target: PathPoint, cut: Readonly<Record<string, number>>, rounds: number): readonly Missed[] {
  const { point, where, isBatch } = target
  const roles: readonly Role[] = where === 'request' ? ['server'] : ['server', 'worker']
  const enough = rounds * (isBatch ? 1 : TOGETHER)
  return roles.flatMap((role) => {
    const count = cut[`${role} ${point}`] ?? 0
    return count < enough ? [{ role, target, words: `${role} ${point}: ${count} of ${enough}` }] : []
  })
}

/** Each killed process has left one line that says how many stood there; they come in the order of the kills of that point. */
function countCuts(cover: readonly string[], kills: readonly Kill[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  const lines = new Map<string, number[]>()
  for (const line of cover) {
    const [point = '', word, count] = line.split(' ')
    if (word === 'cut') lines.set(point, [...(lines.get(point) ?? []), Number(count)])
  }
  for (const { role, target } of kills) {
    const name = `${role} ${target.point}`
    counts[name] = (counts[name] ?? 0) + (lines.get(target.point)?.shift() ?? 0)
  }
  return counts
}

function planOf({ point, isBatch }: PathPoint, chance: Chance): DeathPlan {
  // Of a batch any of the first few; of the others the first so many, all at once.
  // A process that comes up gives itself one turn as a proof.
  const hit = point.startsWith('lane.') ? 1 + chance.whole(6) : point.startsWith('runtime.turn_') ? 2 : 1
  return { point, hit, act: 'kill', together: isBatch ? 1 : TOGETHER }
}

function openSite(house: House, people: People, chance: Chance, seed: string) {
  let server: Served | undefined
  let worker: ConcordProcess | undefined
  let batch = 0

  /** Everything at once; a server that dies meanwhile leaves its callers without an answer, and they ask again later. */
  async function ask(to: Served, targets: readonly PathPoint[]): Promise<void> {
    const round = `${seed}-${++batch}`
    const asks = targets.map(({ story }, n) => people.ask(to, story, story === 'crowd' ? CROWD : MAIN, `${round}-${n}`))
    await Promise.all([...asks, people.ask(to, chance.pick(fillers), OTHERS, `${round}-x`)])
  }

  /** True when it died by itself. */
  async function dies(victim: ConcordProcess): Promise<boolean> {
    const late = sleep(PATIENCE_MS, 'late' as const)
    const first = await Promise.race([victim.ended, late])
    if (first !== 'late') return first.signal === 'SIGKILL'
    await kill(victim)
    return false
  }

  async function serve(works: boolean, target?: PathPoint): Promise<Served> {
    if (server) await kill(server)
    server = undefined
    server = await house.serve({ works, ...(target ? { plan: planOf(target, chance) } : {}) })
    await house.answerer()
    people.face(server)
    return server
  }

  async function tryBoth(request: PathPoint | undefined, turn: PathPoint | undefined) {
    worker = house.work(turn ? { plan: planOf(turn, chance) } : {})
    const victim = worker
    const current = request || !server ? await serve(false, request) : server
    const targets = [request, turn].filter((target) => target !== undefined)
    const asking = ask(current, targets)
    const serverEnd = request ? dies(current) : Promise.resolve(false)
    const workerEnd = turn ? dies(victim) : Promise.resolve(false)
    const isWorkerDead = await workerEnd
    // What the server still waits for may need somebody who brings the commands there.
    if (request && turn && current.child.signalCode === null) worker = house.work()
    const isServerDead = await serverEnd
    if (request) {
      people.face(undefined)
      server = undefined
    }
    if (request || !turn) await kill(worker)
    worker = undefined
    await asking
    return { isServerDead, isWorkerDead }
  }

  return {
    async killBoth(request: PathPoint | undefined, turn: PathPoint | undefined) {
      const done: Kill[] = []
      let [left, right] = [request, turn]
      for (let tries = 0; tries < TRIES_MAX && (left || right); tries++) {
        const { isServerDead, isWorkerDead } = await tryBoth(left, right)
        if (left && isServerDead) {
          done.push({ role: 'server', target: left })
          left = undefined
        }
        if (right && isWorkerDead) {
          done.push({ role: 'worker', target: right })
          right = undefined
        }
      }
      return done
    },
    async killWorkingServer(target: PathPoint): Promise<readonly Kill[]> {
      for (let tries = 0; tries < TRIES_MAX; tries++) {
        // What earlier kills left is enough for some points: then it dies before it has said that it is ready.
        const current = await serve(true, target).catch(() => undefined)
        const asking = current && ask(current, [target])
        const isDead = current === undefined || (await dies(current))
        people.face(undefined)
        server = undefined
        await asking
        if (isDead) return [{ role: 'server', target }]
      }
      return []
    },
    /** No more faults: a server and a worker as in daily life, until everything rests. */
    async calm() {
      const current = await serve(true)
      worker = house.work()
      await people.askAgain(current)
      await waitForRest(house)
    },
    async close() {
      for (const running of [server, worker]) {
        running?.child.kill('SIGTERM')
        await running?.ended
      }
    },
  }
}
