/**
 * The writes of one transaction of a mission: moves are decided in memory by the machines, then the rows, their events, the counters and the cards are
 * written with one statement each. The only writer of the states of missions and their tasks.
 */
import { postNotification } from '#domains/connectors'
import type { Actor, ActorType } from '#kernel/actor'
import { KernelFault } from '#kernel/errors'
import { isJsonObject, type JsonObject } from '#kernel/json-value'
import { decideMove, type Machine } from '#kernel/machine'
import {
  missionRunMachine,
  type MissionRunState,
  missionTaskMachine,
  type MissionTaskState,
} from '#kernel/machines/mission'
import { encodeId } from '#kernel/ids'
import { accept, type Decision, quote } from '#kernel/refusal'
import { appendEvents, eventIdOf, type Tx } from '#store'
import { noteAfter } from './auxiliary-rows.ts'
import { updateCards } from './board.ts'
import { missionCard, taskCard } from './cards.ts'
import { type MissionEvent, type MissionEventType, missionLog } from './events.ts'
import { updateTasks } from './mission-task.ts'
import { reportTasks } from './reports.ts'
import { type Aside, addCost, addTokens, type Usage } from './usage.ts'
import { lostRace, type StoredMission, type StoredTask, updateMission } from './mission.ts'

export type MissionActor = Actor<ActorType>

export type MissionMove<Row> = {
  readonly by: MissionActor
  readonly at: Date
  /** By event type. */
  readonly payloads?: Partial<Record<MissionEventType, JsonObject>>
  readonly set?: Partial<Row>
}

type MovedRow = Pick<
  StoredTask,
  'id' | 'state_type' | 'version_id' | 'started_at' | 'completed_at' | 'duration_ms' | 'updated_at'
>
type Links = { readonly run_id: string; readonly task_id: string | null }
type Moved<Row> = { readonly row: Row; readonly events: readonly MissionEvent[] }

export const draftOf = (
  type: MissionEventType,
  links: Links,
  { by, at, payloads }: MissionMove<never>,
): MissionEvent => ({
  eventId: links.task_id ?? links.run_id,
  type,
  payload: payloads?.[type] ?? {},
  actor: by.id,
  actorKind: by.kind,
  traceId: by.traceId,
  at,
  links,
})

/** One move: the machine decides; state type, version, stamps and duration follow from it. */
function move<Row extends MovedRow & { readonly state: S }, S extends string>(
  machine: Machine<S, ActorType, MissionEventType>,
  row: Row,
  links: Links,
  to: S,
  moving: MissionMove<Row>,
): Decision<Moved<Row>> {
  const decided = decideMove(machine, row.state, to, moving.by.kind)
  if (!decided.ok) return decided
  const { at, set } = moving
  const current: Readonly<Record<string, unknown>> = row
  const stamped = (machine.stamps ?? [])
    .filter(({ on }) => on.includes(to))
    .map(({ column, once }) => [column, once ? (current[column] ?? at) : at])
  const cleared = (machine.clears ?? []).filter(({ on }) => on.includes(to)).map(({ column }) => [column, null])
  const type = machine.states[to]
  const next: Row = {
    ...row,
    ...Object.fromEntries([...stamped, ...cleared]),
    ...set,
    state: to,
    state_type: type,
    version_id: row.version_id + 1,
    updated_at: at,
  }
  const tookMs = next.started_at === null ? 0 : Math.max(0, at.getTime() - next.started_at.getTime())
  const ended = type === 'terminal' ? { ...next, duration_ms: String(tookMs) } : next
  const events = decided.value.emits.map((emitted) => draftOf(emitted, links, moving as MissionMove<never>))
  return accept({ row: ended, events })
}

export const moveTask = (
  task: StoredTask,
  to: MissionTaskState,
  moving: MissionMove<StoredTask>,
): Decision<Moved<StoredTask>> => move(missionTaskMachine, task, { run_id: task.run_id, task_id: task.id }, to, moving)

export const moveMission = (
  run: StoredMission,
  to: MissionRunState,
  moving: MissionMove<StoredMission>,
): Decision<Moved<StoredMission>> => move(missionRunMachine, run, { run_id: run.id, task_id: null }, to, moving)

/** A task in another state has no attempt that could go on. */
const IN_ATTEMPT: readonly MissionTaskState[] = ['queued', 'assigned', 'running', 'continuing']

export const NO_LEASE = { lease_token: null, lease_until: null } as const

/** What a transaction will write. */
export class Batch {
  run: StoredMission
  readonly #runVersion: number
  readonly #tasks = new Map<string, { row: StoredTask; readonly version: number }>()
  readonly #events: MissionEvent[] = []
  readonly #ended: StoredTask[] = []
  /** Tasks whose attempt has ended. */
  readonly #left: StoredTask[] = []
  readonly #moved = new Set<string>()
  #cardMore: JsonObject = {}
  #notice: MissionMove<StoredMission> | undefined

  constructor(run: StoredMission) {
    this.run = run
    this.#runVersion = run.version_id
  }

  /** The task as it will be written. */
  taskOf(task: StoredTask): StoredTask {
    return this.#tasks.get(task.id)?.row ?? task
  }

  put(row: StoredTask): void {
    this.#tasks.set(row.id, { row, version: this.#tasks.get(row.id)?.version ?? row.version_id })
  }

  /** Changes fields of a task, without a move. */
  change(task: StoredTask, set: Partial<StoredTask>): StoredTask {
    const known = this.taskOf(task)
    const row = { ...known, ...set, version_id: known.version_id + 1 }
    this.#tasks.set(task.id, { row, version: this.#tasks.get(task.id)?.version ?? task.version_id })
    return row
  }

