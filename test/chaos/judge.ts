/**
 * The verdict on a run, from three independent accounts: the answers to people, the book of the provider, and the database. Every
 * list must be empty.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { encodeId } from '#kernel/ids'
import { findBrokenInvariants } from '#domains/commands'
import { runConcord } from '#test/concord-process'
import type { Installation } from './installation.ts'
import { dueActs, type Op, stories } from './people.ts'
import type { Book } from './provider-process.ts'

export type Verdict = {
  readonly commands: number
  readonly acknowledged: number
  readonly unclear: number
  readonly providerCalls: number
  readonly paid: number
  /** Payments repeated by a thawed caller after the time limit of its own call: what the class `queryable` does not promise to prevent. */
  readonly late: number
  /** Acknowledged and missing, or recorded as done and not in the book. */
  readonly lost: readonly string[]
  readonly doubled: readonly string[]
  /** In the book without a record, recorded as not done, or refused and present. */
  readonly phantom: readonly string[]
  /** Not ended, or ended in a wrong state. */
  readonly restless: readonly string[]
  readonly broken: readonly string[]
}

/** Generous: a run that takes longer is a finding, not a slow machine. */
const REST_MS = 120_000

const ends: Readonly<Record<string, readonly string[]>> = {
  [stories.stopped]: ['cancelled'],
  // A person found no payment in the book, so the command failed.
  [stories.blind]: ['succeeded', 'failed'],
}

type Stored = { readonly command_id: string; readonly status: string; readonly task_name: string; readonly key: string }

/** An operator resumes stuck work: ten dead workers in one turn are possible here. */
export async function waitForRest(installation: Installation, restMs = REST_MS): Promise<void> {
  const giveUpAt = performance.now() + restMs
  while (performance.now() < giveUpAt) {
    // What people have still to do is not the end: a failed first run is retried, and a payment that is regretted is undone.
    const open = await installation.db
      .query(
        `select from concord.commands as c where c.completed_at is null union all select from (${dueActs}) as due limit 1`,
      )
      .catch(() => [{}])
    if (open.length === 0) return
    await resumeStuck(installation)
    await sleep(100)
  }
}

export async function resumeStuck({ db, env, folder }: Installation): Promise<void> {
  const stuck = await db.query(`select from runtime.processes where state = 'stuck' limit 1`).catch(() => [])
  if (stuck.length === 0) return
  const { code, err } = await runConcord(['stuck', 'resume', '--all'], { env, cwd: folder })
  if (code !== 0) throw new Error(`The operator could not resume the work: ${err}`)
}

export async function judge(installation: Installation, history: readonly Op[]): Promise<Verdict> {
  const { db } = installation
  const book = await installation.provider.book()
  const commands = await db.query<Stored>(
    `select command_id, status, task_name, idempotency_key as key from concord.commands`,
  )
  const compared = await compareBook(installation, book)
  const byKey = new Map(commands.map((command) => [command.key, command]))
  const submits = history.filter(({ act }) => act === 'submit')
  const acknowledged = submits.filter(({ outcome }) => outcome === 'ok')
  const refused = submits.filter(
    ({ key, outcome }) => outcome === 'fail' && !submits.some((op) => op.key === key && op.outcome !== 'fail'),
  )
  const isEnd = ({ status, task_name }: Stored) => (ends[task_name] ?? ['succeeded']).includes(status)
  return {
    commands: commands.length,
    acknowledged: new Set(acknowledged.map(({ key }) => key)).size,
    unclear: history.filter(({ outcome }) => outcome === 'info').length,
    providerCalls: book.calls,
    paid: Object.keys(book.paid).length,
    late: Object.keys(book.late).length,
    lost: [
      ...acknowledged.filter((op) => !isSame(byKey.get(op.key), op)).map(({ key }) => `acknowledged ${key}`),
      ...(await listBrokenWords(installation, history)),
      ...compared.lost,
    ],
    doubled: compared.doubled,
    phantom: [...compared.phantom, ...refused.filter(({ key }) => byKey.has(key)).map(({ key }) => `refused ${key}`)],
    restless: commands
      .filter((command) => !isEnd(command))
      .map(({ command_id, status, task_name }) => `${command_id} ${task_name}: ${status}`),
    broken: (await findBrokenInvariants(db)).map(
      ({ code, name, count, examples }) => `${code} ${name}: ${count}, ${examples[0] ?? ''}`,
    ),
  }
}

