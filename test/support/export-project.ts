/** A project for journeys: one task that writes a table and a summary made from it, of types of its own. */
import { z } from 'zod'
import {
  defineArtifactType,
  defineCommandType,
  defineEffect,
  defineFunction,
  defineProject,
  defineTask,
} from '../../src/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'

const rows = Array.from({ length: 2_000 }, (_, n) => `${n},${n * n}`)
export const table = `n,square\n${rows.join('\n')}\n`

export default defineProject({
  artifactTypes: [
    defineArtifactType({
      name: 'summary',
      description: 'What a table says.',
      schema: z.strictObject({ rows: z.int() }),
      lineage: { sources_min: 1, kinds: ['artifact'] },
    }),
  ],
  catalog: [
    defineEffect({
      effect_type: 'artifact.export',
      class: 'keyed',
      async do({ artifacts }) {
        const made = await artifacts.write({
          type: 'csv_export',
          title: 'Squares',
          file_name: 'squares.csv',
          content: { text: table },
        })
        const summary = await artifacts.write({
          type: 'summary',
          content: { json: { rows: rows.length } },
          sources: [{ kind: 'artifact', id: made.artifact_id }],
        })
        return { table: made.artifact_id, summary: summary.artifact_id }
      },
    }),
    defineFunction({ name: 'export', plan: () => [{ effect_type: 'artifact.export', payload: {} }] }),
    defineCommandType({
      name: 'export',
      description: 'Exports a table.',
      payload: z.strictObject({}),
      side_effects: ['artifact.export'],
      error_classes: errorClasses,
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'artifact_created'],
    }),
    defineTask({
      name: 'Export',
      description: 'A table of squares.',
      command_type: 'export',
      function_name: 'export',
      ingress_types: ['user_request'],
      async_required: true,
      artifact_output_possible: true,
      policy_checks: ['permission'],
    }),
  ],
})
