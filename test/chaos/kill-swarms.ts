/**
 * Swarms in a process that is killed with -9, at named points or at random moments, and started again. Then the ledger of the provider, the answers, the rows
 * and the accounts are compared with what the same swarms leave without a kill.
 */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runInvariants } from '#domains/agents'
import { findBrokenInvariants } from '#domains/commands'
import type { Db } from '#store'
import { assertSound } from '#test/budgets'
import { openChance } from '#test/chance'
import { openTestDb } from '#test/database'
import { startModel } from '#test/fake-model'
import { type FailpointName, faultEnv } from '#test/fault-plan'
import { killedSwarms, type SwarmChildTask } from '#test/swarm-run-child'
import { aTenant, aWorld } from '#test/tenant'

export type SwarmKillReport = {
  readonly kills: number
  readonly swarms: number
  readonly payments: number
  readonly refunds: number
  /** Payments of one agent under two keys, and payments that stay although they lost. */
  readonly repeated: readonly string[]
  /** Answers that were stored and asked for again, and answers that are missing. */
  readonly lost: readonly string[]
  /** Swarms that did not end as without a kill. */
  readonly differing: readonly string[]
  /** Runs that live although their swarm has ended. */
  readonly alive: readonly string[]
  /** Accounts that do not agree with their entries or hold a reservation, and broken invariants. */
  readonly broken: readonly string[]
}

const child = fileURLToPath(new URL('../support/swarm-run-child.ts', import.meta.url))
const TOGETHER = 8
export const swarmPoints = [
  'agents.swarm_started',
  'agents.spawn_proposed',
  'agents.spawned',
  'agents.joining',
] as const satisfies readonly FailpointName[]
/** Longer than a swarm needs alone, so that kills fall on every part of its life. */
const LIFE_MS = 2_500

type Kind = SwarmChildTask['swarms'][number]['kind']
type Plan = {
  readonly seed: string
  /** Kills at random moments, each with a new swarm and what the kills before have left. */
  readonly kills: number
  /** Points with eight swarms at each. */
  readonly points: readonly FailpointName[]
  readonly onKill?: (done: number) => void
}

export async function killSwarms({ seed, kills, points, onKill = () => {} }: Plan): Promise<SwarmKillReport> {
  const chance = openChance(seed)
  const opened = await openTestDb({ role: 'concord_engine', poolMax: 4 })
  const home = await mkdtemp(join(tmpdir(), 'concord-kill-swarms-'))
  const fake = await startModel()
  const swarms: { key: string; kind: Kind }[] = []
  const ledger = join(home, 'ledger.txt')
  let done = 0
  try {
    await fake.script({
      'fake-small': [{ text: 'Go.', usage: { prompt_tokens: 30, completion_tokens: 10 }, times: 1_000_000 }],
    })
    const tenant = await aTenant({ ...aWorld(opened.db), now: () => new Date() })
    const task = {
      url: opened.url,
      home,
      modelUrl: fake.url,
      workspaceId: tenant.workspace.id,
      principal: tenant.people.writer.principal,
      ledger,
    }
    const asked: { readonly line: number; readonly stored: ReadonlySet<string> }[] = []
    const add = (kind: Kind) => swarms.push({ key: `${seed}:${swarms.length}:${kind}`, kind })
    const noteKill = async () => {
      asked.push({ line: (await linesOf(ledger)).length, stored: new Set(await listAnswers(opened.db)) })
      onKill(++done)
    }
    for (const point of points) {
      for (let nth = 0; nth < TOGETHER; nth++) add('parts')
      const plan = faultEnv([{ point, hit: 1, act: 'kill', together: TOGETHER }])
      const signal = await run({ ...task, swarms }, { env: plan })
      if (signal !== 'SIGKILL')
        throw new Error(`The process ended with ${signal} before ${TOGETHER} swarms were at ${point}.`)
      await noteKill()
    }
    while (done < points.length + kills) {
      add(chance.pick(killedSwarms))
      // A process that has ended all of its swarms before is no kill.
      if ((await run({ ...task, swarms }, { afterMs: chance.whole(LIFE_MS) })) === 'SIGKILL') await noteKill()
    }
    const end = await run({ ...task, swarms }, {})
    if (end !== null) throw new Error(`The last process ended with ${end}.`)
    return { kills: done, ...(await judge(opened.db, swarms, await linesOf(ledger), asked)) }
  } finally {
    await opened.close()
    await fake.close()
    await rm(home, { recursive: true, force: true })
  }
}