/** What is recorded as done and not in the book, in it twice, or in it and not recorded as done. */
export async function compareBook(
  { db }: Installation,
  book: Book,
): Promise<Pick<Verdict, 'lost' | 'doubled' | 'phantom'>> {
  const effects = await db.query<{ key: string; status: string; is_undo: boolean }>(
    `select idempotency_key as key, status, compensates_effect_id is not null as is_undo from concord.domain_effects
where effect_type like 'pay.%' or effect_type like 'compensation.%'`,
  )
  const rows = new Map(effects.map((effect) => [effect.key, effect]))
  const entries = [...Object.entries(book.paid), ...Object.entries(book.undone)]
  const timesOf = ({ key, is_undo }: { key: string; is_undo: boolean }) => (is_undo ? book.undone : book.paid)[key] ?? 0
  return {
    lost: effects
      .filter((effect) => effect.status === 'succeeded' && timesOf(effect) === 0)
      .map(({ key }) => `unpaid ${key}`),
    doubled: entries.filter(([, times]) => times > 1).map(([key, times]) => `${key} ${times} times`),
    phantom: entries
      .filter(([key]) => rows.get(key)?.status !== 'succeeded')
      .map(([key]) => `paid ${key}, which is ${rows.get(key)?.status ?? 'unknown'}`),
  }
}

function isSame(found: Stored | undefined, { commandId }: Op): boolean {
  return found !== undefined && encodeId('command', found.command_id) === commandId
}

/**
 * Every answer except those to submits must be on the rows: the decision, the input, the second run, the cancellation and its
 * compensation.
 */
async function listBrokenWords({ db }: Installation, history: readonly Op[]): Promise<string[]> {
  const told = history.filter(({ outcome }) => outcome === 'ok')
  const idsOf = (act: Op['act']) => told.filter((op) => op.act === act).map(({ key }) => key)
  const rows = await db.query<{ what: string }>(
    `select 'approval ' || a.approval_id as what from concord.approvals as a where a.approval_id = any($1::uuid[]) and a.decided_at is null
union all select 'cancel ' || c.command_id from concord.commands as c where c.command_id = any($2::uuid[]) and not c.cancellation_requested
union all select 'input ' || c.command_id from concord.commands as c where c.command_id = any($3::uuid[]) and not c.payload ? 'account'
union all select 'undo of ' || o.idempotency_key from concord.domain_effects as o join concord.commands as c on c.command_id = o.command_id
  where c.status = 'cancelled' and c.cancellation_mode = 'compensate_then_stop' and o.status = 'succeeded' and o.declared_compensation is not null
    and not exists (select from concord.domain_effects as k where k.compensates_effect_id = o.domain_effect_id and k.status = 'succeeded')
union all select 'undo of ' || o.idempotency_key from concord.domain_effects as o join concord.commands as c on c.command_id = o.command_id
  where c.command_id = any($5::uuid[]) and c.status = 'succeeded' and o.status = 'succeeded'
    and not exists (select from concord.domain_effects as k where k.compensates_effect_id = o.domain_effect_id and k.status = 'succeeded')
union all select 'retry ' || c.command_id from concord.commands as c where c.command_id = any($4::uuid[]) and c.attempt < 2`,
    [[...idsOf('approve'), ...idsOf('reconcile')], idsOf('cancel'), idsOf('input'), idsOf('retry'), idsOf('undo')],
  )
  return rows.map(({ what }) => what)
}
