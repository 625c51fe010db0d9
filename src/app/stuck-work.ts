/**
 * Lists, resumes and aborts work that gets no more turns, for operators. Opens the database for each call.
 * The transaction of an action also records it.
 */
import { recordResumedRun } from '#domains/agents'
import { APPROVAL_KIND, recordResumedApproval } from '#domains/approvals'
import {
  abortCommand,
  COMMAND_KIND,
  listParked,
  type Operating,
  resumeCommand,
  RUN_KIND,
  SWARM_KIND,
} from '#domains/commands'
import { FIRING_KIND, recordResumedSchedule } from '#domains/command-schedules'
import { MISSION_KIND, recordResumedMission } from '#domains/missions'
import { decodeId, encodeId, type IdKind, isUuid, textId } from '#kernel/ids'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type Process, type Runtime, SCHEDULE_KIND } from '#runtime'
import { type Db, openDb, type Tx } from '#store'
import type { Config } from './config.ts'
import { openLog } from './log.ts'
import { createEngineRuntime } from './open-runtime.ts'
import { openStore } from './open-store.ts'
import { systemDeps } from './system-deps.ts'

export type StuckWork = {
  readonly kind: string
  /** The public id: `cmd_…` for a command, `mission_…` for a mission. */
  readonly id: string
  readonly why: string
  readonly detail: string
  readonly since: string
}

const LIMIT = 1_000

export function listStuckWork(config: Config): Promise<Decision<readonly StuckWork[]>> {
  return withRuntime(config, async (runtime, db) => accept((await listAll(runtime, db)).map(({ work }) => work)))
}

/** `actor` is `operator:` and the login on this machine. */
type ByOperator = { readonly actor: string; readonly reason: string }

/** Resumes all stuck work, or the one with this id, and returns what it resumed. */
export function resumeWork(
  config: Config,
  id: string | undefined,
  by: ByOperator,
): Promise<Decision<readonly StuckWork[]>> {
  return withRuntime(config, async (runtime, db) => {
    const all = await listAll(runtime, db)
    const chosen = all.filter(({ work, process }) => id === undefined || work.id === id || process.id === id)
    if (id !== undefined && chosen.length === 0) {
      return refuse('runtime.process.not_stuck', `Nothing with the id ${id.slice(0, 80)} is stuck.`, {
        path: 'id',
        hint: '`concord stuck` lists what is stuck.',
      })
    }
    const operating = operatingOn(runtime)
    for (const found of chosen) await db.transaction((tx) => resumeOne(operating, tx, found, by))
    return accept(chosen.map(({ work }) => work))
  })
}

type OperatingHere = Operating & { readonly traceId: string }

function operatingOn(runtime: Runtime): OperatingHere {
  const { now, newId, randomBytes } = systemDeps()
  return { runtime, now, newId, traceId: textId('trace', randomBytes(16)) }
}

/** Does nothing if another operator has resumed the work in the meantime. */
async function resumeOne(
  operating: OperatingHere,
  tx: Tx,
  { work: { why }, process, isParked }: Found,
  { actor, reason }: ByOperator,
): Promise<void> {
  const { traceId, newId, runtime } = operating
  const by = { id: actor, kind: 'operator', traceId } as const
  if (process.kind === COMMAND_KIND) {
    const act = { commandId: process.id, actor, traceId, reason, why, isParked }
    if (await resumeCommand(operating, tx, act)) return
  }
  if (!(await runtime.resume(process, { tx })).ok) return
  if (process.kind === APPROVAL_KIND) await recordResumedApproval(tx, newId, by, { id: process.id, why, reason })
  if (process.kind === FIRING_KIND || process.kind === SCHEDULE_KIND)
    await recordResumedSchedule(tx, operating, by, { process, why, reason })
  const at = operating.now()
  if (process.kind === MISSION_KIND) await recordResumedMission(tx, by, { id: process.id, why, reason, at })
  if (process.kind === RUN_KIND || process.kind === SWARM_KIND)
    await recordResumedRun(tx, newId, by, { process, why, reason, at })
}

/** Ends the command without running it again. Completed effects stay; nothing is undone. */
export function abortWork(config: Config, id: string, { actor, reason }: ByOperator): Promise<Decision<StuckWork>> {
  return withRuntime(config, async (runtime, db) => {
    const commandId = isUuid(id) ? accept(id) : decodeId('command', id)
    if (!commandId.ok) return commandId
    const operating = operatingOn(runtime)
    const act = { commandId: commandId.value, actor, traceId: operating.traceId, reason }
    const aborted = await db.transaction((tx) => abortCommand(operating, tx, act))
    if (!aborted.ok) return aborted
    const since = operating.now().toISOString()
    const shown = encodeId('command', commandId.value)
    return accept({ kind: COMMAND_KIND, id: shown, why: 'aborted', detail: reason, since })
  })
}

type Found = { readonly work: StuckWork; readonly process: Process; readonly isParked: boolean }

/** Lists processes that the runtime no longer retries, and commands whose task is not in the catalog. */
async function listAll(runtime: Runtime, db: Db): Promise<readonly Found[]> {
  const stuck = await runtime.stuck({ limit: LIMIT })
  const parked = await listParked(db, LIMIT)
  return [
    ...stuck.map((each) => {
      const { kind, why, detail, since } = each
      const work = { kind, id: shownId(each), why, detail, since: since.toISOString() }
      return { work, process: each, isParked: false }
    }),
    ...parked.map(({ command_id, error, since }) => {
      const process = { kind: COMMAND_KIND, id: command_id }
      const work = {
        kind: COMMAND_KIND,
        id: shownId(process),
        why: 'task_gone',
        detail: error,
        since: since.toISOString(),
      }
      return { work, process, isParked: true }
    }),
  ]
}

/** The kinds whose processes have the id of a row, with the noun of their public id. */
const nouns: Readonly<Record<string, IdKind>> = {
  [COMMAND_KIND]: 'command',
  [MISSION_KIND]: 'mission',
  [RUN_KIND]: 'agent_run',
  [SWARM_KIND]: 'swarm_run',
}

function shownId({ kind, id }: Process): string {
  const noun = nouns[kind]
  return noun !== undefined && isUuid(id) ? encodeId(noun, id) : id
}

async function withRuntime<T>(
  config: Config,
  work: (runtime: Runtime, db: Db) => Promise<Decision<T>>,
): Promise<Decision<T>> {
  const store = await openStore(config, openLog(config.logLevel ?? 'error'))
  if (!store.ok) return store
  const db = openDb({ url: store.value.url, role: 'concord_engine', poolMax: 1 })
  const { engine, environmentName } = config
  const runtime = createEngineRuntime({ engine, environmentName, db, works: false })
  try {
    const opened = await runtime.open()
    return opened.ok ? await work(runtime, db) : opened
  } finally {
    await runtime.close()
    await db.close()
    await store.value.close()
  }
}
