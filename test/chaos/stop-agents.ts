/**
 * Stops all agents while their payments are under way, and kills the server with -9 around the stop and around its lift. Nothing of an agent begins between the
 * commits of the two, everything comes to rest, and after the lift every payment is made once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createApiKey } from '#domains/identity'
import { byPerson } from '#kernel/actor'
import { actionKey } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import { openChance } from '#test/chance'
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
}

const BATCH = 24
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
  const installation = await openInstallation({ seed, latencyMs: 150 })
  const { db } = installation
  const history: Op[] = []
  const begunLate: string[] = []
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
    const { status, commandId } = await send('/agent-actions', agent, asked)
    const outcome = status === null || status >= 500 ? 'info' : status < 300 ? 'ok' : 'fail'
    if (status === 409) counts.turnedAway++
    const of = commandId === undefined || outcome !== 'ok' ? {} : { commandId }
    history.push({ act: 'submit', key: actionKey(name), outcome, status, ...of })
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
      const before = await countBegun(installation)
      const proposed = names.map(propose)
      await until(async () => (await countBegun(installation)) > before, 'payments under way')
      const stopping = stop()
      // The kill comes during the stop in some rounds, and after it in the others.
      if (round % 2 === 0) await stopping
      await killDuring(...proposed, stopping)
      await until(async () => {
        if ((await inForce()).length > 0) return true
        if (!(await isAsked('Stop Agents'))) await stop()
        return false
      }, 'a stop in force')
      const [from, begun] = [performance.now(), await countBegun(installation)]
      const late = await Promise.all(Array.from({ length: 4 }, (_, n) => propose(`${seed}-${round}-late-${n}`)))
      if (late.includes('ok')) begunLate.push(`round ${round}: a proposal was accepted during the stop`)
      await until(async () => (await countUnderWay(installation)) === 0, 'rest of all agents')
      counts.restMs = Math.max(counts.restMs, Math.round(performance.now() - from))
      counts.waited += await countWaiting(installation)
      const after = await countBegun(installation)
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
      await waitForRest(installation)
      onRound(round + 1)
    }
    begunLate.push(...(await listBegunLate(installation)))
    const [stops] = await db.query<{ count: number }>('select count(*)::int as count from concord.stops')
    return { stops: stops?.count ?? 0, ...counts, begunLate, ...(await judge(installation, history)) }
  } finally {
    for (const { child, ended } of [server, worker]) {
      child.kill('SIGTERM')
      await ended
    }
    await installation.close()
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
const countUnderWay = (of: Installation) =>
  countOf(of, 'count(*)', `c.completed_at is null and c.status not in ('blocked', 'validated')`)
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
