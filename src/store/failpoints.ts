/**
 * Named points where a test may kill, freeze, delay or break the process. Each costs one comparison and does nothing
 * unless `CONCORD_FAULTS` holds a plan: `[{ "point": "lane.committed", "hit": 3, "act": "kill" }]`.
 */
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { KernelFault } from '#kernel/errors'

/** Closed, so that a plan with a misspelt name fails and a run can report the points it never reached. */
export const failpointNames = [
  'transition.written',
  'lane.batch_taken',
  'lane.committed',
  'feed.page_read',
  // commands, in a request: between a write and its answer, or before its commit
  'commands.submitted',
  'commands.woken',
  'commands.inline_called',
  'commands.input_supplied',
  'commands.retry_written',
  'commands.cancel_written',
  'commands.cancel_committed',
  'commands.signal_written',
  'commands.signal_committed',
  'approvals.decision_read',
  'approvals.decision_written',
  'approvals.decision_committed',
  'approvals.notices_delivered',
  // turns that begin in this process: before the first step, and before the row is handed to the runtime
  'turns.begun',
  'turns.handing',
  // commands, in a turn: between a decision or write of a step and the next action
  'commands.taken_over',
  'commands.classified',
  'commands.policy_decided',
  'commands.planned',
  'commands.input_requested',
  'commands.approval_written',
  'commands.approval_requested',
  'commands.effect_begun',
  'commands.effect_called',
  'commands.effect_recorded',
  'commands.retry_recorded',
  'commands.wait_recorded',
  'commands.looked_up',
  'commands.outcome_asked',
  'commands.finishing',
  'commands.finished',
  'commands.dependents_marked',
  'commands.exit_settled',
  'commands.undo_planned',
  'commands.undo_begun',
  'commands.undo_called',
  'commands.undo_recorded',
  'commands.undo_finishing',
  'commands.reconciling',
  // alerts: the runtime has the incident, or a receiver was notified and the record of that is not written yet
  'commands.alert_raised',
  'commands.alert_delivered',
  // the runtime, around a turn
  'runtime.turn_begun',
  'runtime.turn_ending',
  'runtime.turn_ended',
  'runtime.reaping',
  // artifacts: the content is stored, its row is not
  'artifacts.blob_written',
  // schedules: before a due time becomes a command, and between the command and its record
  'schedules.due',
  'schedules.fired',
  // agent runs: a model call is paid for in advance, its cost is settled and not committed, the answer is stored, its calls are proposed, their outcome is recorded, the run waits
  'agents.cost_reserved',
  'agents.cost_settled',
  'agents.answer_written',
  'agents.step_proposed',
  'agents.step_recorded',
  'agents.wait_written',
  // swarms: the swarm is there, an agent of its plan was proposed, its run was awaited, the join is on record
  'agents.swarm_started',
  'agents.spawn_proposed',
  'agents.spawned',
  'agents.joining',
  // missions: the gate is submitted, attempts are submitted or retried and not on record, a batch is written and not committed, attempts are on record, a mission has ended,
  // a claim is written and not committed, the reconciler has found a mission that stands still and has not woken it
  'missions.gate_submitted',
  'missions.attempts_submitted',
  'missions.attempts_retried',
  'missions.batch_written',
  'missions.attempts_begun',
  'missions.ended',
  'missions.claim_written',
  'missions.stall_found',
  // flow: tasks and their outbox rows are written, outbox rows are claimed or handled and not done, a task is claimed, completed, failed, reaped or queued again, an event is
  // routed and not committed, a version is written and its pointer is not
  'flow.tasks_created',
  'flow.outbox_claimed',
  'flow.outbox_handled',
  'flow.claimed',
  'flow.heartbeat',
  'flow.operator_done',
  'flow.completed',
  'flow.failed',
  'flow.reaped',
  'flow.requeued',
  'flow.routed',
  'flow.version_written',
  // the history's archive: lines written, both files named, read back, rows deleted, committed
  'history.lines_written',
  'history.lines_named',
  'history.file_named',
  'history.verified',
  'history.deleted',
  'history.committed',
] as const
export type FailpointName = (typeof failpointNames)[number]

