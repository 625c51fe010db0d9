/** Which kind of work a command is, before anything is decided about it. Pure: a result, no writes. */
import { type CoreResult, coreResult } from '#kernel/saga/core'
import type { CompiledTask } from './catalog/open-catalog.ts'
import { isSyncTask } from './catalog/primitives.ts'

export const taskClasses = ['sync', 'async', 'approval_gated', 'agentic', 'swarm'] as const
export type TaskClass = (typeof taskClasses)[number]

export function classifyCommand({ spec, type }: Pick<CompiledTask, 'spec' | 'type'>): CoreResult {
  return coreResult({
    status: 'classified',
    metadata: { task_class: classOf({ spec, type }), risk_level: spec.risk_level },
  })
}

function classOf({ spec, type }: Pick<CompiledTask, 'spec' | 'type'>): TaskClass {
  if (type.execution_mode === 'agentic' || type.execution_mode === 'swarm') return type.execution_mode
  if (spec.approval_required || type.approval.required) return 'approval_gated'
  return isSyncTask(spec) ? 'sync' : 'async'
}
