/** The status of a group, computed from its members every time: nothing stores it, so nothing can contradict it. Pure. */
import type { GroupCounts } from './group-repository.ts'

export const groupStatuses = ['queued', 'running', 'completed', 'failed', 'cancelled'] as const
export type GroupStatus = (typeof groupStatuses)[number]

export function groupStatusOf(counts: GroupCounts): GroupStatus {
  const { queued, in_flight, completed, skipped, failed, retried, cancelled } = counts
  const hasStarted = in_flight + completed + skipped + failed + retried > 0
  if (in_flight > 0 || (queued > 0 && hasStarted)) return 'running'
  if (queued > 0) return 'queued'
  if (failed > 0) return 'failed'
  return cancelled > 0 ? 'cancelled' : 'completed'
}
