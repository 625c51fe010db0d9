/**
 * Random missions on a server and two workers: kills with -9 at named points and at random moments, a freeze, pauses and cancels. Then the end of every mission
 * is compared with a naive model, and the rows with the book of the provider.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { findBrokenInvariants } from '#domains/commands'
import { missionInvariants } from '#domains/missions'
import { encodeId } from '#kernel/ids'
import { triggerRules } from '#kernel/dag/readiness'
import { type Chance, openChance } from '#test/chance'
import type { ConcordProcess, Served } from '#test/concord-process'
import type { FailpointName } from '#test/fault-plan'
import { endsOf, missionEndOf, type ModelTask } from '#test/mission-model'
import { until } from '#test/until'
import { isFrozen } from './frozen.ts'
import { type Installation, kill, openInstallation } from './installation.ts'
import { compareBook, resumeStuck, type Verdict } from './judge.ts'

export const missionPoints = [
  'missions.gate_submitted',
  'missions.attempts_submitted',
  'missions.attempts_retried',
  'missions.batch_written',
  'missions.attempts_begun',
  'missions.ended',
] as const satisfies readonly FailpointName[]

export type MissionKillReport = Pick<Verdict, 'lost' | 'doubled' | 'phantom' | 'broken'> & {
  readonly kills: number
  readonly missions: number
  readonly tasks: number
  readonly payments: number
  /** Missions that a person cancelled, and that had not ended before. */
  readonly cancelled: number
  readonly forks: number
  /** Tasks that ran a second time for a reason of the infrastructure. */
  readonly retried: number
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
  /** A worker is killed for each group, with so many missions at each of its points. */
  readonly points: readonly (readonly FailpointName[])[]
  readonly together: number
  /** Kills at random moments. */
  readonly kills: number
  readonly onKill?: (done: number) => void
}

type Kind = 'Pay steadily' | 'Pay' | 'Pay after a break' | 'Pay in vain'
type Plan = readonly (ModelTask & { readonly kind: Kind })[]
type Asked = { readonly key: string; readonly plan: Plan; id: string | undefined; isCancelled: boolean }

/** Longer than a few batches take, so that kills fall on every part of a mission. */
const LIFE_MS = 2_500
const RETRY = { base_seconds: 0.1, cap_seconds: 1 }
const FORKS = 5
/** Generous: missions that do not move for so long are a finding, not a slow machine. */
const PATIENCE_MS = 300_000
const TASK_MS = 60

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
  const isOver = () => asked.length >= plan.missions
  /** A mission whose request got no answer is asked for again with its key. */
  const ask = async (more: number) => {
    for (let left = more; left > 0; left--) {
      const key = `${plan.seed}-${asked.length}`
      asked.push({ key, plan: aPlan(chance, plan.tasksMax), id: undefined, isCancelled: false })
    }
    for (const mission of asked) mission.id ??= await create(installation, server, mission)
  }
  /** As many new missions as have ended. */
  const fill = async () => {
    const room = plan.inFlight - (await countOpen(installation))
    await ask(Math.min(room, plan.missions - asked.length))
  }
  const noteKill = () => (plan.onKill ?? (() => {}))(++done)
  try {
    for (const group of plan.points) {
      await fill()
      const faults = group.map((point) => ({ point, hit: 1, act: 'kill' as const, together: plan.together }))
      if (!(await dies(track(installation.work({ plan: faults })), patienceOf(plan))))
        throw new Error(`The worker did not reach ${group.join(', ')}.`)
      noteKill()
    }
    for (let nth = 0; nth < plan.kills; nth++) {
      const [one, other] = [track(installation.work()), track(installation.work())]
      await fill()
      await disturb(installation, server, asked, chance)
      await sleep(chance.whole(LIFE_MS))
      const victim = chance.pick([one, other, server])
      await kill(victim)
      if (victim === server) server = track(await installation.serve({ works: false }))
      noteKill()
      await Promise.all([one, other].map(kill))
    }
    while (!isOver()) {
      await fill()
      const worker = track(installation.work())
      await waitUntil(installation, async () => (await countOpen(installation)) < plan.inFlight / 2)
      await kill(worker)
    }
    await fork(installation, server, asked, chance, track)
    const stale = await freeze(installation, () => ask(2), track)
    return { kills: done, stale, ...(await judge(installation, asked)) }
  } finally {
    for (const one of running) {
      one.child.kill('SIGCONT')
      one.child.kill('SIGTERM')
      await one.ended
    }
    await installation.close()
  }
}

