/** Tasks and types for tests of artifacts: one effect that writes what its payload says, and one that fails behind it. */
import { z } from 'zod'
import {
  builtInArtifactTypes,
  defineArtifactType,
  openArtifactTypes,
  type Source,
} from '../../src/domains/artifacts/index.ts'
import {
  defineCommandType,
  type Definition,
  defineEffect,
  defineFunction,
  defineTask,
  EffectFailure,
  publishArtifactDefinitions,
  shippedPolicies,
} from '../../src/domains/commands/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'
import type { JsonObject } from '../../src/kernel/json-value.ts'
import { accepted } from './tenant.ts'

export const testArtifactTypes = accepted(
  openArtifactTypes([
    ...builtInArtifactTypes,
    defineArtifactType({
      name: 'invoice',
      version: '2',
      description: 'An invoice.',
      schema: z.strictObject({ total: z.number() }),
      data_class: 'pii',
      retention_days: 30,
      compatible_with: ['1'],
    }),
    defineArtifactType({
      name: 'open_data',
      description: 'For everybody.',
      data_class: 'public',
      external_sharing: 'allow',
    }),
    defineArtifactType({ name: 'diary', description: 'For one.', visibility: 'private' }),
  ]),
)

const payload = z.strictObject({
  type: z.string().default('report'),
  text: z.string(),
  /** Repeats the text until it is so long. */
  size: z.number().optional(),
  sources: z.array(z.object({ kind: z.string(), id: z.string() })).default([]),
  supersedes: z.string().optional(),
  fails: z.boolean().default(false),
  /** The command fails after the note, or after the publication of what is named. */
  then_fails: z.boolean().default(false),
  publishes: z.object({ artifact_id: z.string(), checksum: z.string() }).optional(),
})

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '')

function contentOf({ text, size }: JsonObject, attempt: number): string {
  const whole = textOf(text).replaceAll('{attempt}', String(attempt))
  return typeof size === 'number' ? whole.padEnd(size, whole) : whole
}

export function artifactDefinitions(): readonly Definition[] {
  return [
    ...shippedPolicies,
    ...publishArtifactDefinitions,
    defineEffect({
      effect_type: 'artifact.note',
      class: 'keyed',
      async do({ payload: asked, artifacts, attempt }) {
        const { artifact_id, checksum } = await artifacts.write({
          type: textOf(asked['type']),
          title: 'A note',
          content: { text: contentOf(asked, attempt) },
          // The payload's shape was checked when it was submitted.
          sources: asked['sources'] as unknown as Source[],
          ...(asked['supersedes'] ? { supersedes: textOf(asked['supersedes']) } : {}),
        })
        if (asked['fails'] === true) throw new EffectFailure('validation_error', 'it fails after writing')
        return { artifact_id, checksum }
      },
      undo: {
        name: 'artifact.discard_note',
        async do({ undone, artifacts, emit }) {
          await artifacts.withdraw(textOf((undone.result as JsonObject)['artifact_id']))
          emit('artifact.discard_note')
        },
      },
    }),
    defineEffect({
      effect_type: 'work.fail',
      class: 'read',
      do: () => Promise.reject(new EffectFailure('validation_error', 'it fails after the note')),
    }),
    defineFunction({
      name: 'note',
      plan: ({ publishes, then_fails, ...given }) => [
        { effect_type: 'artifact.note', payload: given },
        ...(publishes
          ? [{ effect_type: 'artifact.publish', payload: { ...(publishes as JsonObject), destination: 'internal' } }]
          : []),
        ...(then_fails === true ? [{ effect_type: 'work.fail', payload: {} }] : []),
      ],
    }),
    defineCommandType({
      name: 'note',
      description: 'Writes a note.',
      payload,
      side_effects: ['artifact.note', 'artifact.publish', 'work.fail'],
      error_classes: errorClasses,
      compensation: { supported: true },
      cancellation_mode: 'compensate_then_stop',
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created'],
    }),
    defineTask({
      name: 'Note',
      description: 'A note.',
      command_type: 'note',
      function_name: 'note',
      ingress_types: ['user_request'],
      required_inputs: ['text'],
      async_required: true,
      artifact_output_possible: true,
      policy_checks: ['permission'],
    }),
  ]
}
