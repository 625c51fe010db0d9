/**
 * Random missions on a server, two workers of the installation and outside workers: kills with -9 at named points and at random moments, a freeze, lost wakes,
 * pauses, cancels and forks. Then the end of every mission is compared with a naive model, and the rows with the book of the provider.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeId } from '#kernel/ids'
import { type Chance, openChance } from '#test/chance'
import type { ConcordProcess, Served } from '#test/concord-process'
import type { FailpointName } from '#test/fault-plan'
import { until } from '#test/until'
import { isFrozen } from './frozen.ts'
import { type Installation, kill, openInstallation } from './installation.ts'
import { resumeStuck, type Verdict } from './judge.ts'
import { type Asked, judgeMissions, openCommands } from './judge-missions.ts'
import { aKillPlan, configOf, planBody } from './mission-plans.ts'
import { openOutsideWorkers } from './outside-workers.ts'

/** A turn of a mission passes these in a worker. */
export const missionPoints = [
  'missions.gate_submitted',
  'missions.attempts_submitted',
  'missions.attempts_retried',
  'missions.batch_written',
  'missions.attempts_begun',
  'missions.ended',
] as const satisfies readonly FailpointName[]
/** The server passes it in a claim of an outside worker. */
const CLAIM = 'missions.claim_written'
/** A worker passes it when wakes were lost. */
const STALL = 'missions.stall_found'
export const everyMissionPoint: readonly FailpointName[] = [...missionPoints, CLAIM, STALL]

export type MissionKillReport = Pick<Verdict, 'lost' | 'doubled' | 'phantom' | 'broken'> & {
  readonly kills: number
  readonly missions: number
  readonly tasks: number
  readonly payments: number
  /** Missions that a person cancelled, and that had not ended before. */
  readonly cancelled: number
  readonly forks: number
  /** Forks that named nothing, and were refused because something stood. */
  readonly refusedForks: number
  /** Payments that a fork repeated because its request names them. */
  readonly refired: number
  /** Tasks that a fork took over. */
  readonly carried: number
  /** Tasks with more than one attempt. */
  readonly retried: number
  /** Tasks that outside workers completed. */
  readonly worked: number
  /** Outputs that people decided about. */
  readonly reviewed: number
  readonly reports: number
  /** Not as the model says. */
  readonly differing: readonly string[]
  /** Commands that have not ended. */
  readonly restless: readonly string[]
  /** Missions with a write by the frozen worker after others had ended them. */
  readonly stale: readonly string[]
}

export type MissionKillPlan = {
  readonly seed: string
  readonly missions: number
  readonly tasksMax: number
  /** Missions that have not ended, while there are new ones. */
  readonly inFlight: number
  /** A process is killed for each group, with so many missions at each of its points. */
  readonly points: readonly (readonly FailpointName[])[]
  readonly together: number
  /** How often each group is killed. */
  readonly each: number
  /** Kills at random moments. */
  readonly kills: number
  readonly onKill?: (done: number) => void
}

/** Longer than a few batches take, so that kills fall on every part of a mission. */
const LIFE_MS = 2_500
const FORKS = 6
/** Generous: missions that do not move for so long are a finding, not a slow machine. */
const PATIENCE_MS = 300_000
const TASK_MS = 60
const PEACEFUL_EVERY = 3

/** Before one mission ends, the tasks of all that are open may have to. */
const patienceOf = ({ inFlight, tasksMax }: MissionKillPlan) => PATIENCE_MS + inFlight * tasksMax * TASK_MS