function aPlan(chance: Chance, tasksMax: number): Plan {
  const kinds: readonly Kind[] = ['Pay steadily', 'Pay steadily', 'Pay', 'Pay after a break', 'Pay in vain']
  return Array.from({ length: 1 + chance.whole(tasksMax) }, (_, n) => {
    const kind = chance.pick(kinds)
    const before = Array.from({ length: Math.min(n, chance.whole(4)) }, () => Math.max(0, n - 1 - chance.whole(12)))
    return {
      kind,
      isFailing: kind === 'Pay in vain',
      rule: chance.pick([...triggerRules, 'all_success' as const, 'all_done' as const]),
      upstream: [...new Set(before)],
    }
  })
}

type Answer = {
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
  { key, plan: tasks }: Asked,
): Promise<string | undefined> {
  const plan = {
    version: 1,
    strategy: 'mixed',
    estimated_cost: '0',
    tasks: tasks.map(({ kind, rule, upstream }, at) => ({
      temp_id: `t${at}`,
      title: `t${at}`,
      task_type: 'other',
      depends_on: upstream.map((to) => `t${to}`),
      trigger_rule: rule,
      run: { task: kind, payload: { note: `t${at}` } },
    })),
  }
  const config = { autonomy: 'full_auto', retry: RETRY }
  const { status, body } = await send(installation, server, '/missions', {
    goal: key,
    plan,
    config,
    idempotency_key: key,
  })
  if (status !== undefined && status >= 400 && status < 500)
    throw new Error(`The mission was refused: ${JSON.stringify(body)}`)
  return body?.mission_id
}

/** People pause and resume one mission, and cancel another. Whether they come too late is not known here. */
async function disturb(
  installation: Installation,
  server: Served,
  asked: readonly Asked[],
  chance: Chance,
): Promise<void> {
  const recent = asked.slice(-8)
  const [paused, stopped] = [chance.pick(recent), chance.pick(recent)]
  await send(installation, server, `/missions/${paused.id}/pause`, { reason: 'wait' })
  await sleep(chance.whole(200))
  await send(installation, server, `/missions/${paused.id}/resume`, {})
  stopped.isCancelled = true
  await send(installation, server, `/missions/${stopped.id}/cancel`, { reason: 'stopped' })
}

/** Some missions run again from one of their tasks on. A worker dies in between. */
async function fork(
  installation: Installation,
  server: Served,
  asked: Asked[],
  chance: Chance,
  track: (one: ConcordProcess) => ConcordProcess,
): Promise<void> {
  const first = track(installation.work())
  await waitForEnd(installation)
  const origins = asked.slice(0, FORKS)
  for (const { id: origin, key, plan } of origins) {
    const from = `t${chance.whole(plan.length)}`
    const id = await sendFork(installation, server, `/missions/${origin}/fork`, from, [])
    asked.push({ key: `${key} from ${from}`, plan, id, isCancelled: false })
  }
  await sleep(chance.whole(LIFE_MS))
  await kill(first)
  const second = track(installation.work())
  await waitForEnd(installation)
  await kill(second)
}

/** What stands is named after it was refused, a page at a time. */
async function sendFork(
  installation: Installation,
  server: Served,
  path: string,
  from: string,
  refire: readonly string[],
): Promise<string | undefined> {
  const config = { autonomy: 'full_auto', retry: RETRY }
  const { status, body } = await send(installation, server, path, { from, refire, config })
  const standing = body?.facts?.effects?.map(({ task }) => task) ?? []
  if (status === 409 && standing.length > 0)
    return sendFork(installation, server, path, from, [...new Set([...refire, ...standing])])
  if (body?.mission_id === undefined) throw new Error(`The fork was refused: ${JSON.stringify(body)}`)
  return body.mission_id
}

