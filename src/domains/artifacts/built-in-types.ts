/** The artifact types that every installation has: what commands produce, and what agents of a swarm hand to each other. */
import { z } from 'zod'
import { type ArtifactType, defineArtifactType } from './artifact-type.ts'

const text = (name: string, description: string, more: Partial<ArtifactType> = {}) =>
  defineArtifactType({ name, description, ...more })

const queryResult = z.strictObject({
  columns: z.array(z.string()).min(1),
  rows: z.array(z.array(z.unknown())),
  query: z.string().optional(),
})

const evaluationResult = z.strictObject({
  evaluation_type: z.string().min(1),
  decision: z.string().min(1),
  confidence: z.number().min(0).max(1),
  issues: z.array(z.string()),
  recommendation: z.string(),
})

const json = { view: 'json' }

export const builtInArtifactTypes: readonly ArtifactType[] = [
  text('report', 'A finished report.'),
  text('draft_report', 'A report that is still being written.', { retention_days: 365 }),
  text('booking_draft', 'A booking that nobody has agreed to yet.', { retention_days: 90, rendering: json }),
  text('reservation_confirmation', 'What a vendor confirmed.', { data_class: 'confidential' }),
  text('approval_packet', 'What an approver was shown.', { visibility: 'private', external_sharing: 'deny' }),
  text('query_result', 'Rows of a query.', { schema: queryResult, rendering: { view: 'table' } }),
  text('csv_export', 'A table for another program.', { media_types: ['text/csv'], rendering: { view: 'table' } }),
  text('dashboard_draft', 'A dashboard that is still being built.', { retention_days: 365, rendering: json }),
  text('sync_snapshot', 'What a connector had fetched.', { retention_days: 90, rendering: json }),
  text('agent_answer', 'What an agent answered.', { rendering: { view: 'markdown' } }),
  text('evaluation_result', 'What an evaluation found.', { schema: evaluationResult }),
  text('research_notes', 'What an agent found out.', { rendering: { view: 'markdown' } }),
  text('analysis', 'What an agent makes of what was found.', { rendering: { view: 'markdown' } }),
  text('review', 'What an agent thinks of the work of another.', { rendering: { view: 'markdown' } }),
  text('final_report', 'What a swarm came to, from the work of its agents.', {
    lineage: { sources_min: 1, kinds: ['artifact'] },
    rendering: { view: 'markdown' },
  }),
]
