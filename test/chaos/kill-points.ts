/**
 * Kills the server or a worker with -9 exactly at the failpoints of the path of a command. At least twenty commands are in flight
 * and eight of them are at each point of the plan, on one database for all kills. Then the faults end, and the judge compares the
 * answers, the payments and the records.
 */
import { openChance } from '#test/chance'
import { openInstallation } from './installation.ts'
import { judge, type Verdict } from './judge.ts'
import { openKillSite } from './kill-site.ts'
import { invitePeople, type Story } from './people.ts'
import {
  type Kill,
  type PathPoint,
  type PointGroup,
  requestGroups,
  type Role,
  inProcessGroups,
  TOGETHER,
  turnGroups,
} from './path-points.ts'

export type PointsReport = Verdict & {
  readonly kills: number
  /** Commands at the point when the process ended, by role and point. */
  readonly cut: Readonly<Record<string, number>>
  /** Points with too few kills. */
  readonly missed: readonly string[]
}

export type PointsPlan = {
  /** How often each role is killed at each of its points, with eight commands or one batch each time. */
  readonly rounds: number
  readonly seed: string
  readonly only?: readonly string[]
  readonly stories?: readonly Story[]
  readonly onKill?: (kills: readonly Kill[]) => void
}

const TRIES_MAX = 3

export async function killAtPoints({
  rounds,
  seed,
  only,
  stories,
  onKill = () => {},
}: PointsPlan): Promise<PointsReport> {
  const chance = openChance(seed)
  const installation = await openInstallation({ seed })
  const people = invitePeople(installation, chance.split('people'))
  const site = openKillSite({ installation, people, chance, seed })
  const isWanted = ({ point, story }: PathPoint) =>
    (only === undefined || only.includes(point)) && (stories === undefined || stories.includes(story))
  const pick = (groups: readonly PointGroup[]) =>
    groups.map((group) => group.filter(isWanted)).filter(({ length }) => length > 0)
  const [requests, turns, inProcess] = [pick(requestGroups), pick(turnGroups), pick(inProcessGroups)]
  const kills: Kill[] = []
  const note = (more: readonly Kill[]) => {
    kills.push(...more)
    onKill(kills)
  }
  const count = async () => {
    const cut = countCuts(await installation.cover(), kills)
    return { cut, missed: listMissed([...requests, ...turns, ...inProcess].flat(), cut, rounds) }
  }
  try {
    for (let round = 0; round < rounds; round++) {
      // First, with an empty queue: behind a backlog new commands are queued and none begins in-process.
      for (const group of inProcess) note(await site.killWorkingServer(group))
      // The server runs no turns here, so the worker has all of them.
      for (const group of requests) note(await site.killBoth(group, []))
      for (const group of turns) note(await site.killBoth([], group))
      for (const group of turns) note(await site.killWorkingServer(group))
    }
    // A point that a busy machine did not reach in time gets another try.
    for (let tries = 1; tries < TRIES_MAX; tries++) {
      for (const { role, target } of (await count()).missed) {
        const isRequest = target.where === 'request'
        if (role === 'worker') note(await site.killBoth([], [target]))
        else note(isRequest ? await site.killBoth([target], []) : await site.killWorkingServer([target]))
      }
    }
    await site.calm()
    const { cut, missed } = await count()
    return {
      kills: kills.length,
      cut,
      missed: missed.map(({ words }) => words),
      ...(await judge(installation, people.history)),
    }
  } finally {
    await site.close()
    await people.leave()
    await installation.close()
  }
}

type Missed = { readonly role: Role; readonly target: PathPoint; readonly words: string }

function listMissed(targets: readonly PathPoint[], cut: PointsReport['cut'], rounds: number): readonly Missed[] {
  return targets.flatMap((target) => {
    const { point, where, isBatch } = target
    const roles: readonly Role[] = where === 'turn' ? ['server', 'worker'] : ['server']
    const enough = rounds * (isBatch ? 1 : TOGETHER)
    return roles.flatMap((role) => {
      const times = cut[`${role} ${point}`] ?? 0
      return times < enough ? [{ role, target, words: `${role} ${point}: ${times} of ${enough}` }] : []
    })
  })
}

/** Each killed process has written one line for each of its points, in the order of the kills at that point. */
function countCuts(cover: readonly string[], kills: readonly Kill[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  const lines = new Map<string, number[]>()
  for (const line of cover) {
    const [point = '', word, times] = line.split(' ')
    if (word === 'cut') lines.set(point, [...(lines.get(point) ?? []), Number(times)])
  }
  for (const { role, group } of kills) {
    for (const { point } of group) {
      const name = `${role} ${point}`
      counts[name] = (counts[name] ?? 0) + (lines.get(point)?.shift() ?? 0)
    }
  }
  return counts
}