/** Returns the signal that ended it. A swarm that is known already is not submitted twice: its key is the same. */
async function run(
  task: SwarmChildTask,
  { env = {}, afterMs }: { readonly env?: object; readonly afterMs?: number },
): Promise<string | null> {
  const running = spawn(process.execPath, [child, JSON.stringify(task)], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const gone = new Promise<string | null>((resolve) => {
    running.on('exit', (code, signal) => resolve(signal ?? (code === 0 ? null : `exit ${code}`)))
  })
  if (afterMs !== undefined) {
    await Promise.race([new Promise((resolve) => running.stdout.once('data', resolve)), gone])
    await Promise.race([sleep(afterMs), gone])
    running.kill('SIGKILL')
  }
  return gone
}

async function linesOf(ledger: string): Promise<readonly string[]> {
  const text = await readFile(ledger, 'utf8').catch(() => '')
  return text.split('\n').filter((line) => line !== '')
}

async function listAnswers(db: Db): Promise<readonly string[]> {
  const rows = await db.query<{ answer: string }>(
    `select agent_run_id || ' ' || turn as answer from concord.agent_messages where message_role = 'assistant'`,
  )
  return rows.map(({ answer }) => answer)
}

type Ended = {
  readonly key: string
  readonly command_id: string
  readonly workspace_id: string
  readonly command: string
  readonly swarm: string
  readonly reason: string
  readonly agents: number
  readonly results: number
  readonly reserved: string
  readonly is_closed: boolean
}

/** As it ends without a kill: how many agents pay, and how many payments stay. */
const expected: Readonly<Record<Kind, { readonly agents: number; readonly paid: number; readonly kept: number }>> = {
  parts: { agents: 3, paid: 2, kept: 2 },
  select: { agents: 4, paid: 2, kept: 1 },
  nested: { agents: 3, paid: 1, kept: 1 },
}

async function judge(
  db: Db,
  swarms: SwarmChildTask['swarms'],
  lines: readonly string[],
  asked: readonly { readonly line: number; readonly stored: ReadonlySet<string> }[],
): Promise<Omit<SwarmKillReport, 'kills'>> {
  const ended = await db.query<Ended>(
    `select c.idempotency_key as key, c.command_id, c.workspace_id, c.status as command, s.status as swarm, s.end_reason as reason,
       (select count(*)::int from concord.agent_runs r where r.swarm_run_id = s.swarm_run_id) as agents,
       (select count(*)::int from concord.artifacts a where a.artifact_id = (s.joined->>'selected_artifact_id')::uuid) as results,
       b.reserved_units as reserved, b.closed_at is not null as is_closed
     from concord.commands c join concord.swarm_runs s using (command_id)
     join concord.budget_accounts b on b.account_id = s.swarm_run_id where c.idempotency_key = any($1)`,
    [swarms.map(({ key }) => key)],
  )
  const paid = [...new Set(lines.filter((line) => line.startsWith('paid ')))].map(wordsOf)
  const refunded = new Set(lines.filter((line) => line.startsWith('refunded ')).map((line) => wordsOf(line).key))
  const [repeated, differing, broken]: string[][] = [[], [], []]
  for (const { key, kind } of swarms) {
    const own = paid.filter(({ who }) => who.startsWith(`${key}/`))
    const kept = own.filter((payment) => !refunded.has(payment.key))
    const { agents, ...counts } = expected[kind]
    if (new Set(own.map(({ who }) => who)).size < own.length) repeated?.push(`${key}: ${own.length} payments`)
    const rows = ended.filter((each) => each.key === key)
    const seen = rows.map((row) =>
      [row.command, row.swarm, row.reason, row.agents, row.results, own.length, kept.length].join(' '),
    )
    const usual = ['succeeded', 'succeeded', 'joined', agents, 1, counts.paid, counts.kept].join(' ')
    if (seen.join() !== usual) differing?.push(`${key}: ${seen.join()} instead of ${usual}`)
  }
  for (const { key, command_id: commandId, workspace_id: workspaceId, reserved, is_closed } of ended) {
    await assertSound(db, { commandId, workspaceId }).catch((error: Error) => broken?.push(`${key}: ${error.message}`))
    if (Number(reserved) !== 0 || !is_closed) broken?.push(`${key}: ${reserved} reserved, closed: ${is_closed}`)
  }
  for (const found of await findBrokenInvariants(db, undefined, runInvariants)) broken?.push(JSON.stringify(found))
  const alive = await db.query<{ id: string }>(
    `select r.agent_run_id as id from concord.agent_runs r where r.completed_at is null and r.cancelled_at is null`,
  )
  return {
    swarms: swarms.length,
    payments: paid.length,
    refunds: refunded.size,
    repeated: repeated ?? [],
    lost: await listLost(db, lines, asked),
    differing: differing ?? [],
    alive: alive.map(({ id }) => id),
    broken: broken ?? [],
  }
}

function wordsOf(line: string): { readonly key: string; readonly who: string } {
  const [, key = '', who = ''] = line.split(' ')
  return { key, who }
}

/** An answer that was stored at a kill is never asked for after it, and the answers of a run have no gap. */
async function listLost(
  db: Db,
  lines: readonly string[],
  asked: readonly { readonly line: number; readonly stored: ReadonlySet<string> }[],
): Promise<readonly string[]> {
  const again = asked.flatMap(({ line, stored }) =>
    lines
      .slice(line)
      .flatMap((each) => (each.startsWith('asked ') && stored.has(each.slice('asked '.length)) ? [each] : [])),
  )
  const gaps = await db.query<{ id: string }>(
    `select agent_run_id as id from concord.agent_messages where message_role = 'assistant'
      group by agent_run_id having count(*) <> count(distinct turn) or max(turn) + 1 <> count(*)`,
  )
  return [...new Set(again), ...gaps.map(({ id }) => id)]
}