export async function killMissions(plan: MissionKillPlan): Promise<MissionKillReport> {
  const chance = openChance(plan.seed)
  const installation = await openInstallation({ seed: plan.seed })
  const asked: Asked[] = []
  const running = new Set<ConcordProcess>()
  let done = 0
  const track = <P extends ConcordProcess>(one: P) => {
    running.add(one)
    return one
  }
  let server = track(await installation.serve({ works: false }))
  const outside = await openOutsideWorkers(installation)
  outside.hire(server)
  const isOver = () => asked.length >= plan.missions
  /** A mission whose request got no answer is asked for again with its key. */
  const ask = async (more: number) => {
    for (let left = more; left > 0; left--) {
      const nth = asked.length
      const isPeaceful = nth % PEACEFUL_EVERY === 1
      const tasks = aKillPlan(chance, plan.tasksMax, isPeaceful)
      asked.push({ key: `${plan.seed}-${nth}`, plan: tasks, nth, isPeaceful, id: undefined, isCancelled: false })
    }
    for (const mission of asked) mission.id ??= await create(installation, server, mission)
  }
  /** As many new missions as have ended. */
  const fill = async (limit = plan.missions - asked.length) => {
    await review(installation, server)
    const room = plan.inFlight - (await countOpen(installation))
    await ask(Math.min(room, limit))
  }
  const noteKill = () => (plan.onKill ?? (() => {}))(++done)
  const mustDie = async (victim: ConcordProcess, group: readonly FailpointName[]) => {
    if (!(await dies(victim, patienceOf(plan)))) throw new Error(`No process reached ${group.join(', ')}.`)
    noteKill()
  }
  const killAt = async (group: readonly FailpointName[]) => {
    // Each point needs missions that are on their way to it.
    await fill(plan.inFlight)
    const faults = group.map((point) => ({ point, hit: 1, act: 'kill' as const, together: plan.together }))
    if (group.includes(CLAIM)) {
      await outside.end()
      await kill(server)
      server = track(await installation.serve({ works: false, plan: faults }))
      outside.hire(server)
      const worker = track(installation.work())
      await mustDie(server, group)
      server = track(await installation.serve({ works: false }))
      await kill(worker)
      return
    }
    if (group.includes(STALL)) {
      await loseWakes(installation)
      // One loop passes it, so it cannot be held for several missions.
      await mustDie(track(installation.work({ plan: [{ point: STALL, hit: 1, act: 'kill' }] })), group)
      return
    }
    await mustDie(track(installation.work({ plan: faults })), group)
  }
  const settled = (isSo: () => Promise<boolean>) =>
    waitUntil(installation, async () => {
      await review(installation, server)
      return isSo()
    })
  const rest = () => settled(async () => (await installation.db.query(`${openCommands} limit 1`)).length === 0)
  try {
    for (let nth = 0; nth < plan.each; nth++) for (const group of plan.points) await killAt(group)
    for (let nth = 0; nth < plan.kills; nth++) {
      const [one, other] = [track(installation.work()), track(installation.work())]
      await fill()
      await disturb(installation, server, asked, chance)
      await sleep(chance.whole(LIFE_MS))
      const victim = chance.pick([one, other, server, outside])
      if (victim === outside) await outside.end()
      else await kill(victim as ConcordProcess)
      if (victim === server) server = track(await installation.serve({ works: false }))
      if (victim === outside) outside.hire(server)
      noteKill()
      await Promise.all([one, other].map(kill))
    }
    while (!isOver()) {
      await fill()
      const worker = track(installation.work())
      await settled(async () => (await countOpen(installation)) < plan.inFlight / 2)
      await kill(worker)
    }
    const refusedForks = await fork({ installation, server, asked, chance, track, rest })
    const stale = await freeze({ installation, ask: () => ask(2), track, rest })
    return { kills: done, stale, refusedForks, ...(await judgeMissions(installation, asked, await outside.began())) }
  } finally {
    await outside.end()
    for (const one of running) {
      one.child.kill('SIGCONT')
      one.child.kill('SIGTERM')
      await one.ended
    }
    await installation.close()
  }
}

/** The turns that running missions were promised are gone, as after the loss of the tables of the runtime. Nothing works meanwhile. */
async function loseWakes({ db }: Installation): Promise<void> {
  const lost = `select r.id from missions.orchestration_runs as r where r.state = 'running'`
  await db.transaction(async (tx) => {
    await tx.query(
      `delete from runtime.processes where kind = 'mission' and id in (select l.id::text from (${lost}) as l)`,
    )
    await tx.query(`update missions.orchestration_runs set run_after = null where id in (${lost})`)
  })
}

