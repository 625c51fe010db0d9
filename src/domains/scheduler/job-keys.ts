/** Idempotency keys: the same request with the same key is the same job. Reads and writes `job_keys`. */
import { hash } from 'node:crypto'
import { canonicalJson } from '#kernel/canonical-json'
import { parseIdempotencyKey } from '#kernel/idempotency-key'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { query, type SqlReader, type WriteTx } from './database.ts'
import { requireJob } from './job-repository.ts'
import type { Scheduler } from './scheduler.ts'
import type { StoredJob } from './stored-rows.ts'

/** A key with the digest of its request; undefined: a request without a key. */
export type JobKey = { readonly key: string; readonly fingerprint: string } | undefined

const selectKey = query<{ job_id: string; fingerprint: string }, { key: string }>(
  'select job_id, fingerprint from job_keys where idempotency_key = $key',
)
const insertKey = query<never, { key: string; fingerprint: string; job_id: string }>(
  'insert into job_keys (idempotency_key, fingerprint, job_id) values ($key, $fingerprint, $job_id)',
)

export function readKey(text: string | undefined, asked: Readonly<Record<string, unknown>>): Decision<JobKey> {
  if (text === undefined) return accept(undefined)
  const key = parseIdempotencyKey(text)
  if (!key.ok) return { ...key, path: 'idempotency_key' }
  return accept({ key: key.value, fingerprint: hash('sha256', canonicalJson(asked as JsonObject)) })
}

/** Returns the job of an earlier request with this key, as it is now. Refuses the key of another request. */
export function findKeyed(reader: SqlReader, key: JobKey): Decision<StoredJob | undefined> {
  const first = key && reader.one(selectKey, { key: key.key })
  if (!first) return accept(undefined)
  if (first.fingerprint === key.fingerprint) return requireJob(reader, first.job_id)
  return refuse('key_reused', 'This key was used before for another request.', {
    path: 'idempotency_key',
    hint: 'Use a new key for a new request, and the same key only to repeat the same request.',
    facts: { job_id: encodeId('job', first.job_id) },
  })
}

export function readKeyed(scheduler: Scheduler, key: JobKey): Decision<StoredJob | undefined> {
  return scheduler.db.read((reader) => findKeyed(reader, key))
}

/** The key of a group is that of its first job. */
export function saveKey(tx: WriteTx, key: JobKey, jobId: string): void {
  if (key) tx.run(insertKey, { ...key, job_id: jobId })
}
