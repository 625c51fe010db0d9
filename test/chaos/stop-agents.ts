/**
 * Stops all agents while their payments and the model calls of their runs and swarms are under way, and kills the server with -9 around the stop and around its lift.
 * Nothing of an agent begins between the commits of the two, everything comes to rest within 30 s, and after the lift every payment is made once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createApiKey } from '#domains/identity'
import { byPerson } from '#kernel/actor'
import { actionKey } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import { openChance } from '#test/chance'
import { startModel } from '#test/fake-model'
import { MODEL, PAYING_RUN, PAYING_SWARM, payingScripts } from '../support/projects/paying-agents.ts'
import { accepted, aPerson, aWorld, TRACE } from '#test/tenant'
import { until } from '#test/until'
import { type Installation, kill, openInstallation } from './installation.ts'
import { judge, type Verdict, waitForRest } from './judge.ts'
import type { Op } from './people.ts'

export type StopReport = Verdict & {
  readonly stops: number
  readonly kills: number
  /** Commands of agents that waited for a lift. */
  readonly waited: number
  /** Proposals that a stop refused. */
  readonly turnedAway: number
  /** Effects and attempts of agents that began during a stop. */
  readonly begunLate: readonly string[]
  /** From the first look that found the stop in force until nothing of an agent was under way, in the slowest round. */
  readonly restMs: number
  /** Rounds in which something of an agent was under way for longer than 30 s after the stop. */
  readonly lateRest: readonly string[]
  /** Runs of agents and swarms, and the calls of their model. */
  readonly runs: number
  readonly swarms: number
  readonly modelCalls: number
}

const BATCH = 24
/** Of each round, beside the agents with keys. */
const [RUNS, SWARMS] = [4, 2]
/** The promise of a stop: after this time nothing of an agent is under way. */
const REST_MS = 30_000
const TOOL = 'Pay as agent'