type Answer = {
  readonly code?: string
  readonly mission_id?: string
  readonly facts?: { readonly effects?: readonly { readonly task: string }[] }
}

async function send(installation: Installation, server: Served, path: string, body: object) {
  const answer = await fetch(`${server.address}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${await installation.asker()}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  }).catch(() => undefined)
  return {
    status: answer?.status,
    body: (await answer?.json().catch(() => undefined)) as Answer | undefined,
  }
}

async function create(
  installation: Installation,
  server: Served,
  { key, plan, nth }: Asked,
): Promise<string | undefined> {
  const asked = { goal: key, plan: planBody(plan), config: configOf(nth), idempotency_key: key }
  const { status, body } = await send(installation, server, '/missions', asked)
  if (status !== undefined && status >= 400 && status < 500)
    throw new Error(`The mission was refused: ${JSON.stringify(body)}`)
  return body?.mission_id
}

/** A person accepts every output about which people are asked. */
async function review(installation: Installation, server: Served): Promise<void> {
  const waiting = await installation.db.query<{ id: string; run_id: string }>(
    `select t.id, t.run_id from missions.orchestration_tasks as t
where t.state = 'awaiting_human' and exists (select from concord.approvals as a where a.command_id = t.review_command_id and a.decided_at is null) limit 100`,
  )
  for (const { id, run_id } of waiting) {
    const path = `/missions/${encodeId('mission', run_id)}/tasks/${encodeId('mission_task', id)}/approve`
    await send(installation, server, path, { reason: 'It was paid.' })
  }
}

/** People pause and resume one mission, and cancel another. Whether they come too late is not known here. */
async function disturb(
  installation: Installation,
  server: Served,
  asked: readonly Asked[],
  chance: Chance,
): Promise<void> {
  const recent = asked.slice(-12).filter(({ isPeaceful }) => !isPeaceful)
  const [paused, stopped] = [chance.pick(recent), chance.pick(recent)]
  await send(installation, server, `/missions/${paused.id}/pause`, { reason: 'wait' })
  await sleep(chance.whole(200))
  await send(installation, server, `/missions/${paused.id}/resume`, {})
  stopped.isCancelled = true
  await send(installation, server, `/missions/${stopped.id}/cancel`, { reason: 'stopped' })
}

type Story = {
  readonly installation: Installation
  readonly track: (one: ConcordProcess) => ConcordProcess
  /** All work has ended. */
  readonly rest: () => Promise<void>
}

/**
 * Some missions run again from one of their tasks on. A worker dies in between. Half of the forks name nothing: they take over what stands, or are refused.
 * Returns how many were refused.
 */
async function fork({
  installation,
  server,
  asked,
  chance,
  track,
  rest,
}: Story & { readonly server: Served; readonly asked: Asked[]; readonly chance: Chance }): Promise<number> {
  const first = track(installation.work())
  await rest()
  let refused = 0
  for (const origin of asked.slice(0, FORKS)) {
    const { id, plan, nth, isPeaceful } = origin
    const from = `t${isPeaceful ? plan.length - 1 : chance.whole(plan.length)}`
    const path = `/missions/${id}/fork`
    const bare = isPeaceful || nth % 2 === 0
    const before = await countRuns(installation)
    const unnamed = bare ? await send(installation, server, path, { from, config: configOf(nth) }) : undefined
    const isRefused = unnamed?.body?.code === 'missions.fork.effects_stand'
    if (isRefused) {
      refused += 1
      if ((await countRuns(installation)) !== before) throw new Error('A fork that was refused has a mission.')
      continue
    }
    const forked = unnamed ? unnamed.body?.mission_id : await sendFork(installation, server, path, { from, nth }, [])
    if (forked === undefined) throw new Error(`The fork was refused: ${JSON.stringify(unnamed?.body)}`)
    asked.push({ ...origin, key: `${origin.key} from ${from}`, id: forked, isCancelled: false })
  }
  await sleep(chance.whole(LIFE_MS))
  await kill(first)
  const second = track(installation.work())
  await rest()
  await kill(second)
  return refused
}

/** What stands is named after it was refused, a page at a time. */
async function sendFork(
  installation: Installation,
  server: Served,
  path: string,
  { from, nth }: { readonly from: string; readonly nth: number },
  refire: readonly string[],
): Promise<string | undefined> {
  const { status, body } = await send(installation, server, path, { from, refire, config: configOf(nth) })
  const standing = body?.facts?.effects?.map(({ task }) => task) ?? []
  if (status === 409 && standing.length > 0)
    return sendFork(installation, server, path, { from, nth }, [...new Set([...refire, ...standing])])
  if (body?.mission_id === undefined) throw new Error(`The fork was refused: ${JSON.stringify(body)}`)
  return body.mission_id
}

/** A worker freezes between its submits and their record. Others end everything; then it thaws, and may change nothing of that. */
async function freeze({
  installation,
  ask,
  track,
  rest,
}: Story & { readonly ask: () => Promise<void> }): Promise<readonly string[]> {
  await ask()
  const frozen = track(installation.work({ plan: [{ point: 'missions.attempts_submitted', hit: 1, act: 'freeze' }] }))
  await until(() => isFrozen(frozen), 'a worker that freezes')
  const heir = track(installation.work())
  await rest()
  const before = await eventsOf(installation)
  await kill(heir)
  frozen.child.kill('SIGCONT')
  // The thawed worker is the only one, and works again.
  await ask()
  await rest()
  const after = await eventsOf(installation)
  return [...before].flatMap(([id, count]) => (after.get(id) === count ? [] : [id]))
}

async function dies(victim: ConcordProcess, patienceMs: number): Promise<boolean> {
  const first = await Promise.race([victim.ended, sleep(patienceMs, undefined, { ref: false })])
  return first?.signal === 'SIGKILL'
}

async function countOpen({ db }: Installation): Promise<number> {
  const [row] = await db.query<{ open: number }>(
    `select count(*)::int as open from missions.orchestration_runs where completed_at is null`,
  )
  return row?.open ?? 0
}

async function countRuns({ db }: Installation): Promise<number> {
  const [row] = await db.query<{ n: number }>('select count(*)::int as n from missions.orchestration_runs')
  return row?.n ?? 0
}

/** Gives up when no mission has moved for a long time. */
async function waitUntil(installation: Installation, isSo: () => Promise<boolean>): Promise<void> {
  let moves = -1
  for (let giveUpAt = performance.now() + PATIENCE_MS; performance.now() < giveUpAt; ) {
    const movesNow = await countMoves(installation)
    if (movesNow !== moves) giveUpAt = performance.now() + PATIENCE_MS
    moves = movesNow
    if (await isSo()) return
    await resumeStuck(installation)
    await sleep(100)
  }
  const open = await installation.db.query(
    `select c.task_name, c.status, p.state, p.why, r.state as mission, q.state as process, q.why as stuck, count(*)::int
from concord.commands as c left join runtime.processes as p on p.id = c.command_id::text
  left join missions.orchestration_runs as r on r.command_id = c.command_id left join runtime.processes as q on q.id = r.id::text
where c.completed_at is null group by 1, 2, 3, 4, 5, 6, 7 limit 20`,
  )
  throw new Error(`The work does not end: ${JSON.stringify(open)}`)
}

async function countMoves({ db }: Installation): Promise<number> {
  const [row] = await db.query<{ last: string }>(
    `select coalesce(max(id), 0) as last from missions.orchestration_events`,
  )
  return Number(row?.last ?? 0)
}

async function eventsOf({ db }: Installation): Promise<ReadonlyMap<string, number>> {
  const rows = await db.query<{ id: string; count: number }>(
    `select run_id as id, count(*)::int as count from missions.orchestration_events group by 1`,
  )
  return new Map(rows.map(({ id, count }) => [id, count]))
}
