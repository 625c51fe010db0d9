/**
 * The verdict over a run, from three accounts that know nothing of each other: what people were told, what the provider has in
 * its book, and what stands in the database. Every list must be empty.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeId } from '#kernel/ids'
import { findBrokenInvariants } from '#domains/commands'
import { runConcord } from '#test/concord-process'
import type { House } from './house.ts'
import { type Op, stories } from './people.ts'

export type Verdict = {
  readonly commands: number
  readonly acknowledged: number
  readonly unclear: number
  readonly providerCalls: number
  readonly paid: number
  /** Acknowledged and absent, or on record as done and not in the book. */
  readonly lost: readonly string[]
  readonly doubled: readonly string[]
  /** In the book without a record, on record as not done, or refused and present. */
  readonly phantom: readonly string[]
  /** Not at rest, or at rest somewhere it should not be. */
  readonly restless: readonly string[]
  readonly broken: readonly string[]
}

/** Generous: a run that does not come to rest by then is a finding, not a slow machine. */
const REST_MS = 120_000

const ends: Readonly<Record<string, readonly string[]>> = {
  [stories.stopped]: ['cancelled'],
  // A person saw in the book that nothing was paid: then it failed.
  [stories.blind]: ['succeeded', 'failed'],
}

type Stored = { readonly command_id: string; readonly status: string; readonly task_name: string; readonly key: string }

/** Besides those who answer there is an operator, who gives what is stuck another chance: ten dead workers in one turn are a lot. */
export async function waitForRest(house: House, restMs = REST_MS): Promise<void> {
  const giveUpAt = performance.now() + restMs
  while (performance.now() < giveUpAt) {
    // Nobody has answered yet, and a failed first run is going to be run again: neither is rest.
    const open = await house.db
      .query(
        `select from concord.commands as c where c.completed_at is null
   or (c.task_name = 'Pay on the second run' and c.status = 'failed' and c.attempt = 1) limit 1`,
      )
      .catch(() => [{}])
    if (open.length === 0) return
    await resumeStuck(house)
    await sleep(100)
  }
}

async function resumeStuck({ db, env, folder }: House): Promise<void> {
  const stuck = await db.query(`select from runtime.processes where state = 'stuck' limit 1`).catch(() => [])
  if (stuck.length === 0) return
  const { code, err } = await runConcord(['stuck', 'resume', '--all'], { env, cwd: folder })
  if (code !== 0) throw new Error(`The operator could not resume the work: ${err}`)
}

export async function judge(house: House, history: readonly Op[]): Promise<Verdict> {
  const { db } = house
  const book = await house.provider.book()
  const commands = await db.query<Stored>(
    `select command_id, status, task_name, idempotency_key as key from concord.commands`,
  )
  const effects = await db.query<{ key: string; status: string; is_undo: boolean }>(
    `select idempotency_key as key, status, compensates_effect_id is not null as is_undo from concord.domain_effects
where effect_type like 'pay.%' or effect_type like 'compensation.%'`,
  )
  const byKey = new Map(commands.map((command) => [command.key, command]))
  const submits = history.filter(({ act }) => act === 'submit')
  const acknowledged = submits.filter(({ outcome }) => outcome === 'ok')
  const refused = submits.filter(
    ({ key, outcome }) => outcome === 'fail' && !submits.some((op) => op.key === key && op.outcome !== 'fail'),
  )
  const rows = new Map(effects.map((effect) => [effect.key, effect]))
  const entries = [...Object.entries(book.paid), ...Object.entries(book.undone)]
  const timesOf = ({ key, is_undo }: { key: string; is_undo: boolean }) => (is_undo ? book.undone : book.paid)[key] ?? 0
  const isEnd = ({ status, task_name }: Stored) => (ends[task_name] ?? ['succeeded']).includes(status)
  return {
    commands: commands.length,
    acknowledged: new Set(acknowledged.map(({ key }) => key)).size,
    unclear: history.filter(({ outcome }) => outcome === 'info').length,
    providerCalls: book.calls,
    paid: Object.keys(book.paid).length,
    lost: [
      ...acknowledged.filter((op) => !isSame(byKey.get(op.key), op)).map(({ key }) => `acknowledged ${key}`),
      ...(await listBrokenWords(house, history)),
      ...effects
        .filter((effect) => effect.status === 'succeeded' && timesOf(effect) === 0)
        .map(({ key }) => `unpaid ${key}`),
    ],
    doubled: entries.filter(([, times]) => times > 1).map(([key, times]) => `${key} ${times} times`),
    phantom: [
      ...entries
        .filter(([key]) => rows.get(key)?.status !== 'succeeded')
        .map(([key]) => `paid ${key}, which is ${rows.get(key)?.status ?? 'unknown'}`),
      ...refused.filter(({ key }) => byKey.has(key)).map(({ key }) => `refused ${key}`),
    ],
    restless: commands
      .filter((command) => !isEnd(command))
      .map(({ command_id, status, task_name }) => `${command_id} ${task_name}: ${status}`),
    broken: (await findBrokenInvariants(db)).map(
      ({ code, name, count, examples }) => `${code} ${name}: ${count}, ${examples[0] ?? ''}`,
    ),
  }
}

function isSame(found: Stored | undefined, { commandId }: Op): boolean {
  return found !== undefined && encodeId('command', found.command_id) === commandId
}

/** What people were told about anything but a submit must be on the rows: the answer, the input, the second run, the stop and all its undoing. */
async function listBrokenWords({ db }: House, history: readonly Op[]): Promise<string[]> {
  const told = history.filter(({ outcome }) => outcome === 'ok')
  const idsOf = (act: Op['act']) => told.filter((op) => op.act === act).map(({ key }) => key)
  const rows = await db.query<{ what: string }>(
    `select 'approval ' || a.approval_id as what from concord.approvals as a where a.approval_id = any($1::uuid[]) and a.decided_at is null
union all select 'cancel ' || c.command_id from concord.commands as c where c.command_id = any($2::uuid[]) and not c.cancellation_requested
union all select 'input ' || c.command_id from concord.commands as c where c.command_id = any($3::uuid[]) and not c.payload ? 'account'
union all select 'undo of ' || o.idempotency_key from concord.domain_effects as o join concord.commands as c on c.command_id = o.command_id
  where c.status = 'cancelled' and c.cancellation_mode = 'compensate_then_stop' and o.status = 'succeeded' and o.declared_compensation is not null
    and not exists (select from concord.domain_effects as k where k.compensates_effect_id = o.domain_effect_id and k.status = 'succeeded')
union all select 'retry ' || c.command_id from concord.commands as c where c.command_id = any($4::uuid[]) and c.attempt < 2`,
    [[...idsOf('approve'), ...idsOf('reconcile')], idsOf('cancel'), idsOf('input'), idsOf('retry')],
  )
  return rows.map(({ what }) => what)
}
