/** Where the kills happen: one server and one worker at a time, each with a plan of its death, and people who keep submitting. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Chance } from '#test/chance'
import type { ConcordProcess, Served } from '#test/concord-process'
import type { PlannedFault } from '#test/fault-plan'
import { type Installation, kill } from './installation.ts'
import { waitForRest } from './judge.ts'
import type { People, Story } from './people.ts'
import { type Kill, type PathPoint, type PointGroup, TOGETHER } from './path-points.ts'

export type KillSite = {
  /** A server without turns dies during requests, a worker during turns; either group may be empty. */
  killBoth(requests: PointGroup, turns: PointGroup): Promise<readonly Kill[]>
  /** A server that also works dies during turns. */
  killWorkingServer(turns: PointGroup): Promise<readonly Kill[]>
  /** Without faults: a server and a worker run until everything has ended. */
  calm(): Promise<void>
  close(): Promise<void>
}

export type KillSiteOptions = {
  readonly installation: Installation
  readonly people: People
  readonly chance: Chance
  readonly seed: string
}

/** In addition to the commands at a point, these are elsewhere when it happens. */
const MORE = 5
const IN_FLIGHT_MIN = 20
/** More than the slots of a worker: the others are overdue before their turn starts. */
const CROWD = 44
/** A process that does not reach its points by then is stopped; the round is void and is repeated. */
const PATIENCE_MS = 90_000
const TRIES_MAX = 3
const fillers: readonly Story[] = ['pay', 'inline', 'agreed', 'told', 'again', 'chain', 'doubt']

export function openKillSite({ installation, people, chance, seed }: KillSiteOptions): KillSite {
  let server: Served | undefined
  let worker: ConcordProcess | undefined
  let batch = 0

  function planOf({ point, isBatch }: PathPoint): PlannedFault {
    // One of the first flushes of a lane; a starting process runs one turn to prove itself.
    const hit = point.startsWith('lane.') ? 1 + chance.whole(6) : point.startsWith('runtime.turn_') ? 2 : 1
    return { point, hit, act: 'kill', together: isBatch ? 1 : TOGETHER }
  }
  const planned = (group: PointGroup) => (group.length === 0 ? {} : { plan: group.map(planOf) })

  /** All requests at once; the callers of a dying server get no answer and retry later. */
  async function ask(to: Served, targets: readonly PathPoint[]): Promise<void> {
    const round = `${seed}-${++batch}`
    const counts = new Map<Story, number>([[chance.pick(fillers), MORE]])
    for (const { story } of targets) {
      counts.set(story, story === 'crowd' ? CROWD : (counts.get(story) ?? MORE) + TOGETHER)
    }
    const total = [...counts.values()].reduce((sum, count) => sum + count, 0)
    if (total < IN_FLIGHT_MIN) counts.set('steady', IN_FLIGHT_MIN - total)
    await Promise.all([...counts].map(([story, count]) => people.ask(to, story, count, round)))
  }

  /** True when it died by itself. */
  async function dies(victim: ConcordProcess): Promise<boolean> {
    const late = sleep(PATIENCE_MS, 'late' as const, { ref: false })
    const first = await Promise.race([victim.ended, late])
    if (first !== 'late') return first.signal === 'SIGKILL'
    await kill(victim)
    return false
  }

  async function serve(works: boolean, group: PointGroup): Promise<Served> {
    if (server) await kill(server)
    server = undefined
    server = await installation.serve({ works, ...planned(group) })
    await installation.answerer()
    people.face(server)
    return server
  }

  function leaveServer(): void {
    people.face(undefined)
    server = undefined
  }

  async function tryBoth(requests: PointGroup, turns: PointGroup) {
    const [hasRequests, hasTurns] = [requests.length > 0, turns.length > 0]
    worker = installation.work(planned(turns))
    const victim = worker
    const current = hasRequests || !server ? await serve(false, requests) : server
    const asking = ask(current, [...requests, ...turns])
    const serverEnd = hasRequests ? dies(current) : Promise.resolve(false)
    const isWorkerDead = hasTurns && (await dies(victim))
    // A worker brings the commands to the points of the server.
    if (hasRequests && hasTurns && current.child.signalCode === null) worker = installation.work()
    const isServerDead = await serverEnd
    if (hasRequests) leaveServer()
    await kill(worker)
    worker = undefined
    await asking
    return { isServerDead, isWorkerDead }
  }

  return {
    async killBoth(requests, turns) {
      const kills: Kill[] = []
      let [left, right] = [requests, turns]
      for (let tries = 0; tries < TRIES_MAX && left.length + right.length > 0; tries++) {
        const { isServerDead, isWorkerDead } = await tryBoth(left, right)
        if (isServerDead) kills.push({ role: 'server', group: left })
        if (isWorkerDead) kills.push({ role: 'worker', group: right })
        if (isServerDead) left = []
        if (isWorkerDead) right = []
      }
      return kills
    },
    async killWorkingServer(turns) {
      for (let tries = 0; tries < TRIES_MAX; tries++) {
        // The backlog of earlier kills is enough for some points: the process then dies before it is ready.
        const current = await serve(true, turns).catch(() => undefined)
        const asking = current && ask(current, turns)
        const isDead = current === undefined || (await dies(current))
        leaveServer()
        await asking
        if (isDead) return [{ role: 'server', group: turns }]
      }
      return []
    },
    async calm() {
      const current = await serve(true, [])
      worker = installation.work()
      await people.askAgain(current)
      await waitForRest(installation)
    },
    async close() {
      for (const running of [server, worker]) {
        running?.child.kill('SIGTERM')
        await running?.ended
      }
    },
  }
}