/** A worker freezes between its submits and their record. Others end everything; then it thaws, and may change nothing of that. */
async function freeze(
  installation: Installation,
  ask: () => Promise<void>,
  track: (one: ConcordProcess) => ConcordProcess,
): Promise<readonly string[]> {
  await ask()
  const frozen = track(installation.work({ plan: [{ point: 'missions.attempts_submitted', hit: 1, act: 'freeze' }] }))
  await until(() => isFrozen(frozen), 'a worker that freezes')
  const heir = track(installation.work())
  await waitForEnd(installation)
  const before = await eventsOf(installation)
  await kill(heir)
  frozen.child.kill('SIGCONT')
  // The thawed worker is the only one, and works again.
  await ask()
  await waitForEnd(installation)
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

const openCommands = `select command_id as id from concord.commands where completed_at is null`

/** Missions end before their commands do, so the commands decide. */
const waitForEnd = (installation: Installation) =>
  waitUntil(installation, async () => (await installation.db.query(`${openCommands} limit 1`)).length === 0)

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

type Row = {
  readonly id: string
  readonly goal: string
  readonly forked_from_id: string | null
  readonly state: string
  readonly ends: readonly string[]
  readonly errors: string | null
  readonly retried: number
  readonly started: number
  readonly attempts: number
  readonly cards: number
}

async function judge(installation: Installation, asked: readonly Asked[]) {
  const { db } = installation
  const book = await installation.provider.book()
  const rows = await db.query<Row>(
    `select r.id, r.goal, r.forked_from_id, r.state, array_agg(t.state::text order by t.sequence_number) as ends,
  string_agg(t.title || ' ' || (t.spec->'run'->>'task') || ' ' || t.attempt_number || ': ' || t.error_message, '; ') as errors,
  (count(*) filter (where t.attempt_number > 1))::int as retried, sum(t.attempt_number) filter (where t.started_at is not null and t.carried_from_id is null)::int as attempts,
  (select count(*)::int from missions.orchestration_events as e where e.run_id = r.id and e.event_type = 'task_started') as started,
  (select count(*)::int from missions.board_tasks as b join missions.orchestration_tasks as o on o.board_task_id = b.id
    where o.run_id = r.id and b.status = 'done') as cards
from missions.orchestration_runs as r left join missions.orchestration_tasks as t on t.run_id = r.id group by r.id`,
  )
  const byId = new Map(rows.map((row) => [encodeId('mission', row.id), row]))
  const differing = asked.flatMap(({ key, id, plan, isCancelled }) => {
    const row = byId.get(id ?? '')
    if (isCancelled && row?.state === 'cancelled') return []
    const ends = endsOf(plan)
    const usual = [missionEndOf(plan, ends), ...ends, ends.length].join(' ')
    const seen = row && [row.state, ...row.ends, row.cards].join(' ')
    return seen === usual ? [] : [`${key}: ${seen} instead of ${usual}; ${row?.errors}`]
  })
  const twice = rows.filter(({ started, attempts }) => started !== (attempts ?? 0))
  const broken = await findBrokenInvariants(db, undefined, missionInvariants)
  return {
    missions: rows.length,
    tasks: rows.reduce((sum, { ends }) => sum + ends.length, 0),
    payments: Object.keys(book.paid).length,
    cancelled: rows.filter(({ state }) => state === 'cancelled').length,
    forks: rows.filter(({ forked_from_id }) => forked_from_id !== null).length,
    retried: rows.reduce((sum, row) => sum + row.retried, 0),
    ...(await compareBook(installation, book)),
    differing: [
      ...differing,
      ...twice.map(({ goal, started, attempts }) => `${goal}: ${attempts} attempts, started ${started} times`),
    ],
    restless: (await db.query<{ id: string }>(openCommands)).map(({ id }) => id),
    broken: broken.map(({ code, name, count, examples }) => `${code} ${name}: ${count}, ${examples[0] ?? ''}`),
  }
}
