/** What this room needs from whoever starts the work, and what it hands over; the work itself never runs in here. */
import type { JsonObject } from '#kernel/json-value'
import type { StoredJob } from './stored-rows.ts'

/** A run that is written down as started: from here on it must be finished, by its runner or by recovery. */
export type ClaimedRun = {
  readonly runId: string
  readonly job: StoredJob
  readonly params: JsonObject
  /** Counted from 1: the original is the first attempt. */
  readonly attempt: number
}

/**
 * Names a child process beyond doubt. A number alone is given again to a stranger; with the time it started and the boot it
 * started in it is not. `runId` also stands in the environment of the child, so that one that died with its
 * scheduler before the number was written down can still be found.
 */
export type ProcessIdentity = {
  readonly runId: string
  readonly jobId: string
  readonly pid: number | null
  readonly startedAt: string | null
  readonly bootId: string | null
}

/** `gone`: there was none; `ended`: it lived and has ended with all its children; `alive`: it could not be ended. */
export type OrphanEnd = 'gone' | 'ended' | 'alive'

export type RunnerPort = {
  /** Called for every run that a dead scheduler left open, before anything about it is written. */
  endOrphan(identity: ProcessIdentity): Promise<OrphanEnd>
}
