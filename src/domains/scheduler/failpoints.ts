/**
 * Failpoints: named points where a test kills, freezes or breaks the process. Without a plan, passing one costs one call.
 * Synchronous, like everything inside a transaction here.
 */
import { appendFileSync } from 'node:fs'

/** A closed list: a plan with a misspelt name fails, and a test run can report the points it never reached. */
export const schedulerPoints = [
  'submit.inserted',
  'submit.committed',
  'dispatch.before_claim',
  'dispatch.claimed',
  'dispatch.run_inserted',
  'dispatch.before_commit',
  'dispatch.committed',
  'run.started',
  'run.recorded',
  'run.ended',
  'finish.outcome',
  'finish.finished_at',
  'finish.retry_inserted',
  'finish.before_commit',
  'finish.committed',
  'notification.claimed',
  'notification.sent',
  'reservation.reserve',
  'reservation.renew',
  'reservation.release',
  'reservation.expire',
  'recovery.step_1',
  'recovery.step_2',
  'recovery.step_3',
  'schedule.before_insert',
  'schedule.after_insert',
] as const
export type SchedulerPoint = (typeof schedulerPoints)[number]

const faultActs = ['kill', 'freeze', 'throw'] as const

export type SchedulerFault = {
  readonly point: SchedulerPoint
  /** The number of the passage that fires, counted from 1. */
  readonly hit: number
  readonly act: (typeof faultActs)[number]
}

export type PointPlan = {
  readonly faults: readonly SchedulerFault[]
  /** Receives one line per passage, written before a fault fires. */
  readonly coverFile?: string | undefined
}

export class SchedulerFaultInjected extends Error {
  constructor(point: SchedulerPoint) {
    super(`A fault was injected at ${point}.`)
    this.name = 'SchedulerFaultInjected'
  }
}

export type PassPoint = (point: SchedulerPoint) => void

export function openSchedulerPoints(plan: PointPlan | undefined): PassPoint {
  if (plan === undefined) return () => {}
  const hits = new Map<SchedulerPoint, number>()
  return (point) => {
    const hit = (hits.get(point) ?? 0) + 1
    hits.set(point, hit)
    if (plan.coverFile !== undefined) appendFileSync(plan.coverFile, `${point}\n`)
    for (const fault of plan.faults) if (fault.point === point && fault.hit === hit) fire(fault)
  }
}

function fire({ point, act }: SchedulerFault): void {
  switch (act) {
    case 'kill':
      process.kill(process.pid, 'SIGKILL')
      return
    case 'freeze':
      process.kill(process.pid, 'SIGSTOP')
      return
    case 'throw':
      throw new SchedulerFaultInjected(point)
  }
}
