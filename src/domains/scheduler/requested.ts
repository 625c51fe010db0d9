/** What a request over HTTP adds to a change: the row and the requester that its record names, and the command line that may run. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import type { JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { SqlReader } from './database.ts'
import { requireJobType } from './job-types.ts'
import type { StoredJob } from './stored-rows.ts'

export type Requested = {
  readonly jobId?: string
  /** Such as `user_0197…`. */
  readonly requestedBy?: string | null
  /** The recorded digest of the command lines; a change that would run anything else is refused. */
  readonly digest?: string | undefined
}

/** What runs: the command comes from the type, and the params name it or go to it. */
export type CommandLine = Pick<StoredJob, 'job_type' | 'params'>

/** The digest of the command lines and params with which these jobs would run now. */
export function digestLines(reader: SqlReader, lines: readonly CommandLine[]): Decision<string> {
  const values: JsonValue[] = []
  for (const { job_type, params } of lines) {
    const type = requireJobType(reader, job_type)
    if (!type.ok) return type
    values.push([JSON.parse(type.value.runner ?? 'null'), JSON.parse(params)])
  }
  return accept(`sha256:${hash('sha256', canonicalJson(values))}`)
}

/** Called in the transaction of the change: a template, a type or a job may have changed after the record. */
export function requireRecorded(
  reader: SqlReader,
  { digest }: Requested,
  lines: readonly CommandLine[],
): Decision<undefined> {
  if (digest === undefined) return accept(undefined)
  const now = digestLines(reader, lines)
  if (!now.ok) return now
  if (now.value === digest) return accept(undefined)
  return refuse(
    'scheduler.work.changed',
    'What this request would run changed after it was recorded. Nothing was done.',
  )
}
