/** The commits of a turn: each names the token of the turn, and holds the state, the steps, the messages and the wakes that belong together. */
import { COMMAND_KIND, type JoinedInsert, showRunWait, wakeOptionsOf } from '#domains/commands'
import { type AgentStep, toAgentStepEvent } from '#kernel/agent-step'
import { KernelFault } from '#kernel/errors'
import type { AgentRunState } from '#kernel/machines/agent'
import { appendEvents, constraintOf, type EventDraft, outcomeOf, statement, together, type Tx } from '#store'
import type { Turn } from '#turns'
import type { AgentRunEnd, OpenState } from './advance-run.ts'
import {
  appendMessages,
  insertMessagesOf,
  type NewMessage,
  type StoredAgentMessage,
  toMessageRows,
} from './agent-message.ts'
import { runTable, type RunNotes, type StoredAgentRun } from './agent-run.ts'
import type { PaidAnswer } from './ask-agent.ts'
import type { AgentDeps } from './deps.ts'
import { runLog } from './events.ts'
import { joinStep } from './join-step.ts'
import { type FoundRun, HELD_COLUMNS, type HeldRun, lockHeld, lockRunIf, runTurns } from './read-run.ts'
import { closeRunAccount } from './run-account.ts'
import { followRun, noteDeniedSpawns } from './swarms/swarm-run.ts'

export type RunTurn = Turn<FoundRun>

const [worker, system] = [{ id: 'worker', kind: 'worker' } as const, { id: 'system', kind: 'system' } as const]

/** $1 run, $2 due at. */
const release = statement<StoredAgentRun>(
  'agents.release_turn',
  `update concord.agent_runs as t set turn_token = null, turn_until = null, run_after = $2 where t.agent_run_id = $1::uuid returning t.*`,
)

/** $1 run, $2 token, $3 status, $4 steps before, $5 steps after, $6 erasures. No row: the turn does not hold the run as it has read it. */
const countHeld = statement<HeldRun>(
  'agents.count_held',
  `update concord.agent_runs as t set step_count = $5 from concord.commands as c
where t.agent_run_id = $1::uuid and t.turn_token = $2::uuid and (t.status = $3) is true and t.step_count = $4 and t.erasures = $6 and c.command_id = t.command_id
returning ${HELD_COLUMNS}`,
)

/** $1 run, $2 steps, $3 cost, $4 notes. */
const countSteps = statement<StoredAgentRun>(
  'agents.count_steps',
  `update concord.agent_runs as t set step_count = $2, cost_units = t.cost_units + $3::numeric, metadata = $4::jsonb
where t.agent_run_id = $1::uuid returning t.*`,
)

/**
 * Adds the answer $2 to the run $1 that the turn of the token $3 holds and that has $4 steps and $5 erasures. No message: the run has got another one since the statement began.
 * The commit does not wait for the disk. The next commit of the turn, which proposes the calls of the answer or records its step, makes both durable: nothing that follows
 * from the answer can outlast it.
 */
const addAnswer = statement<HeldRun & { readonly message: StoredAgentMessage | null }>(
  'agents.add_answer',
  `with held as materialized (${lockRunIf('t.turn_token = $3::uuid and t.step_count = $4 and t.erasures = $5')}), added as (${insertMessagesOf('held')} on conflict (agent_run_id, position) do nothing returning *)
select h.*, to_jsonb(a) as message from held as h left join added as a on true, set_config('synchronous_commit', 'off', true)`,
)

/** What a commit leaves: the row, and the messages that it has added. */
type Written = { readonly run: StoredAgentRun; readonly messages?: readonly StoredAgentMessage[] }

/**
 * Runs the work in one transaction on the row that the turn holds; the turn then has the new row and messages without another read. False: nothing
 * was written, because a later turn has the row, or because the row has changed since it was read. The turn then decides again. After an erasure it has read everything
 * again. Each commit also looks for a stop.
 */
async function commitHeld(
  { commands: { db, now } }: AgentDeps,
  turn: RunTurn,
  work: (tx: Tx, run: StoredAgentRun, at: Date) => Promise<Written>,
  { isDecided = true } = {},
): Promise<boolean> {
  const at = now()
  const { found } = turn
  const { held, written } = await db.transactionFrom(
    async (tx) => (await tx.run(lockHeld, [turn.process.id, turn.token]))[0],
    async (tx, row) => {
      if (!row) return { held: undefined, written: undefined }
      const { stop, ...changed } = row
      const run = { ...found.run, ...changed }
      const isSame = run.status === found.run.status && run.step_count === found.run.step_count
      const isErased = run.erasures !== found.run.erasures
      const isWriting = !isErased && (isSame || !isDecided)
      return { held: { run, stop, isSame }, written: isWriting ? await work(tx, run, at) : undefined }
    },
  )
  turn.isLost = held === undefined
  turn.heldAt = at
  if (written && held) keepFound(turn, written, held)
  else if (held) turn.found = await runTurns.read(db, held.run)
  return written !== undefined
}

