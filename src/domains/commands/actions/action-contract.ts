/** The wire format of a proposal: the request of an agent, and the decision about it. */
import { z } from 'zod'
import { exampleId, idView, keyField, textField } from '#contract'
import { encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { policyDecisions, riskLevels } from '#kernel/policy/policy'
import { commandStatus } from '../contract.ts'
import type { ProposedAction } from './propose-action.ts'

export const proposeActionBody = z
  .strictObject({
    tool_name: textField(200, { charsMin: 1 }).meta({
      example: 'publish_report',
      description: 'A task that is open to agents: its name, its slug, its function or its command type.',
    }),
    // Any JSON object: the body guard has checked the values, and the command type checks the shape.
    payload: z
      .record(z.string(), z.unknown())
      .transform((value) => value as JsonObject)
      .default({})
      .meta({
        example: { artifact_id: exampleId('artifact'), destination: 'external:finance@example.com' },
      }),
    reason: textField(500, { filled: true }).meta({
      example: 'Finance asked for the revenue of May.',
      description: 'The people who approve it see the reason.',
    }),
    action_type: z.enum(['tool_call']).default('tool_call').meta({ example: 'tool_call' }),
    risk_level: z
      .enum(riskLevels)
      .optional()
      .meta({ example: 'medium', description: "The tool's own level unless given; it can only be raised." }),
    idempotency_key: keyField('run-17:step-3').optional().meta({
      description: 'The same key again is the same proposal. Kept apart from the keys of other requests.',
    }),
  })
  .meta({ id: 'ProposeAction', description: 'An action that an agent proposes.' })

export const actionView = z
  .object({
    decision: z.enum(policyDecisions).nullable().meta({
      example: 'require_approval',
      description:
        'What was decided; null when that took longer than a request is held, or is in the archive: `message` says which.',
    }),
    command_id: idView('command'),
    approval_id: z
      .string()
      .nullable()
      .meta({
        example: exampleId('approval'),
        description: 'Of the first question that is open; GET /approvals?command_id= lists all of them.',
      }),
    status: commandStatus,
    reasons: z.array(z.string()).meta({ example: ['External sharing requires approval.'] }),
    output: z.unknown().meta({ description: 'What came of it, where it was done at once.' }),
    message: z.string().meta({ example: 'role:data-owner must agree. External sharing requires approval.' }),
    trace_id: z.string().meta({ example: 'trace_4bf92f3577b34da6a3ce929d0e0e4736' }),
  })
  .meta({ id: 'ProposedAction', description: 'The decision about a proposal, and where to follow it.' })

export type ActionView = z.infer<typeof actionView>

export function toActionView(proposed: ProposedAction): ActionView {
  const { decision, approvalId, command, status, reasons, output, message } = proposed
  return {
    decision,
    command_id: encodeId('command', command.command_id),
    approval_id: approvalId === null ? null : encodeId('approval', approvalId),
    status,
    reasons: [...reasons],
    output,
    message,
    trace_id: command.context.trace_id,
  }
}