export async function stopUnderLoad({
  rounds,
  seed,
  onRound = () => {},
}: {
  readonly rounds: number
  readonly seed: string
  readonly onRound?: (done: number) => void
}): Promise<StopReport> {
  const chance = openChance(seed)
  const model = await startModel(payingScripts)
  const installation = await openInstallation({ seed, latencyMs: 150, modelUrl: model.url })
  const { db } = installation
  const history: Op[] = []
  const begunLate: string[] = []
  const lateRest = new Map<number, string>()
  const counts = { kills: 0, waited: 0, turnedAway: 0, restMs: 0 }
  let server = await installation.serve()
  const worker = installation.work()
  const [agent, admin] = [await hireAgent(installation), await installation.asker()]

  const send = async (path: string, key: string, body: object) => {
    const answer = await fetch(`${server.address}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(60_000),
    }).catch(() => undefined)
    const told = (await answer?.json().catch(() => undefined)) as { command_id?: string } | undefined
    return { status: told === undefined ? null : (answer?.status ?? null), commandId: told?.command_id }
  }
  const propose = async (name: string) => {
    const asked = { tool_name: TOOL, payload: { note: 'n' }, reason: 'A test.', idempotency_key: name }
    return note(actionKey(name), await send('/agent-actions', agent, asked))
  }
  /** A run or a swarm, which people start. */
  const begin = async (name: string) => {
    const task_name = name.includes('swarm') ? PAYING_SWARM : PAYING_RUN
    const asked = { task_name, payload: { note: name }, idempotency_key: name }
    return note(name, await send('/commands', admin, asked))
  }
  const note = (key: string, { status, commandId }: Awaited<ReturnType<typeof send>>) => {
    const outcome = status === null || status >= 500 ? 'info' : status < 300 ? 'ok' : 'fail'
    if (status === 409) counts.turnedAway++
    const of = commandId === undefined || outcome !== 'ok' ? {} : { commandId }
    history.push({ act: 'submit', key, outcome, status, ...of })
    return outcome
  }
  /** The work goes on until somebody kills the server; then another one starts. */
  const killDuring = async (...work: readonly Promise<unknown>[]) => {
    await sleep(chance.whole(60))
    await kill(server)
    counts.kills++
    await Promise.all(work)
    server = await installation.serve()
  }
  /** A request without an answer is repeated only if its command is not on record. */
  const isAsked = async (task: string) =>
    (await db.query(`select from concord.commands where task_name = $1 and completed_at is null`, [task])).length > 0
  const inForce = () => db.query<{ stop_id: string }>('select stop_id from concord.stops where lifted_at is null')
  const stop = () => send('/stops', admin, { scope: 'all', reason: 'It pays too much.' })
  const lift = async () => {
    for (const { stop_id } of await inForce())
      await send(`/stops/${encodeId('stop', stop_id)}/lift`, admin, { reason: 'It is repaired.' })
  }

  try {
    for (let round = 0; round < rounds; round++) {
      const names = Array.from({ length: BATCH }, (_, n) => `${seed}-${round}-${n}`)
      const started = [
        ...Array.from({ length: RUNS }, (_, n) => `${seed}-${round}-run-${n}`),
        ...Array.from({ length: SWARMS }, (_, n) => `${seed}-${round}-swarm-${n}`),
      ]
      const before = await countBegun(installation)
      const proposed = [...started.map(begin), ...names.map(propose)]
      await until(
        async () => (await countBegun(installation)) > before && (await countAsking(installation)) > 0,
        'payments and model calls under way',
      )
      const stopping = stop()
      // The kill comes during the stop in some rounds, and after it in the others.
      if (round % 2 === 0) await stopping
      await killDuring(...proposed, stopping)
      await until(async () => {
        if ((await inForce()).length > 0) return true
        if (!(await isAsked('Stop Agents'))) await stop()
        return false
      }, 'a stop in force')
      const from = performance.now()
      const [begun, asked] = [await countBegun(installation), await countAsked(installation)]
      const late = await Promise.all(Array.from({ length: 4 }, (_, n) => propose(`${seed}-${round}-late-${n}`)))
      if (late.includes('ok')) begunLate.push(`round ${round}: a proposal was accepted during the stop`)
      await until(async () => {
        const open = await listUnderWay(installation)
        if (open.length > 0 && performance.now() - from > REST_MS) lateRest.set(round, open.join(', '))
        return open.length === 0
      }, 'rest of all agents')
      counts.restMs = Math.max(counts.restMs, Math.round(performance.now() - from))
      counts.waited += await countWaiting(installation)
      const after = await countBegun(installation)
      const askedAfter = await countAsked(installation)
      if (askedAfter !== asked) begunLate.push(`round ${round}: ${askedAfter - asked} model calls before the lift`)
      if (after !== begun) begunLate.push(`round ${round}: ${begun} attempts at the stop, ${after} before the lift`)

      if (chance.whole(2) === 0) await killDuring(lift())
      await until(async () => {
        if ((await inForce()).length === 0) return true
        if (!(await isAsked('Lift Stop'))) await lift()
        return false
      }, 'the lift')
      // What the kill or the stop cut off is proposed again with its key.
      const clear = new Set(history.filter(({ outcome }) => outcome === 'ok').map(({ key }) => key))
      await Promise.all(names.filter((name) => !clear.has(actionKey(name))).map(propose))
      await Promise.all(started.filter((name) => !clear.has(name)).map(begin))
      await waitForRest(installation)
      onRound(round + 1)
    }
    begunLate.push(...(await listBegunLate(installation)))
    const [stops] = await db.query<{ count: number }>('select count(*)::int as count from concord.stops')
    const ran = await countRuns(installation)
    const of = { stops: stops?.count ?? 0, ...counts, ...ran, modelCalls: await countAsked(installation) }
    return {
      ...of,
      begunLate,
      lateRest: [...lateRest].map(([round, what]) => `round ${round}: ${what}`),
      ...(await judge(installation, history)),
    }
  } finally {
    for (const { child, ended } of [server, worker]) {
      child.kill('SIGTERM')
      await ended
    }
    await installation.close()
    await model.close()
  }
}

async function hireAgent({ db }: Installation): Promise<string> {
  const [org] = await db.query<{ id: string }>(`select id from identity.orgs where slug = 'default'`)
  const world = aWorld(db, new Date())
  const owner = await aPerson(world, { orgId: org?.id ?? '', slug: 'default' }, 'writer', 'owner')
  const key = { name: 'payer', role: 'writer' as const, agent: { name: 'payer', tools: [TOOL] } }
  return accepted(await createApiKey(world, byPerson(owner.principal, TRACE), key)).key
}

const countOf = async ({ db }: Installation, what: string, where: string): Promise<number> => {
  const from = `concord.commands as c left join concord.domain_effects as e using (command_id)`
  const [row] = await db.query<{ count: number }>(
    `select coalesce(${what}, 0)::int as count from ${from} where c.context->>'run_as' = 'agent' and ${where}`,
  )
  return row?.count ?? 0
}
const countBegun = (of: Installation) => countOf(of, 'sum(e.attempt)', 'true')

/** Commands that do not wait for the lift, and calls of the model. A Spawn Subagent only waits for its child. */
async function listUnderWay({ db }: Installation): Promise<readonly string[]> {
  const rows = await db.query<{ what: string }>(
    `select c.command_id || ' ' || c.task_name || ' is ' || c.status as what from concord.commands as c
      where c.context->>'run_as' = 'agent' and c.completed_at is null and c.status not in ('blocked', 'validated') and c.command_type <> 'spawn_subagent'
     union all
     select r.agent_run_id || ' has a turn' from concord.agent_runs as r where r.turn_token is not null`,
  )
  return rows.map(({ what }) => what)
}
const countInvocations = async ({ db }: Installation, where: string): Promise<number> => {
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count from concord.connector_invocations as i where i.connector_name = $1 and ${where}`,
    [MODEL],
  )
  return row?.count ?? 0
}
const countAsked = (of: Installation) => countInvocations(of, 'true')
const countAsking = (of: Installation) => countInvocations(of, `i.status = 'started'`)

async function countRuns({ db }: Installation): Promise<{ readonly runs: number; readonly swarms: number }> {
  const [row] = await db.query<{ runs: number; swarms: number }>(
    `select (select count(*)::int from concord.agent_runs where swarm_run_id is null) as runs, (select count(*)::int from concord.swarm_runs) as swarms`,
  )
  return row ?? { runs: 0, swarms: 0 }
}
const countWaiting = (of: Installation) => countOf(of, 'count(distinct c.command_id)', 'c.completed_at is null')

/** The locks put begins and stops in one order, which is that of their journal rows. */
async function listBegunLate({ db }: Installation): Promise<readonly string[]> {
  const rows = await db.query<{ what: string }>(
    `with stops as (
  select s.stop_id, f.entry_seq as from_seq, l.entry_seq as to_seq from concord.stops as s
  join concord.domain_events as f on f.event_type = 'agents_stopped' and f.payload->>'stop_id' = s.stop_id::text
  join concord.domain_events as l on l.event_type = 'stop_lifted' and l.payload->>'stop_id' = s.stop_id::text
)
select b.command_id || ' began an effect during ' || s.stop_id as what
from concord.domain_events as b join concord.commands as c using (command_id) join stops as s on b.entry_seq > s.from_seq and b.entry_seq < s.to_seq
where c.context->>'run_as' = 'agent' and b.event_type = 'status_changed' and b.payload->>'target_type' = 'effect' and b.payload->>'to' = 'executing'`,
  )
  return rows.map(({ what }) => what)
}
