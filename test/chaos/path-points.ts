/** Every named point of the governed path: who passes it, which story leads there, and which ones are cut by one kill. */
import type { FailpointName } from '#test/fault-plan'
import type { Story } from './people.ts'

export type PathPoint = {
  readonly point: FailpointName
  /** `request`: only a server, while somebody waits for its answer. `turn`: whoever has the command's turn. `in_process`: a server that begins what it was asked for. */
  readonly where: 'request' | 'turn' | 'in_process'
  readonly story: Story
  /** One passage stands for many commands (a batch, a dead worker): one is enough. */
  readonly isBatch?: true
}

/** Cut by one kill: eight commands stand at each of them. Three at most, since a worker has 32 places and eight must stay free. */
export type PointGroup = readonly PathPoint[]

export type Role = 'server' | 'worker'
/** A process that ended as planned. */
export type Kill = { readonly role: Role; readonly group: PointGroup }

/** How many commands stand at a point when the process ends. */
export const TOGETHER = 8

const request = (story: Story, ...points: readonly FailpointName[]): PointGroup =>
  points.map((point) => ({ point, where: 'request', story }))
const turn = (story: Story, ...points: readonly FailpointName[]): PointGroup =>
  points.map((point) => ({ point, where: 'turn', story }))
const batch = (story: Story, point: FailpointName): PointGroup => [{ point, where: 'turn', story, isBatch: true }]

export const requestGroups: readonly PointGroup[] = [
  [...request('pay', 'commands.submitted', 'commands.woken'), ...request('inline', 'commands.inline_called')],
  [
    ...request('agreed', 'approvals.decision_written', 'approvals.decision_committed'),
    ...request('told', 'commands.input_supplied'),
  ],
  [
    ...request('stopped', 'commands.cancel_written', 'commands.cancel_committed'),
    ...request('again', 'commands.retry_written'),
  ],
]

/** Points that only a server passes which gives turns itself. */
export const inProcessGroups: readonly PointGroup[] = [
  // What stands at the first never comes to the second: each alone.
  [{ point: 'turns.begun', where: 'in_process', story: 'pay' }],
  [{ point: 'turns.handing', where: 'in_process', story: 'stopped' }],
]

export const turnGroups: readonly PointGroup[] = [
  turn('pay', 'runtime.turn_begun', 'commands.classified', 'commands.policy_decided'),
  turn('pay', 'commands.planned', 'commands.effect_begun', 'commands.effect_recorded'),
  // After a kill with turns under way.
  turn('pay', 'commands.taken_over', 'commands.effect_called', 'commands.finishing'),
  [...batch('pay', 'runtime.reaping'), ...turn('pay', 'commands.finished', 'runtime.turn_ending')],
  [...turn('pay', 'runtime.turn_ended'), ...turn('doubt', 'commands.looked_up')],
  // A held flush holds everybody who waits for it, so these two are alone.
  batch('pay', 'lane.batch_taken'),
  batch('pay', 'lane.committed'),
  [...turn('agreed', 'commands.approval_written'), ...turn('blind', 'commands.outcome_asked')],
  [
    ...turn('agreed', 'commands.approval_requested'),
    ...turn('told', 'commands.input_requested'),
    ...turn('chain', 'commands.dependents_marked'),
  ],
  turn('stopped', 'commands.retry_recorded', 'commands.exit_settled', 'commands.undo_planned'),
  turn('stopped', 'commands.undo_begun', 'commands.undo_called', 'commands.undo_recorded'),
  [...turn('stopped', 'commands.undo_finishing'), ...turn('crowd', 'commands.reconciling')],
]