/** The turn goes on with what its commit has left. */
function keepFound(
  turn: RunTurn,
  { run, messages = [] }: Written,
  { stop, isSame }: Pick<HeldRun, 'stop'> & { readonly isSame: boolean },
): void {
  const { found } = turn
  const isAnswered = messages[0]?.message_role === 'assistant'
  turn.found = {
    ...found,
    run,
    origin: { ...found.origin, stop },
    messages: isAnswered ? messages : [...found.messages, ...messages],
    // An action from outside of Concord adds a message with its step.
    conversation: isSame && found.conversation ? [...found.conversation, ...messages] : null,
    commands: isAnswered ? new Map() : found.commands,
    others: null,
  }
}

/** Reads the run again. */
export async function refresh({ commands: { db } }: AgentDeps, turn: RunTurn): Promise<void> {
  const run = await runTable.find(db, turn.found.run.workspace_id, turn.process.id)
  if (!run || run.turn_token !== turn.token) turn.isLost = true
  else turn.found = await runTurns.read(db, run)
}

type Moving = Pick<AgentDeps['commands'], 'newId' | 'now' | 'wake' | 'writes'> & { readonly traceId: string }

/** With the queue of the command that waits for the run: its turn begins there at once. */
type Ending = Moving & { readonly wakeOptions: { readonly queue?: string } }

const movingOf = ({ commands }: AgentDeps, { found }: RunTurn): Ending => ({
  newId: commands.newId,
  now: commands.now,
  wake: commands.wake,
  writes: commands.writes,
  traceId: found.origin.context.trace_id,
  wakeOptions: wakeOptionsOf(commands.catalog, found.origin),
})

async function moveRun(
  tx: Tx,
  moving: Moving,
  run: StoredAgentRun,
  to: AgentRunState,
  at: Date,
  set: Partial<StoredAgentRun> = {},
): Promise<StoredAgentRun> {
  const { newId, traceId } = moving
  const isUnbegun = run.status === 'created' || run.status === 'queued'
  const by = to === 'expired' || to === 'cancelling' || (to === 'cancelled' && isUnbegun) ? system : worker
  const moved = await runTable.transition(tx, run, to, { ...by, traceId }, { at, newId, set })
  if (!moved.ok) throw new KernelFault('agents.run.moved', moved.reason)
  const isEnd = to === 'succeeded' || to === 'failed' || to === 'cancelled' || to === 'expired'
  if (isEnd || to === 'running') await followRun(tx, moving, run, to, at)
  return moved.row
}

export function beginRun(deps: AgentDeps, turn: RunTurn): Promise<boolean> {
  return commitHeld(deps, turn, async (tx, run, at) => {
    const begun = await moveRun(tx, movingOf(deps, turn), run, 'running', at)
    await deps.models.reserveLastTurn(tx, run)
    return { run: begun }
  })
}

/** The answer is on record before anything in it is proposed. A failure of the runtime before it no longer counts. */
export async function writeAnswer(
  deps: AgentDeps,
  turn: RunTurn,
  message: NewMessage,
  paid: readonly PaidAnswer[],
): Promise<void> {
  const hasFailed = turn.found.run.metadata.failures !== undefined
  if (paid.length === 0 && !hasFailed && (await writeFreeAnswer(deps, turn, message))) return
  const write = async (tx: Tx, run: StoredAgentRun, at: Date): Promise<Written> => {
    for (const answer of paid) await answer.settle(tx)
    const { failures: _failures, error: _error, ...notes } = run.metadata
    const [[counted], messages] = await together([
      tx.run(countSteps, [run.agent_run_id, run.step_count, message.metadata?.cost_units ?? 0, notes]),
      appendMessages(tx, deps.commands.newId, run, [{ ...message, stepIndex: run.step_count }], at),
    ])
    return { run: counted ?? run, messages }
  }
  // The answer is kept, whatever has happened to the run meanwhile. Only after an erasure it is not: it may repeat what was erased. It was paid for.
  const isKept = await commitHeld(deps, turn, write, { isDecided: false })
  if (!isKept && !turn.isLost) for (const answer of paid) await answer.settle(deps.commands.db)
}

