/**
 * Publish Report: inside the organisation immediately, outside only with the approval of the data owner. A letter is a file in the
 * folder `outbox`, as in a mail server's pick-up folder; its name is derived from the key, so there is one letter per key.
 */
import { z } from 'zod'
import {
  defineCommandType,
  defineConnectorOperation,
  type Definition,
  defineEffect,
  defineFunction,
  defineTask,
  type EffectArtifacts,
  EffectFailure,
} from '#domains/commands'
import { decodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import { type ExampleOptions, retryOf } from './example-options.ts'
import { textOf } from './payload-text.ts'
import { checksumOf, letterFile, writeOnce } from './letter-files.ts'

export const publishReportExample = {
  artifact_id: 'art_0197f3b2c4d57a8e9b0c1d2e3f405170',
  checksum: `sha256:${'0'.repeat(64)}`,
  destination: 'finance@example.com',
}

/** Accepts the id as `concord artifacts` prints it or as a result contains it, and normalises it, so that both give the same letter. */
const artifactId = z.string().transform((text, context) => {
  const decoded = decodeId('artifact', text)
  if (decoded.ok) return decoded.value
  context.addIssue({ code: 'custom', message: 'the id of an artifact, art_…' })
  return z.NEVER
})

const payload = z
  .strictObject({
    artifact_id: artifactId,
    /** Ensures that the approved text is sent: another text under the same id is refused. */
    checksum: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'the checksum of the report'),
    destination: z.string().regex(/^[\w.:+@-]{1,200}$/, 'an address such as finance@example.com, or internal'),
  })
  .meta({ example: publishReportExample })

const OPERATION = 'sharing.publish_report'
const EFFECT = `connector.${OPERATION}`
const UNDO = 'sharing.withdraw_report'

/** Returns the approved report, or throws a failure that is not retried. */
async function readReport(artifacts: EffectArtifacts, asked: JsonObject): Promise<string> {
  const { artifact_id, checksum } = await artifacts.find(textOf(asked, 'artifact_id'))
  if (checksum !== asked['checksum'])
    throw new EffectFailure('validation_error', 'the report is not the one that was asked about')
  return artifacts.text(artifact_id)
}

export function publishReport(options: ExampleOptions): readonly Definition[] {
  const { folder } = options
  return [
    defineConnectorOperation({
      connector: 'sharing',
      operation: 'publish_report',
      side_effect: true,
      idempotency_required: true,
      idempotency_key_template: 'publish_report:{artifact_id}:{destination}',
    }),
    retryOf(OPERATION, options),
    defineEffect({
      effect_type: EFFECT,
      class: 'keyed',
      async do(call) {
        const destination = textOf(call.payload, 'destination')
        const text = await readReport(call.artifacts, call.payload)
        const letter = `To: ${destination}\n\n${text}`
        await writeOnce(letterFile(folder, call.idempotencyKey), letter, `draft-${call.attempt}`)
        // The row records the destination; an artifact that is already published stays unchanged.
        await call.artifacts.publish(textOf(call.payload, 'artifact_id'), destination)
        return { destination, letter_checksum: checksumOf(letter) }
      },
      // A sent letter cannot be recalled: the compensation is a second letter.
      undo: {
        name: UNDO,
        counter_effects: false,
        async do({ undone, idempotencyKey, attempt, emit }) {
          const letter = `To: ${textOf(undone.payload, 'destination')}\n\nPlease disregard the report sent before.\n`
          await writeOnce(letterFile(folder, idempotencyKey), letter, `draft-${attempt}`)
          emit(UNDO)
          return { withdrawn: undone.effectId }
        },
      },
    }),
    defineFunction({
      name: 'publish_report',
      plan: ({ artifact_id = null, checksum = null, destination = null }) => [
        { effect_type: EFFECT, payload: { artifact_id, checksum, destination } },
      ],
      result: ([letter]) => letter,
    }),
    defineCommandType({
      name: 'publish_report',
      description: 'Sends a report to an address.',
      payload,
      side_effects: [EFFECT, 'notification.app'],
      error_classes: ['timeout', 'validation_error', 'policy_denied', 'approval_rejected', 'internal_error'],
      compensation: { supported: true },
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
      risk_level: 'medium',
      fields: { artifact_id: 'internal', checksum: 'internal', destination: 'internal' },
      approval: { approver: 'role:data_owner', expires_in_minutes: 24 * 60 },
      idempotency: { required: true, key_template: 'publish_report:{artifact_id}:{destination}' },
    }),
    defineTask({
      name: 'Publish Report',
      description: 'A report that was sent.',
      command_type: 'publish_report',
      function_name: 'publish_report',
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: ['artifact_id', 'checksum', 'destination'],
      async_required: true,
      notification_required: true,
      connector_requirements: ['sharing'],
      policy_checks: ['permission', 'data_safety', 'external_sharing'],
      risk_level: 'medium',
    }),
  ]
}
