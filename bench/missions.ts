/**
 * Missions of tasks that do nothing: what a completion costs in plans of 50 and of 10,000 tasks; a mission of 10,000 tasks compared with the
 * same commands without a mission and with the children of one DBOS workflow; and the time from the end of a task to the start of the next, with
 * 500 missions of 20 tasks at work.
 *
 * Every case runs to its end: a task that is ready and does not start, or has not ended, is a lost wake-up, and fails the bench.
 *
 * node bench/missions.ts [--tasks 10000] [--seconds 10] [--missions 500] [--shapes chain,fan-in,diamonds,random]
 */
import { loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { openLog } from '#app/log'
import { openWork } from '#app/open-work'
import { systemDeps } from '#app/system-deps'
import { actingFor, findBrokenInvariants, submitCommand } from '#domains/commands'
import { createMission, missionInvariants } from '#domains/missions'
import { statement, type Db } from '#store'
import { openChance } from '#test/chance'
import { noArtifacts } from '#test/no-artifacts'
import { accepted, aTenant, TRACE } from '#test/tenant'
import { readFlags } from '../scripts/read-flags.ts'
import { openBareDbos, serveBareDbos } from './harness/bare-dbos.ts'
import { median } from './harness/closed-loop.ts'
import { definitions } from './harness/command-bench.ts'
import { nodeCpuUs, postgresCpuUs } from './harness/cpu.ts'
import { openBenchServer } from './harness/server.ts'

const { values: options } = readFlags({
  options: {
    tasks: { type: 'string', default: '10000' },
    seconds: { type: 'string', default: '10' },
    missions: { type: 'string', default: '500' },
    shapes: { type: 'string', default: 'chain,fan-in,diamonds,random' },
    bare: { type: 'string' },
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
  },
})
type MissionPlan = Parameters<typeof createMission>[2]['plan']

const SMALL = 50
const LARGE = options.quick ? 500 : Number(options.tasks)
const SECONDS = options.quick ? 3 : Number(options.seconds)
const MISSIONS = options.quick ? 20 : Number(options.missions)
/** Tasks of one of the missions that run beside each other. */
const TASKS_EACH = 20
/** Commands without a mission, and children of a workflow, at the same time: as many as a mission has. */
const IN_FLIGHT = 256
const SLICE_MS = 250

/** The tasks before a task, by its number. */
const shapes: Readonly<Record<string, (n: number, tasks: number) => readonly number[]>> = {
  chain: (n) => (n === 0 ? [] : [n - 1]),
  // One task waits for all others.
  'fan-in': (n, tasks) => (n === tasks - 1 ? Array.from({ length: tasks - 1 }, (_, at) => at) : []),
  // One, then eight that wait for it, then one that waits for the eight.
  diamonds: (n) => {
    const place = n % 9
    const top = n - place
    if (place > 0) return [top]
    return n === 0 ? [] : Array.from({ length: 8 }, (_, at) => top - 8 + at)
  },
  random: (n) => {
    const chance = openChance(`random ${n}`)
    const before = Array.from({ length: Math.min(n, 3) }, () => Math.max(0, n - 1 - chance.whole(100)))
    return [...new Set(before)]
  },
}

function planOf(shape: string, tasks: number): MissionPlan {
  const before = shapes[shape]
  if (!before) throw new Error(`There is no shape ${shape}: ${Object.keys(shapes).join(', ')}.`)
  return {
    version: 1,
    strategy: 'mixed',
    estimated_cost: '0',
    tasks: Array.from({ length: tasks }, (_, n) => ({
      temp_id: `t${n}`,
      title: `t${n}`,
      task_type: 'other',
      depends_on: before(n, tasks).map((at) => `t${at}`),
      trigger_rule: 'all_success',
      run: { task: 'durable', payload: { subject: `t${n}`, note: '' } },
    })),
  }
}

const countDone = statement<{ readonly done: number; readonly open: number }>(
  'bench.count_done',
  `select coalesce(sum(tasks_completed), 0)::int as done, (count(*) filter (where completed_at is null))::int as open
from missions.orchestration_runs`,
)
/** Tasks that have not ended, and those of them that are ready and have not started. */
const countLost = statement<{ readonly open: number; readonly unstarted: number }>(
  'bench.count_lost',
  `select (count(*) filter (where t.state_type <> 'terminal'))::int as open,
  (count(*) filter (where t.state = 'queued' or (t.state = 'pending' and t.remaining = 0)))::int as unstarted
from missions.orchestration_tasks as t`,
)
const listGaps = statement<{ readonly ms: number }>(
  'bench.list_gaps',
  `select extract(epoch from t.started_at - max(c.completed_at)) * 1000::float8 as ms
from missions.orchestration_task_dependencies as d join missions.orchestration_tasks as t on t.id = d.task_id
  join missions.orchestration_tasks as u on u.id = d.depends_on_id join concord.commands as c on c.command_id = u.command_id
group by t.id, t.started_at`,
)

/** Each slice is the ms per completion in a quarter of a second. */
type Watched = { readonly slices: readonly number[]; readonly cpuUs: number; readonly done: number }

async function openMissionBench(db: Db) {
  const world = systemDeps()
  const tenant = await aTenant({ db, ...world })
  const workspaceId = tenant.workspace.id
  const work = accepted(
    await openWork(db, world, { catalog: definitions(() => {}) }, openLog('error'), {
      artifacts: noArtifacts(db, world),
      defaultWorkspace: workspaceId,
      works: true,
    }),
  )
  const by = actingFor(tenant.people.writer.principal, TRACE)
  const done = async () => (await db.run(countDone, []))[0] ?? { done: 0, open: 0 }
  const create = async (plan: MissionPlan) => {
    const config = { autonomy: 'full_auto' } as never
    const asked = { goal: 'bench', plan, config, workspaceId, requestId: 'req_bench' }
    accepted(await createMission({ commands: work.commands }, by, asked))
  }
  return {
    create,
    done,
    /** Creates missions and watches them from the first completion on, at most for some seconds. */
    async watch(plans: readonly MissionPlan[], forMs: number, cpuUs: () => number): Promise<Watched> {
      const begin = await done()
      for (const plan of plans) await create(plan)
      const slices: number[] = []
      let from: { readonly cpuUs: number; readonly done: number } | undefined
      for (let last = begin.done, at = performance.now(), end = Number.POSITIVE_INFINITY; ; ) {
        await pause(SLICE_MS)
        const now = await done()
        const passed = performance.now() - at
        at += passed
        if (from && now.done > last && now.open > 0) slices.push(passed / (now.done - last))
        if (now.done > begin.done) from ??= { cpuUs: cpuUs(), done: now.done }
        if (from) end = Math.min(end, at + forMs)
        last = now.done
        if (now.open === 0 || at >= end)
          return { slices, cpuUs: from ? cpuUs() - from.cpuUs : 0, done: from ? now.done - from.done : 0 }
      }
    },
    async command(n: number): Promise<void> {
      const asked = {
        workspaceId,
        taskName: 'durable',
        payload: { subject: `c${n}`, note: '' },
        requestId: `req_c${n}`,
      }
      accepted(await submitCommand(work.commands, by, { ...asked, ingress: 'user_request' }))
    },
    lost: async () => (await db.run(countLost, []))[0] ?? { open: 0, unstarted: 0 },
    broken: () => findBrokenInvariants(db, undefined, missionInvariants),
    close: () => work.close(),
  }
}

type MissionBench = Awaited<ReturnType<typeof openMissionBench>>

/** A database of its own for each case: what one leaves behind is no cost of the next. */
async function measure<T>(run: (bench: MissionBench, db: Db, cpuUs: () => number) => Promise<T>) {
  const server = await openBenchServer()
  const db = server.open({ poolMax: 10 })
  const bench = await openMissionBench(db)
  const cpu = () => nodeCpuUs() + (postgresCpuUs(server.pid) ?? Number.NaN)
  const before = { at: performance.now(), cpu: cpu() }
  const value = await run(bench, db, cpu)
  const spent = { ms: performance.now() - before.at, cpuUs: cpu() - before.cpu }
  await bench.close()
  await db.close()
  await server.stop()
  return { value, ...spent }
}

const say = (name: string, value: number, goal = '') =>
  console.log(`${value.toFixed(2).padStart(10)}  ${name}${goal === '' ? '' : ` (${goal})`}`)

async function compareSizes(shape: string): Promise<void> {
  // As many at the same time as the large plan has, so that the size alone differs.
  const beside = shape === 'chain' ? 1 : Math.ceil(IN_FLIGHT / SMALL)
  const small = await measure(async (bench, _, cpuUs) => {
    const watched: Watched[] = []
    for (const end = performance.now() + SECONDS * 1_000; performance.now() < end; ) {
      const plans = Array.from({ length: beside }, () => planOf(shape, SMALL))
      watched.push(await bench.watch(plans, SECONDS * 1_000, cpuUs))
    }
    return { watched, lost: await endAll(bench) }
  })
  const large = await measure(async (bench, _, cpuUs) => {
    const watched = await bench.watch([planOf(shape, LARGE)], SECONDS * 1_000, cpuUs)
    return { watched, lost: await endAll(bench) }
  })
  const sum = (pick: (each: Watched) => number) => small.value.watched.reduce((total, each) => total + pick(each), 0)
  const [few, many] = [median(small.value.watched.flatMap(({ slices }) => slices)), median(large.value.watched.slices)]
  const [fewCpu, manyCpu] = [
    sum(({ cpuUs }) => cpuUs) / sum(({ done }) => done),
    large.value.watched.cpuUs / large.value.watched.done,
  ]
  say(`${shape}: ms per completion, ${SMALL} tasks`, few)
  say(`${shape}: ms per completion, ${LARGE} tasks`, many)
  say(`${shape}: p50 of a completion, ${LARGE} ÷ ${SMALL} tasks`, many / few, '≤ 1.3')
  say(`${shape}: CPU of a completion, ${LARGE} ÷ ${SMALL} tasks`, manyCpu / fewCpu)
  sayLost(shape, small.value.lost + large.value.lost)
}

/** Generous: missions of which no task ends for so long have lost a wake-up. */
const QUIET_MS = 120_000

/** Waits for the end of every mission. Returns the lost wake-ups: tasks that have not ended when nothing moves any more, or that are ready after the end. */
async function endAll(bench: MissionBench): Promise<number> {
  for (let last = -1, quietAt = performance.now() + QUIET_MS; performance.now() < quietAt; ) {
    const { done, open } = await bench.done()
    if (open === 0) break
    if (done !== last) quietAt = performance.now() + QUIET_MS
    last = done
    await pause(SLICE_MS)
  }
  const { open, unstarted } = await bench.lost()
  if (open > 0) console.log(`${open} tasks have not ended, ${unstarted} of them are ready and have not started`)
  return open
}

function sayLost(name: string, lost: number): void {
  say(`${name}: lost wake-ups`, lost, '0')
  if (lost > 0) process.exitCode = 1
}

async function comparePeers(): Promise<void> {
  const plan = planOf('fan-in', LARGE)
  const mission = await measure(async (bench) => {
    await bench.create(plan)
    const lost = await endAll(bench)
    return { lost, broken: (await bench.broken()).length }
  })
  const commands = await measure(async (bench, db) => {
    let next = 0
    await Promise.all(
      Array.from({ length: 32 }, async () => {
        while (next < LARGE) await bench.command((next += 1))
      }),
    )
    for (;;) {
      const [row] = await db.query<{ open: number }>(
        `select count(*)::int as open from concord.commands where completed_at is null and command_type = 'durable'`,
      )
      if (row?.open === 0) return
      await pause(50)
    }
  })
  const server = await openBenchServer()
  const dbos = await openBareDbos(import.meta.filename, server.url)
  const childrenMs = await dbos.children(LARGE, IN_FLIGHT)
  dbos.end()
  await server.stop()
  const rate = (ms: number) => (LARGE * 1_000) / ms
  say(`tasks per second of a mission of ${LARGE}`, rate(mission.ms))
  say('commands per second without a mission', rate(commands.ms))
  say('children per second of a bare DBOS workflow', rate(childrenMs))
  say('tasks ÷ commands without a mission', commands.ms / mission.ms, '≥ 0.5')
  say('tasks ÷ children of DBOS', childrenMs / mission.ms, '≥ 1.5')
  say('CPU of a task ÷ of a command', mission.cpuUs / commands.cpuUs)
  sayLost(`a mission of ${LARGE}`, mission.value.lost)
  say('rows that break an invariant', mission.value.broken, '0')
}

async function measureGaps(): Promise<void> {
  const { value, ms } = await measure(async (bench, db) => {
    for (let nth = 0; nth < MISSIONS; nth++) await bench.create(planOf('chain', TASKS_EACH))
    const lost = await endAll(bench)
    const gaps = (await db.run(listGaps, [])).map(({ ms }) => ms).toSorted((a, b) => a - b)
    return { gaps, lost, broken: (await bench.broken()).length }
  })
  const at = (share: number) => value.gaps[Math.floor(value.gaps.length * share)] ?? Number.NaN
  say(`${MISSIONS} × ${TASKS_EACH} tasks: end of a task → start of the next, p50 ms`, at(0.5))
  say(`${MISSIONS} × ${TASKS_EACH} tasks: the same, p99 ms`, at(0.99))
  say(`${MISSIONS} × ${TASKS_EACH} tasks: tasks per second`, (MISSIONS * TASKS_EACH * 1_000) / ms)
  sayLost(`${MISSIONS} × ${TASKS_EACH} tasks`, value.lost)
  say('rows that break an invariant', value.broken, '0')
}

if (options.bare !== undefined) await serveBareDbos(options.bare)
else {
  console.log(`load ${loadavg()[0]?.toFixed(1)}`)
  for (const shape of options.shapes.split(',').filter(Boolean)) await compareSizes(shape)
  await comparePeers()
  await measureGaps()
  console.log(`load ${loadavg()[0]?.toFixed(1)}`)
}
