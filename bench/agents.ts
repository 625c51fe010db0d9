/**
 * The steps of agents: one call of a read-only tool, from the answer of the agent to its observation, compared with a step of a bare DBOS
 * workflow; the CPU per step with 10 and with 50 agents at work; and the statements that runs cost while they wait for a person.
 *
 * node bench/agents.ts [--rounds 5] [--seconds 2] [--waiting 100] [--watch 10]
 */
import { loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import { openLog } from '#app/log'
import { openWork } from '#app/open-work'
import { systemDeps } from '#app/system-deps'
import { type AgentRuntime, defineAgent } from '#domains/agents'
import {
  actingFor,
  defineCommandType,
  type Definition,
  defineEffect,
  defineFunction,
  defineTask,
  submitCommand,
} from '#domains/commands'
import { errorClasses } from '#kernel/error-classes'
import type { Db } from '#store'
import { noArtifacts } from '#test/no-artifacts'
import { countStatements } from '#test/round-trips'
import { accepted, aTenant, TRACE } from '#test/tenant'
import { readFlags } from '../scripts/read-flags.ts'
import { openBareDbos, serveBareDbos } from './harness/bare-dbos.ts'
import { median, type Sample } from './harness/closed-loop.ts'
import { openBell, ringAtEnd } from './harness/command-bench.ts'
import { nodeCpuUs, postgresCpuUs } from './harness/cpu.ts'
import { type Case, compare, printResults, type Result } from './harness/compare.ts'
import { openBenchServer } from './harness/server.ts'

const { values: options } = readFlags({
  options: {
    rounds: { type: 'string', default: '5' },
    seconds: { type: 'string', default: '2' },
    waiting: { type: 'string', default: '100' },
    watch: { type: 'string', default: '10' },
    bare: { type: 'string' },
    quick: { type: 'boolean', default: false },
    peers: { type: 'boolean', default: false },
  },
})
/** The steps of one run and of one workflow, so that the start and the end count little. */
const STEPS = 20

/** Calls `look` once an answer, each time with other arguments, and ends. A person decides about the only call of an agent that waits. */
const looking: AgentRuntime = {
  name: 'bench',
  startAgentRun: async ({ turn, runtimeConfig }) => answerOf(turn, runtimeConfig['tool']),
  resumeAgentRun: async ({ turn, runtimeConfig }) => answerOf(turn, runtimeConfig['tool']),
  cancelAgentRun: async () => {},
}

function answerOf(turn: number, tool: unknown): Awaited<ReturnType<AgentRuntime['startAgentRun']>> {
  if (turn === STEPS - 1) return { text: null, calls: [], final: { text: 'done' } }
  const call = {
    id: `call_${turn}`,
    actionType: 'tool_call',
    toolName: String(tool),
    payload: { subject: `s${turn}` },
  } as const
  return { text: null, calls: [{ ...call, reason: 'The bench wants it.' }], final: null }
}

function tools(): readonly Definition[] {
  const tool = (name: string, effect: string, task: object, approval: object = {}) => [
    defineFunction({ name, plan: ({ subject }) => [{ effect_type: effect, payload: { subject: subject ?? null } }] }),
    defineCommandType({
      name,
      description: name,
      side_effects: [effect],
      error_classes: errorClasses,
      payload: z.strictObject({ subject: z.string() }),
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated'],
      ...approval,
    }),
    defineTask({
      name,
      description: name,
      command_type: name,
      function_name: name,
      ingress_types: ['user_request', 'agent_action'],
      policy_checks: ['permission'],
      ...task,
    }),
  ]
  return [
    defineEffect({ effect_type: 'bench.look', class: 'read', bounded: true, do: async () => ({ total: '17' }) }),
    defineEffect({ effect_type: 'bench.send', class: 'keyed', do: async () => ({}) }),
    ...tool('look', 'bench.look', { sync_allowed: true }),
    ...tool('send', 'bench.send', { async_required: true }, { approval: { required: true, approver: 'role:owner' } }),
  ]
}

const agent = (name: string, tool: string) =>
  defineAgent(name, {
    input: z.object({ subject: z.string() }),
    goal: 'Look.',
    role: 'worker',
    tools: [tool],
    limits: { max_steps: STEPS },
    runtime: { name: 'bench', tool },
  })

async function openAgentBench(db: Db) {
  const world = systemDeps()
  const tenant = await aTenant({ db, ...world })
  const ended = openBell()
  const project = {
    catalog: tools(),
    agents: [agent('looker', 'look'), agent('sender', 'send')],
    agentRuntimes: [looking],
  }
  const work = accepted(
    await openWork(db, world, project, openLog('error'), {
      artifacts: noArtifacts(db, world),
      defaultWorkspace: tenant.workspace.id,
      works: true,
    }),
  )
  ringAtEnd(work.commands, ended)
  const by = actingFor(tenant.people.writer.principal, TRACE)
  let count = 0
  const start = async (taskName: string): Promise<string> => {
    const subject = `run${(count += 1)}`
    const asked = { workspaceId: tenant.workspace.id, taskName, payload: { subject }, requestId: `req_${subject}` }
    accepted(await submitCommand(work.commands, by, { ...asked, ingress: 'user_request' }))
    return subject
  }
  return {
    /** Starts a run and waits for the end of its command. */
    async run(): Promise<void> {
      const end = ended.next(`run${count + 1}`)
      await start('looker')
      await end
    },
    /** Starts runs, and resolves when every one of them waits for a person. */
    async wait(runs: number): Promise<void> {
      for (let nth = 0; nth < runs; nth++) await start('sender')
      const waiting = `select count(*)::integer as count from concord.agent_runs where status = 'waiting_for_approval'`
      for (;;) {
        const [row] = await db.query<{ count: number }>(waiting)
        if (row?.count === runs) return
        await pause(100)
      }
    },
    close: () => work.close(),
  }
}

async function runBench(): Promise<void> {
  const server = await openBenchServer()
  const db = server.open({ poolMax: 10 })
  const bench = await openAgentBench(db)
  const dbos = await openBareDbos(import.meta.filename, server.url)
  const seconds = options.quick ? 3 : Number(options.seconds)
  /** Every agent makes the same number of runs, because a run may take longer than a slice of time. */
  const runs = (agents: number, each: number) => async (): Promise<Sample> => {
    const times: number[] = []
    const before = { node: nodeCpuUs(), postgres: postgresCpuUs(server.pid) ?? Number.NaN, at: performance.now() }
    await Promise.all(
      Array.from({ length: agents }, async () => {
        for (let nth = 0; nth < each; nth++) {
          const from = performance.now()
          await bench.run()
          times.push(performance.now() - from)
        }
      }),
    )
    const forMs = performance.now() - before.at
    return {
      perSecond: (times.length * 1_000) / forMs,
      p50Ms: median(times),
      p99Ms: Math.max(...times),
      nodeUs: (nodeCpuUs() - before.node) / times.length,
      postgresUs: ((postgresCpuUs(server.pid) ?? Number.NaN) - before.postgres) / times.length,
    }
  }
  const workflow = (inFlight: number) => () =>
    dbos.loop({ steps: STEPS, inFlight, forMs: seconds * 1_000, warmUpMs: 300, postmaster: server.pid })
  const cases: Case[] = [
    { name: `DBOS workflow, ${STEPS} steps, 1`, run: workflow(1) },
    {
      name: `run, ${STEPS} steps, 1`,
      against: `DBOS workflow, ${STEPS} steps, 1`,
      run: runs(1, options.quick ? 2 : 6),
    },
    { name: `DBOS workflow, ${STEPS} steps, 10`, run: workflow(10) },
    {
      name: `run, ${STEPS} steps, 10`,
      against: `DBOS workflow, ${STEPS} steps, 10`,
      run: runs(10, options.quick ? 1 : 5),
    },
    { name: `run, ${STEPS} steps, 50`, run: runs(50, 1) },
  ]
  // A process that has just started runs unoptimised code.
  await runs(10, options.quick ? 2 : 10)()
  console.log(`load ${loadavg()[0]?.toFixed(1)}`)
  const results = await compare(cases, options.quick ? 1 : Number(options.rounds))
  printResults(results)
  const watchMs = Number(options.quick ? 3 : options.watch) * 1_000
  const idle = await countStatements(db, () => pause(watchMs))
  const waiting = Number(options.waiting)
  await bench.wait(waiting)
  const during = await countStatements(db, () => pause(watchMs))
  printGoals(results)
  console.log(`${during} statements in ${watchMs / 1_000} s while ${waiting} runs wait, ${idle} without them`)
  console.log(`load ${loadavg()[0]?.toFixed(1)}`)
  dbos.end()
  await bench.close()
  await db.close()
  await server.stop()
}

function printGoals(results: readonly Result[]): void {
  const of = (name: string, pick: (sample: Sample) => number) =>
    median((results.find((each) => each.name === name)?.samples ?? []).map(pick))
  const p50 = (name: string) => of(name, ({ p50Ms }) => p50Ms)
  const cpu = (name: string) => of(name, ({ nodeUs, postgresUs }) => nodeUs + (postgresUs ?? Number.NaN))
  const run = (n: number) => `run, ${STEPS} steps, ${n}`
  const workflow = (n: number) => `DBOS workflow, ${STEPS} steps, ${n}`
  const rows: readonly (readonly [string, number])[] = [
    ['p50 of a read-only call ÷ bare DBOS step, 1 in flight (≤ 2)', p50(run(1)) / p50(workflow(1))],
    ['the same, 10 in flight', p50(run(10)) / p50(workflow(10))],
    ['CPU of a read-only call ÷ bare DBOS step, 10 in flight', cpu(run(10)) / cpu(workflow(10))],
    ['CPU per step, 50 agents ÷ 10 agents (≤ 1.2)', cpu(run(50)) / cpu(run(10))],
    ['ms per step of a run, 1 in flight', p50(run(1)) / STEPS],
    ['ms per step of a workflow, 1 in flight', p50(workflow(1)) / STEPS],
  ]
  console.log()
  for (const [name, value] of rows) console.log(`${value.toFixed(2).padStart(8)}  ${name}`)
}

if (options.bare !== undefined) await serveBareDbos(options.bare)
else await runBench()
