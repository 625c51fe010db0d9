/**
 * Named points where a test may kill, freeze, delay or break the process. Off, and one comparison each, unless
 * `CONCORD_FAULTS` holds a plan: `[{ "point": "outbox.handled", "hit": 3, "act": "kill" }]`.
 */
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { KernelFault } from '#kernel/errors'

/** Closed, so that a plan with a misspelt name fails and a run can tell which points it never reached. */
export const pointNames = [
  'transition.written',
  'lane.batch_taken',
  'lane.committed',
  'claim.taken',
  'outbox.claimed',
  'outbox.handled',
  'feed.page_read',
  // commands: between what a step wrote and what it does next
  'commands.submitted',
  'commands.written',
  'commands.effect_begun',
  'commands.effect_called',
  'commands.effect_recorded',
  'commands.undo_called',
  'commands.woken',
  // artifacts: the content is stored, its row is not
  'artifacts.blob_written',
  // schedules: before a due time becomes a command, and between the command and the note about it
  'schedules.due',
  'schedules.fired',
] as const
export type PointName = (typeof pointNames)[number]

const acts = ['kill', 'freeze', 'throw', 'delay'] as const

export type PlannedFault = {
  readonly point: PointName
  /** The how-manieth passage fires, counted from 1. */
  readonly hit: number
  readonly act: (typeof acts)[number]
  readonly delayMs?: number
}

export class InjectedFault extends Error {
  constructor(name: PointName) {
    super(`a fault was injected at ${name}`)
    this.name = 'InjectedFault'
  }
}

export function parsePlan(text: string): readonly PlannedFault[] {
  const plan: unknown = JSON.parse(text)
  if (!Array.isArray(plan)) throw new KernelFault('faults.plan', 'CONCORD_FAULTS holds a JSON list')
  return plan.map((entry: PlannedFault) => {
    const known = pointNames.includes(entry.point) && acts.includes(entry.act)
    if (!known || !Number.isInteger(entry.hit) || entry.hit < 1) {
      throw new KernelFault('faults.plan', 'CONCORD_FAULTS names an unknown point, act or hit', { entry })
    }
    return entry
  })
}

/** Passes points for one plan; `coverFile` gets one line per passage, written before anything fires. */
export function openPoints(plan: readonly PlannedFault[], coverFile?: string): (name: PointName) => Promise<void> {
  const hits = new Map<PointName, number>()
  return async (name) => {
    const hit = (hits.get(name) ?? 0) + 1
    hits.set(name, hit)
    // Synchronous, so that the line is there when the next line of this function ends the process.
    if (coverFile !== undefined) appendFileSync(coverFile, `${name}\n`)
    for (const fault of plan) {
      if (fault.point === name && fault.hit === hit) await fire(fault)
    }
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
const pass = text === undefined ? undefined : openPoints(parsePlan(text), process.env['CONCORD_FAULTS_COVER'])

/** `const stop = point('x'); if (stop) await stop` costs nothing when faults are off. */
export function point(name: PointName): Promise<void> | undefined {
  return pass?.(name)
}