  /** The counter of a task that waits falls by one. */
  decrement(task: StoredTask): StoredTask {
    return this.change(task, { remaining: this.taskOf(task).remaining - 1 })
  }

  /** Moves a task, and counts it. A move that the machine refuses is a fault: the turn decided it. */
  task(task: StoredTask, to: MissionTaskState, moving: MissionMove<StoredTask>): StoredTask {
    const known = this.taskOf(task)
    const moved = valueOf(moveTask(known, to, moving))
    this.#moved.add(task.id)
    // A worker holds a task only while it is assigned or runs.
    const row = moved.row.state_type === 'running' ? moved.row : { ...moved.row, ...NO_LEASE }
    this.#tasks.set(task.id, { row, version: this.#tasks.get(task.id)?.version ?? task.version_id })
    this.#events.push(...moved.events)
    if (moved.row.state_type === 'terminal') this.#ended.push(moved.row)
    if (IN_ATTEMPT.includes(known.state) && !IN_ATTEMPT.includes(to) && row.started_at !== null) this.#left.push(row)
    if (to === 'completed') this.#count({ tasks_completed: this.run.tasks_completed + 1 })
    if (to === 'failed') this.#count({ tasks_failed: this.run.tasks_failed + 1 })
    if (to === 'running' && this.run.started_at === null) {
      this.#count({ started_at: moving.at })
      this.note('run_started', moving)
    }
    return row
  }

  /** Tasks that were added to the plan. */
  addTasks(count: number): void {
    this.#count({ task_count: this.run.task_count + count })
  }

  /** Adds what an attempt of a task has used to the task and to the mission; what another command has used to the mission alone. */
  spend(usage: Usage | Aside): void {
    const { cost, tokens } = usage
    if (cost === 0n && tokens === 0) return
    if ('task' in usage) {
      const known = this.taskOf(usage.task)
      this.change(usage.task, {
        cost: addCost(known.cost, cost),
        tokens_used: addTokens(known.tokens_used, tokens),
      })
    }
    const { total_cost, total_tokens } = this.run
    this.#count({ total_cost: addCost(total_cost, cost), total_tokens: addTokens(total_tokens, tokens) })
  }

  mission(to: MissionRunState, moving: MissionMove<StoredMission>, cardMore: JsonObject = {}): void {
    const moved = valueOf(moveMission(this.run, to, moving))
    this.run = moved.row
    this.#events.push(...moved.events)
    this.#cardMore = { ...this.#cardMore, ...cardMore }
    const { notifications } = this.run.config
    if (Array.isArray(notifications) && notifications.includes(to)) this.#notice = moving
  }

  /** An event without a move. */
  note(
    type: MissionEventType,
    moving: Pick<MissionMove<never>, 'by' | 'at' | 'payloads'>,
    taskId: string | null = null,
  ): void {
    this.#events.push(draftOf(type, { run_id: this.run.id, task_id: taskId }, moving))
  }

  #count(change: Partial<StoredMission>): void {
    const isRaised = this.run.version_id > this.#runVersion
    this.run = { ...this.run, ...change, version_id: this.run.version_id + (isRaised ? 0 : 1) }
  }

  /** Under the lock of the mission no other writer can be first. */
  async commit(tx: Tx): Promise<void> {
    const writes = [...this.#tasks.values()]
    const written = await updateTasks(tx, writes)
    if (written.size !== writes.length) throw lostRace('a task')
    const isRunChanged = this.run.version_id !== this.#runVersion
    if (isRunChanged && !(await updateMission(tx, this.run, this.#runVersion))) throw lostRace('the row')
    await appendEvents(tx, missionLog, this.#events)
    await reportTasks(tx, this.#ended)
    const { hooks = null } = this.run.config
    // A mission that has ended asks for nothing more.
    if (this.run.state_type !== 'terminal' && isJsonObject(hooks) && 'after_run' in hooks)
      await noteAfter(tx, this.#left)
    // A heartbeat or a counter is no news for a card.
    const shown = writes.filter(({ row }) => row.board_task_id !== null && this.#moved.has(row.id))
    const cards = shown.map(({ row }) => taskCard(row))
    if (isRunChanged) cards.push(missionCard(this.run, this.#cardMore))
    // The board shows missions and does not steer them: a card that cannot be written does not stop a task.
    if (cards.length > 0) await tx.savepoint((inner) => updateCards(inner, cards)).catch(() => undefined)
    if (this.#notice) await notify(tx, this.run, this.#notice)
  }
}

/** A message to the requester, once for each version of the mission that says so. */
function notify(tx: Tx, run: StoredMission, { by, at }: MissionMove<StoredMission>): Promise<void> {
  const {
    id,
    workspace_id: workspaceId,
    command_id: commandId,
    title,
    state,
    version_id,
    error_message,
    created_by,
  } = run
  const key = `mission:${id}:notice:${version_id}`
  const note = { workspaceId, commandId, traceId: by.traceId, recipient: created_by, at }
  const text = `concord missions show ${encodeId('mission', id)}${error_message === null ? '' : `\n${error_message}`}`
  const subject = `The mission ${quote(title)} is ${state.replace('_', ' ')}`
  return postNotification(tx, { id: eventIdOf(key), key, ...note, subject, text })
}

function valueOf<T>(decision: Decision<T>): T {
  if (decision.ok) return decision.value
  throw new KernelFault('missions.move.refused', decision.reason)
}
