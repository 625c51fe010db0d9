/** The self-check: asks the file every question whose answer must be empty, and changes nothing. */
import type { Decision } from '#kernel/refusal'
import { IN_MEMORY, openDatabase, type Reader } from './database.ts'
import { migrate } from './migrate.ts'
import type { Scheduler } from './scheduler.ts'
import {
  type ExecutionInvariantId,
  executionQueries,
  foreignKeyCheck,
  type InvariantId,
  integrityCheck,
  invariantQueries,
  listSchema,
} from './sql/invariants.ts'

export type Violation = {
  readonly invariant: InvariantId | ExecutionInvariantId | 'integrity' | 'foreign_key' | 'schema'
  readonly says: string
  /** The rows, at most twenty. */
  readonly about: readonly string[]
  readonly count: number
}

export type SelfCheck = {
  readonly checked: readonly string[]
  /** Those that need the log that the job programs write themselves. */
  readonly notChecked: readonly string[]
  readonly violations: readonly Violation[]
}

/** What the work itself says was executed, from outside the scheduler's transactions. */
export type Execution = { readonly jobId: string; readonly runId: string }

const SHOWN_MAX = 20
const ids = Object.keys(invariantQueries) as InvariantId[]
const executionIds = Object.keys(executionQueries) as ExecutionInvariantId[]

export function checkInvariants(scheduler: Scheduler, executions?: readonly Execution[]): Decision<SelfCheck> {
  return scheduler.db.read((reader) => {
    const log = executions && JSON.stringify(executions)
    const violations = [
      ...ids.flatMap((id) => asViolation(id, invariantQueries[id].says, reader.all(invariantQueries[id].query))),
      ...(log === undefined ? [] : executionIds).flatMap((id) =>
        asViolation(id, executionQueries[id].says, reader.all(executionQueries[id].query, { executions: log ?? '[]' })),
      ),
      ...fileViolations(reader),
    ]
    const checked = [...ids, ...(executions ? executionIds : []), 'integrity', 'foreign_key', 'schema']
    return { checked, notChecked: executions ? [] : executionIds, violations }
  })
}

function asViolation(
  invariant: Violation['invariant'],
  says: string,
  rows: readonly { readonly about: string }[],
): Violation[] {
  const about = rows.slice(0, SHOWN_MAX).map((row) => row.about)
  return rows.length === 0 ? [] : [{ invariant, says, about, count: rows.length }]
}

function fileViolations(reader: Reader): Violation[] {
  const damage = reader.all(integrityCheck).map((row) => ({ about: row.integrity_check }))
  const isWhole = damage.length === 1 && damage[0]?.about === 'ok'
  const orphans = reader.all(foreignKeyCheck).map((row) => ({ about: `${row.table} → ${row.parent}` }))
  return [
    ...asViolation('integrity', 'SQLite finds the file whole', isWhole ? [] : damage),
    ...asViolation('foreign_key', 'every reference has its row', orphans),
    ...asViolation('schema', 'every table, index and guard is as it was made', changedSchema(reader)),
  ]
}

/** Compared with a file that is made now; an index of our own that comes and goes is no part of it. */
function changedSchema(reader: Reader): { readonly about: string }[] {
  const fresh = openDatabase({ file: IN_MEMORY, busyTimeoutMs: 0 })
  migrate(fresh, { at: 0 })
  const here = new Map(reader.all(listSchema).map(({ name, sql }) => [name, sql]))
  const changed = fresh.all(listSchema).filter(({ name, sql }) => here.get(name) !== sql)
  fresh.close()
  return changed.map(({ name }) => ({ about: name }))
}

/** One line per violation, for people. */
export function describeSelfCheck({ checked, notChecked, violations }: SelfCheck): string {
  const lines = violations.map(({ invariant, says, about, count }) => {
    const more = count > about.length ? ` and ${count - about.length} more` : ''
    return `${invariant} broken: ${says} (${count}): ${about.join(', ')}${more}`
  })
  const rest = notChecked.length === 0 ? '' : `, ${notChecked.join(' and ')} need the log of the jobs`
  return [...lines, `${checked.length} checks, ${violations.length} broken${rest}`].join('\n')
}