const acts = ['kill', 'freeze', 'throw', 'delay'] as const

export type PlannedFault = {
  readonly point: FailpointName
  /** Fires on this passage, counted from 1. */
  readonly hit: number
  readonly act: (typeof acts)[number]
  readonly delayMs?: number
  /** For `kill`: holds this many passages from `hit` on; the process ends when every such point of the plan has its number. */
  readonly together?: number
}

export class InjectedFault extends Error {
  constructor(name: FailpointName) {
    super(`A fault was injected at ${name}.`)
    this.name = 'InjectedFault'
  }
}

export function parsePlan(text: string): readonly PlannedFault[] {
  const plan: unknown = JSON.parse(text)
  if (!Array.isArray(plan)) throw new KernelFault('faults.plan', 'CONCORD_FAULTS must be a JSON list.')
  return plan.map((entry: PlannedFault) => {
    const known = failpointNames.includes(entry.point) && acts.includes(entry.act)
    const isCount = (value: number) => Number.isInteger(value) && value >= 1
    if (!known || !isCount(entry.hit) || !isCount(entry.together ?? 1)) {
      throw new KernelFault('faults.plan', 'CONCORD_FAULTS names an unknown point, act or hit.', { entry })
    }
    return entry
  })
}

/** Passes points for one plan; `coverFile` gets one line per passage, written before anything fires. */
export function openFailpoints(
  plan: readonly PlannedFault[],
  coverFile?: string,
): (name: FailpointName) => Promise<void> {
  const hits = new Map<FailpointName, number>()
  const gather = openGathering(plan, coverFile)
  return async (name) => {
    const hit = (hits.get(name) ?? 0) + 1
    hits.set(name, hit)
    // Synchronous, so that the line is on disk before the next line ends the process.
    if (coverFile !== undefined) appendFileSync(coverFile, `${name}\n`)
    for (const fault of plan) {
      if (fault.point !== name || hit < fault.hit) continue
      if (fault.together !== undefined) await gather(fault)
      else if (fault.hit === hit) await fire(fault)
    }
  }
}

/** The time limit for reaching the other points, with a margin for a busy machine. It also ends a plan that can never be met. */
const GATHER_MS = 20_000

/** Holds the planned number of passages at each point, and ends the process with all of them when every point has its number. */
function openGathering(plan: readonly PlannedFault[], coverFile: string | undefined) {
  const gathered = new Map(plan.filter(({ together }) => together !== undefined).map((fault) => [fault, 0]))
  let timer: NodeJS.Timeout | undefined
  const end = () => {
    const lines = [...gathered].map(([{ point: name }, count]) => `${name} cut ${count}\n`)
    if (coverFile !== undefined) appendFileSync(coverFile, lines.join(''))
    process.kill(process.pid, 'SIGKILL')
  }
  return async (fault: PlannedFault): Promise<void> => {
    const count = (gathered.get(fault) ?? 0) + 1
    if (count > (fault.together ?? 1)) return
    gathered.set(fault, count)
    timer ??= setTimeout(end, GATHER_MS)
    if ([...gathered].every(([{ together }, there]) => there === together)) end()
    return new Promise(() => {})
  }
}

async function fire(fault: PlannedFault): Promise<void> {
  switch (fault.act) {
    case 'kill':
      process.kill(process.pid, 'SIGKILL')
      return new Promise(() => {})
    case 'freeze':
      process.kill(process.pid, 'SIGSTOP')
      return
    case 'delay':
      await sleep(fault.delayMs ?? 0)
      return
    case 'throw':
      throw new InjectedFault(fault.point)
  }
}

const text = process.env['CONCORD_FAULTS']
const pass = text === undefined ? undefined : openFailpoints(parsePlan(text), process.env['CONCORD_FAULTS_COVER'])

/** Does nothing unless `CONCORD_FAULTS` plans a fault here. */
export function failpoint(name: FailpointName): Promise<void> | undefined {
  return pass?.(name)
}
