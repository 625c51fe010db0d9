/**
 * The turn of a mission. Each step reads rows, decides, and writes one transaction under the lock of the mission; what it does outside of its rows is a
 * command with a key of its own. A turn that is given again continues where the rows stand.
 */
import { cancelCommand } from '#domains/commands'
import { bySystem } from '#kernel/actor'
import type { Drive } from '#runtime'
import { failpoint } from '#store'
import { settleAuxiliaries } from './auxiliary.ts'
import { readMissionConfig } from './config.ts'
import type { MissionDeps } from './deps.ts'
import { cancel, end, leave } from './end-mission.ts'
import { lockMission, setGate } from './mission.ts'
import { coordinator, planReady } from './plan-rows.ts'
import { makePlan } from './planner.ts'
import { work } from './run-tasks.ts'
import { findPlanDecision, readMissionPlan, submitGate } from './start-plan.ts'
import { actAsRequester, findOrigin, type Found, restUntil, type Taken, write } from './turn.ts'

const STEPS_MAX = 200

export function openMissionDrive(deps: MissionDeps): Drive {
  return async (id) => {
    for (let steps = 0; steps < STEPS_MAX; steps++) {
      const next = await step(deps, id)
      if (next) return next
    }
    return { t: 'again' }
  }
}

async function step(deps: MissionDeps, id: string): Promise<Taken> {
  const { db } = deps.commands
  const run = await db.transaction((tx) => lockMission(tx, id))
  const [origin] = run ? await db.run(findOrigin, [id]) : []
  if (!run || !origin) return { t: 'done' }
  if (run.state_type === 'terminal') return leave(deps, run, origin)
  if (origin.cancellation_requested) return cancel(deps, { run, origin })
  const config = readMissionConfig(run.config)
  if (!config.ok) {
    // No move leads from a pause to a failure.
    if (run.state_type === 'paused') return cancel(deps, { run, origin }, config.reason)
    return end(deps, { run, origin }, 'failed', config.reason, null)
  }
  const found: Found = { run, origin, config: config.value }
  if (origin.completed_at !== null) return endWith(deps, found)
  if (origin.has_auxiliary && run.state !== 'paused') return settleAuxiliaries(deps, found)
  switch (run.state) {
    case 'pending':
      // A rule, a person or a stop may hold the command of the mission. Its begin and its end wake the mission.
      if (!origin.is_begun) return restUntil(deps, run, null)
      return write(deps, run, (batch, at) =>
        batch.mission('planning', {
          by: coordinator(origin.context.trace_id),
          at,
          payloads: { run_planning_started: { coordinator_model: null } },
        }),
      )
    case 'planning':
    case 'awaiting_approval':
      return waitForGate(deps, found)
    case 'running':
    case 'budget_exceeded':
      return work(deps, found)
    default:
      return restUntil(deps, run, null)
  }
}

/** The command of the mission has ended without it, for example because a rule denied it. */
function endWith(deps: MissionDeps, found: Found): Promise<undefined> {
  const { status, error } = found.origin
  const reason = error ?? `The command of the mission is ${status}.`
  return found.run.state === 'pending' ? end(deps, found, 'failed', reason, null) : cancel(deps, found, reason)
}

const WAITS = ['waiting_for_approval', 'waiting_for_input']
const ENDED = ['succeeded', 'failed', 'cancelled', 'expired', 'compensated']

async function waitForGate(deps: MissionDeps, found: Found): Promise<Taken> {
  const { run, origin } = found
  const status = origin.gate_status
  if (status === null) return askForStart(deps, found)
  if (origin.is_gate_stale) return dropGate(deps, found)
  if (WAITS.includes(status) && run.state === 'planning') return planned(deps, found)
  if (!ENDED.includes(status) || status === 'succeeded') return restUntil(deps, run, null)
  const ended = `The start of the plan is ${status}.`
  if (status === 'cancelled' || status === 'expired') return cancel(deps, found, ended)
  const decision =
    run.gate_command_id === null ? undefined : await findPlanDecision(deps.commands.db, run.gate_command_id)
  if (decision?.status === 'rejected')
    return end(deps, found, 'failed', decision.decision_reason ?? ended, decision.decided_by)
  return end(deps, found, 'failed', origin.gate_error ?? ended, null)
}

/** The start of another version of the plan was asked for. Nobody can decide about that one any more. */
async function dropGate({ commands }: MissionDeps, { run, origin }: Found): Promise<Taken> {
  const { workspace_id: workspaceId, gate_command_id: commandId } = run
  const reason = 'its plan was changed'
  if (commandId !== null)
    await cancelCommand(commands, bySystem(origin.context.trace_id), { workspaceId, commandId, reason })
  await setGate(commands.db, run.id, null)
  return undefined
}

async function askForStart(deps: MissionDeps, found: Found): Promise<Taken> {
  const { run, origin } = found
  const made = await makePlan(deps, found)
  if (!made.ok) return end(deps, found, 'failed', made.reason, null)
  if (made.value !== 'planned') return made.value === 'waits' ? restUntil(deps, run, null) : undefined
  const read = await readMissionPlan(deps, run.workspace_id, run.id)
  if (!read?.ok) return end(deps, found, 'failed', read?.reason ?? 'The mission is gone.', null)
  const by = await actAsRequester(deps.commands, run, origin)
  const gate = by.ok ? await submitGate(deps, by.value, read.value, origin) : by
  if (!gate.ok) return end(deps, found, 'failed', gate.reason, null)
  await failpoint('missions.gate_submitted')
  await setGate(deps.commands.db, run.id, gate.value)
  return undefined
}

async function planned(deps: MissionDeps, { run, origin }: Found): Promise<Taken> {
  const read = await readMissionPlan(deps, run.workspace_id, run.id)
  if (!read?.ok) return restUntil(deps, run, null)
  const { plan } = read.value
  const more = { strategy: plan.strategy, estimated_cost: plan.estimated_cost }
  return write(deps, run, (batch, at) =>
    batch.mission(
      'awaiting_approval',
      { by: coordinator(origin.context.trace_id), at, payloads: planReady(plan) },
      more,
    ),
  )
}
