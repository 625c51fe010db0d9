/** Every named point of the governed path: who passes it, which story leads there, and how it is cut. */
import type { Story } from './people.ts'

export type PathPoint = {
  readonly point: string
  /** `request`: only a server, while somebody waits for its answer. `turn`: whoever has the command's turn. */
  readonly where: 'request' | 'turn'
  readonly story: Story
  /** One passage stands for many commands (a batch, a dead worker): the process ends at the first one that is planned. */
  readonly isBatch?: true
}

const requests = (story: Story, ...points: readonly string[]): readonly PathPoint[] =>
  points.map((point) => ({ point, where: 'request', story }))
const turns = (story: Story, ...points: readonly string[]): readonly PathPoint[] =>
  points.map((point) => ({ point, where: 'turn', story }))

export const pathPoints: readonly PathPoint[] = [
  ...requests('pay', 'commands.submitted', 'commands.woken'),
  ...requests('inline', 'commands.inline_called'),
  ...requests('agreed', 'approvals.decision_written', 'approvals.decision_committed'),
  ...requests('told', 'commands.input_supplied'),
  ...requests('stopped', 'commands.cancel_written', 'commands.cancel_committed'),
  ...requests('again', 'commands.retry_written'),
  ...turns('pay', 'runtime.turn_begun', 'commands.classified', 'commands.policy_decided', 'commands.planned'),
  ...turns('pay', 'commands.effect_begun'),
  // After a kill with turns under way.
  ...turns('pay', 'commands.taken_over'),
  ...turns('pay', 'commands.effect_called'),
  { point: 'runtime.reaping', where: 'turn', story: 'pay', isBatch: true },
  ...turns('pay', 'commands.effect_recorded', 'commands.finishing', 'commands.finished'),
  ...turns('pay', 'runtime.turn_ending', 'runtime.turn_ended'),
  { point: 'lane.batch_taken', where: 'turn', story: 'pay', isBatch: true },
  { point: 'lane.committed', where: 'turn', story: 'pay', isBatch: true },
  ...turns('agreed', 'commands.approval_written', 'commands.approval_requested'),
  ...turns('told', 'commands.input_requested'),
  ...turns('chain', 'commands.dependents_marked'),
  ...turns('doubt', 'commands.looked_up'),
  ...turns('blind', 'commands.outcome_asked'),
  ...turns('stopped', 'commands.retry_recorded', 'commands.exit_settled', 'commands.undo_planned'),
  ...turns(
    'stopped',
    'commands.undo_begun',
    'commands.undo_called',
    'commands.undo_recorded',
    'commands.undo_finishing',
  ),
  ...turns('crowd', 'commands.reconciling'),
]