/** False: nothing was written, because the run is not as the turn has read it. */
async function writeFreeAnswer(
  { commands: { db, now, newId } }: AgentDeps,
  turn: RunTurn,
  message: NewMessage,
): Promise<boolean> {
  const at = now()
  const { agent_run_id, step_count, erasures } = turn.found.run
  const rows = toMessageRows(newId, [{ ...message, stepIndex: step_count }], at)
  const [held] = await db.run(addAnswer, [agent_run_id, rows, turn.token, step_count, erasures])
  if (!held?.message) return false
  const { message: added, stop, ...changed } = held
  turn.heldAt = at
  keepFound(
    turn,
    { run: { ...turn.found.run, ...changed }, messages: [{ ...added, created_at: at }] },
    { stop, isSame: true },
  )
  return true
}

/** A call that made no command has its observation at once: a later turn finds it, and does not propose the call again. */
export function writeRefused(deps: AgentDeps, turn: RunTurn, observations: readonly NewMessage[]): Promise<boolean> {
  const write = async (tx: Tx, run: StoredAgentRun, at: Date): Promise<Written> => {
    return { run, messages: await appendMessages(tx, deps.commands.newId, run, observations, at) }
  }
  return commitHeld(deps, turn, write, { isDecided: false })
}

export type Recorded = {
  readonly steps: readonly AgentStep[]
  readonly messages: readonly NewMessage[]
  readonly end: AgentRunEnd | null
  readonly notes?: Partial<RunNotes> | undefined
}

function stepEvents(
  { newId, traceId }: Pick<Moving, 'newId' | 'traceId'>,
  run: StoredAgentRun,
  steps: readonly AgentStep[],
  at: Date,
): EventDraft<AgentStep['action_type']>[] {
  const { workspace_id, command_id, agent_run_id, swarm_run_id } = run
  return steps.map((step) => {
    const { event_type: type, payload, columns } = toAgentStepEvent(step)
    const { latency_ms, token_usage, cost_units, tool_name, step_index } = columns
    return {
      eventId: newId(),
      type,
      payload,
      measures: { tool_name, latency_ms, token_usage, cost_units },
      actor: `agent:${agent_run_id}`,
      actorKind: 'worker',
      traceId,
      at,
      links: { workspace_id, command_id, agent_run_id, swarm_run_id, step_index },
    }
  })
}

/** The step of an action from outside of Concord and its message, under the lock of the run and without a turn. */
export async function writeOwnStep(
  tx: Tx,
  moving: Moving,
  run: StoredAgentRun,
  step: AgentStep,
  message: NewMessage,
): Promise<void> {
  const at = moving.now()
  await appendEvents(tx, runLog, stepEvents(moving, run, [step], at))
  await appendMessages(tx, moving.newId, run, [message], at)
  await tx.run(countSteps, [run.agent_run_id, run.step_count + 1, 0, run.metadata])
}

/**
 * The steps, the observations, the count and the end are one commit. Its statements go together: what was written is rolled back if the turn does not hold the run as it
 * has read it.
 */
export async function writeSteps(
  deps: AgentDeps,
  turn: RunTurn,
  { steps, messages, end, notes }: Recorded,
): Promise<boolean> {
  const { db, now, newId } = deps.commands
  const moving = movingOf(deps, turn)
  const at = now()
  const { agent_run_id, status, step_count, max_steps, erasures } = turn.found.run
  // The answer of a run without steps left is no step.
  const own = steps.slice(0, max_steps - step_count)
  const write = async (tx: Tx): Promise<Written & Pick<HeldRun, 'stop'>> => {
    const [[counted], , added] = await together([
      tx.run(countHeld, [agent_run_id, turn.token, status, step_count, step_count + own.length, erasures]),
      appendEvents(tx, runLog, stepEvents(moving, turn.found.run, own, at)),
      messages.length > 0 ? appendMessages(tx, newId, turn.found.run, messages, at) : [],
    ])
    if (!counted) throw new NothingWritten()
    const { stop, ...changed } = counted
    const run = { ...turn.found.run, ...changed }
    await noteDeniedSpawns(tx, moving, run, own, at)
    if (end) return { run: await endIn(tx, moving, run, end, at, notes), messages: added, stop }
    if (isForPeople(status)) await showWait(tx, moving, run, false)
    return { run: status === 'running' ? run : await moveRun(tx, moving, run, 'running', at), messages: added, stop }
  }
  try {
    const written = await db.transaction(write)
    turn.heldAt = at
    keepFound(turn, written, { stop: written.stop, isSame: true })
    return true
  } catch (error) {
    if (!(error instanceof NothingWritten)) throw error
    await refresh(deps, turn)
    return false
  }
}

/** Inserts the command of a call with what is joined to it. Undefined: nothing was written. */
export type InsertWith = <Row>(joined: JoinedInsert<Row>) => Promise<Row | undefined>

