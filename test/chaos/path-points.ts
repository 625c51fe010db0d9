/** Every failpoint of the path of a command: which process passes it, which story leads there, and which points share a kill. */
import type { FailpointName } from '#test/fault-plan'
import type { Story } from './people.ts'

export type PathPoint = {
  readonly point: FailpointName
  /**
   * `request`: a server that is answering a request. `turn`: the process that has the turn of the command. `in_process`: a server
   * that runs a command of its own requests.
   */
  readonly where: 'request' | 'turn' | 'in_process'
  readonly story: Story
  /** One passage counts for many commands (a batch, a dead worker). */
  readonly isBatch?: true
}

/** The points of one kill, with eight commands at each. Three at most: a worker has 32 slots and eight must stay free. */
export type PointGroup = readonly PathPoint[]

export type Role = 'server' | 'worker'
/** A process that ended as planned. */
export type Kill = { readonly role: Role; readonly group: PointGroup }

/** The number of commands at a point when the process ends. */
export const TOGETHER = 8

const request = (story: Story, ...points: readonly FailpointName[]): PointGroup =>
  points.map((point) => ({ point, where: 'request', story }))
const turn = (story: Story, ...points: readonly FailpointName[]): PointGroup =>
  points.map((point) => ({ point, where: 'turn', story }))
const batch = (story: Story, point: FailpointName): PointGroup => [{ point, where: 'turn', story, isBatch: true }]

export const requestGroups: readonly PointGroup[] = [
  [...request('pay', 'commands.submitted', 'commands.woken'), ...request('inline', 'commands.inline_called')],
  request('agreed', 'approvals.decision_read'),
  [
    ...request('agreed', 'approvals.decision_written', 'approvals.decision_committed'),
    ...request('told', 'commands.input_supplied'),
  ],
  [
    ...request('stopped', 'commands.cancel_written', 'commands.cancel_committed'),
    ...request('again', 'commands.retry_written'),
  ],
  request('signalled', 'commands.signal_written', 'commands.signal_committed'),
]

/** Points that only a server with in-process turns passes. */
export const inProcessGroups: readonly PointGroup[] = [
  // A command at the first point never reaches the second, so each has its own kill.
  [{ point: 'turns.begun', where: 'in_process', story: 'pay' }],
  [{ point: 'turns.handing', where: 'in_process', story: 'stopped' }],
]

export const turnGroups: readonly PointGroup[] = [
  turn('pay', 'runtime.turn_begun', 'commands.classified', 'commands.policy_decided'),
  turn('pay', 'commands.planned', 'commands.effect_begun', 'commands.effect_recorded'),
  // After a kill with running turns.
  turn('pay', 'commands.taken_over', 'commands.effect_called', 'commands.finishing'),
  [...batch('pay', 'runtime.reaping'), ...turn('pay', 'commands.finished', 'runtime.turn_ending')],
  [...turn('pay', 'runtime.turn_ended'), ...turn('doubt', 'commands.looked_up')],
  // A held flush delays every caller, so these two have their own kills.
  batch('pay', 'lane.batch_taken'),
  batch('pay', 'lane.committed'),
  [
    ...turn('agreed', 'commands.approval_written', 'approvals.notices_delivered'),
    ...turn('blind', 'commands.outcome_asked'),
  ],
  [
    ...turn('agreed', 'commands.approval_requested'),
    ...turn('told', 'commands.input_requested'),
    ...turn('chain', 'commands.dependents_marked'),
  ],
  turn('signalled', 'commands.wait_recorded'),
  turn('stopped', 'commands.retry_recorded', 'commands.exit_settled', 'commands.undo_planned'),
  turn('stopped', 'commands.undo_begun', 'commands.undo_called', 'commands.undo_recorded'),
  // The undos of a command that succeeded are effects of the Undo Command.
  turn('undone', 'commands.undo_begun', 'commands.undo_called', 'commands.undo_recorded'),
  [...turn('stopped', 'commands.undo_finishing'), ...turn('crowd', 'commands.reconciling')],
]
