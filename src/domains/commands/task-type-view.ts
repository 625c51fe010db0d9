/** What callers see of a task: its contract, and the schema of its payload. */
import { z } from 'zod'
import type { CompiledTask } from './catalog/open-catalog.ts'

export const taskTypeView = z
  .object({
    task_name: z.string(),
    description: z.string(),
    command_type: z.string(),
    version: z.string(),
    risk_level: z.string(),
    ingress_types: z.array(z.string()),
    required_inputs: z.array(z.string()),
    policy_checks: z.array(z.string()),
    approval_required: z.boolean(),
    idempotency_required: z.boolean(),
    side_effects: z.array(z.string()),
    cancellable_by: z.array(z.string()),
    primitives: z.array(z.string()),
    payload_schema: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'TaskType', description: 'Something that can be asked for, with its contract.' })

export function toTaskTypeView(
  { spec, type, policyNames }: CompiledTask,
  primitives: readonly string[],
): z.infer<typeof taskTypeView> {
  return {
    task_name: spec.name,
    description: spec.description,
    command_type: type.name,
    version: type.version,
    risk_level: spec.risk_level,
    ingress_types: [...spec.ingress_types],
    required_inputs: [...spec.required_inputs],
    policy_checks: [...policyNames],
    approval_required: spec.approval_required || type.approval.required,
    idempotency_required: type.idempotency.required,
    side_effects: [...type.side_effects],
    cancellable_by: [...type.cancellable_by],
    primitives: [...primitives],
    payload_schema: z.toJSONSchema(type.payload, { io: 'input', unrepresentable: 'any' }),
  }
}