/** The command of a call, its step and its observation are one statement. False: nothing was written; the command and the step are committed one after the other. */
export async function writeStepWith(
  deps: AgentDeps,
  turn: RunTurn,
  { steps, messages }: Pick<Recorded, 'steps' | 'messages'>,
  insert: InsertWith,
): Promise<boolean> {
  const { newId, now } = deps.commands
  const at = now()
  const { run } = turn.found
  const [event] = stepEvents(movingOf(deps, turn), run, steps, at)
  if (!event || steps.length > 1 || messages.length !== 1 || run.step_count >= run.max_steps) return false
  const { agent_run_id: agentRunId, step_count: stepCount, erasures } = run
  const rows = toMessageRows(newId, messages, at)
  const joined = joinStep({ agentRunId, token: turn.token, stepCount, erasures, messages: rows, event })
  const written = await insert(joined).catch(refuseRace)
  if (!written) return false
  const { message, stop, ...changed } = written
  turn.heldAt = at
  const counted = { ...run, ...changed, step_count: stepCount + 1 }
  keepFound(turn, { run: counted, messages: [{ ...message, created_at: at }] }, { stop, isSame: true })
  return true
}

/** The run has got another message since the statement began, or another transaction was in the way. */
function refuseRace(error: unknown): undefined {
  if (constraintOf(error) !== 'agent_messages_position_uq' && outcomeOf(error) !== 'again') throw error
}

/** Rolls the commit of steps back. */
class NothingWritten extends Error {}

export function writeEnd(
  deps: AgentDeps,
  turn: RunTurn,
  end: AgentRunEnd,
  notes?: Partial<RunNotes>,
): Promise<boolean> {
  return commitHeld(deps, turn, async (tx, run, at) => ({
    run: await endIn(tx, movingOf(deps, turn), run, end, at, notes),
  }))
}

async function endIn(
  tx: Tx,
  moving: Ending,
  run: StoredAgentRun,
  end: AgentRunEnd,
  at: Date,
  notes: Partial<RunNotes> = {},
): Promise<StoredAgentRun> {
  // A run that is cancelled while a person is asked leaves its command blocked until here.
  if (isForPeople(run.status) || run.status === 'cancelling') await showWait(tx, moving, run, false)
  const metadata = { ...run.metadata, ...notes }
  const set = { metadata, end_reason: end.reason, run_after: null, turn_token: null, turn_until: null }
  // A run succeeds from `running`; a cancelled one has passed through `cancelling` unless it never began.
  const first = viaOf(run.status, end.status)
  const from = first ? await moveRun(tx, moving, run, first, at) : run
  const ended = await moveRun(tx, moving, from, end.status, at, set)
  await closeRunAccount(tx, run, moving.traceId, at)
  await moving.wake({ kind: COMMAND_KIND, id: run.command_id }, { tx, ...moving.wakeOptions })
  return ended
}

function viaOf(status: AgentRunState, to: AgentRunEnd['status']): AgentRunState | undefined {
  if (to === 'succeeded' && status !== 'running') return 'running'
  if (to === 'cancelled' && status !== 'cancelling' && status !== 'created' && status !== 'queued') return 'cancelling'
  return undefined
}

const isForPeople = (status: AgentRunState) => status === 'waiting_for_approval' || status === 'waiting_for_input'

/** The command of the run is `blocked` only while a person is asked. */
function showWait(tx: Tx, moving: Moving, run: StoredAgentRun, waitsForPeople: boolean): Promise<void> {
  const { workspace_id: workspaceId, command_id: commandId, agent_run_id: agentRunId } = run
  return showRunWait(tx, moving, { workspaceId, commandId, agentRunId, waitsForPeople })
}

/** Nothing of the run works until the time, or until a wake. */
export function writeWait(
  deps: AgentDeps,
  turn: RunTurn,
  status: OpenState,
  until: Date | null,
  notes?: Partial<RunNotes>,
): Promise<boolean> {
  return commitHeld(deps, turn, async (tx, run, at) => {
    const moving = movingOf(deps, turn)
    const isWaiting = run.status.startsWith('waiting_for_')
    const back = isWaiting && run.status !== status ? await moveRun(tx, moving, run, 'running', at) : run
    if (back.status !== status) await moveRun(tx, moving, back, status, at)
    if (isForPeople(run.status) || isForPeople(status)) await showWait(tx, moving, run, isForPeople(status))
    if (notes) await tx.run(countSteps, [run.agent_run_id, run.step_count, 0, { ...run.metadata, ...notes }])
    const [released] = await tx.run(release, [run.agent_run_id, until])
    return { run: released ?? run }
  })
}
