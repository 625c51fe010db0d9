/** How every store says no: the place is taken, or there is nothing of that id here. */
import { type Refusal, refuse } from '#kernel/refusal'

export function refuseConflict(memoryId: string | undefined): Refusal {
  return refuse('memory.fact.conflict', 'Another memory about the same thing is in force.', {
    hint: 'Look at it, and name it in `supersedes` to put yours in its place.',
    facts: memoryId === undefined ? {} : { memory_id: memoryId },
  })
}

export function refuseAbsent(): Refusal {
  return refuse('memory.record.not_found', 'There is no such memory.')
}
