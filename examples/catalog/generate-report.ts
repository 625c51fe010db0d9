/**
 * Generate Report: turns sales into a text, without approval. The report is an artifact: its row is committed with the outcome of
 * the effect, and the compensation of the command withdraws it.
 */
import { z } from 'zod'
import { defineCommandType, type Definition, defineEffect, defineFunction, defineTask } from '#domains/commands'
import { idOf, textOf } from './payload-text.ts'

export const generateReportExample = { report_type: 'monthly_revenue', date_range: '2026-05' }

const payload = z
  .strictObject({
    report_type: z.enum(['monthly_revenue']),
    date_range: z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'a month such as 2026-05'),
    estimated_cost_units: z.number().nonnegative().optional(),
  })
  .meta({ example: generateReportExample })

/** In cents: sums of money are exact. */
const sales = [
  { day: '2026-04-30', product: 'Licences', cents: 99_000 },
  { day: '2026-05-04', product: 'Licences', cents: 120_050 },
  { day: '2026-05-11', product: 'Support', cents: 45_000 },
  { day: '2026-05-19', product: 'Licences', cents: 80_025 },
  { day: '2026-05-27', product: 'Training', cents: 60_000 },
]

/** Pure: the same month gives the same text, so that a repeated attempt writes the same report. */
function renderReport(month: string): string {
  const own = sales.filter(({ day }) => day.startsWith(`${month}-`))
  const products = [...new Set(own.map(({ product }) => product))].toSorted()
  const sum = (lines: typeof own) => (lines.reduce((cents, line) => cents + line.cents, 0) / 100).toFixed(2)
  return [
    `Revenue of ${month} in USD`,
    ...products.map((name) => `  ${name.padEnd(10)}${sum(own.filter(({ product }) => product === name)).padStart(10)}`),
    `  ${'Total'.padEnd(10)}${sum(own).padStart(10)}`,
    '',
  ].join('\n')
}

export function generateReport(): readonly Definition[] {
  return [
    defineEffect({
      effect_type: 'artifact.report',
      class: 'keyed',
      async do({ payload: asked, artifacts }) {
        const month = textOf(asked, 'month')
        const text = renderReport(month)
        const title = text.split('\n')[0] ?? ''
        const draft = { type: 'report', title, file_name: `revenue-${month}.txt`, content: { text } }
        const { artifact_id, checksum, size_bytes } = await artifacts.write(draft)
        return { artifact_id, title, text, checksum, size_bytes }
      },
      undo: {
        name: 'artifact.discard_report',
        async do({ undone, artifacts, emit }) {
          const artifact_id = idOf(undone.result, 'artifact_id')
          await artifacts.withdraw(artifact_id)
          emit('artifact.discard_report')
          return { discarded: artifact_id }
        },
      },
    }),
    defineFunction({
      name: 'generate_report',
      plan: ({ date_range }) => [{ effect_type: 'artifact.report', payload: { month: date_range ?? null } }],
      // The notification follows; the result of the command is the report.
      result: ([report]) => report,
    }),
    defineCommandType({
      name: 'generate_report',
      description: 'Makes a report of one month from the sales of the company.',
      payload,
      side_effects: ['artifact.report', 'notification.app'],
      error_classes: ['temporary_database_error', 'timeout', 'policy_denied', 'malformed_payload', 'internal_error'],
      compensation: { supported: true },
      cancellable_by: ['requester', 'admin'],
      audit: ['command_created', 'policy_evaluated', 'plan_created', 'effect_executed'],
      risk_level: 'medium',
      idempotency: { required: false, key_template: 'generate_report:{report_type}:{date_range}' },
    }),
    defineTask({
      name: 'Generate Report',
      description: 'A report of one month.',
      command_type: 'generate_report',
      function_name: 'generate_report',
      ingress_types: ['user_request', 'scheduled_trigger'],
      required_inputs: ['report_type', 'date_range'],
      async_required: true,
      artifact_output_possible: true,
      notification_required: true,
      policy_checks: ['permission', 'cost', 'data_access'],
      risk_level: 'medium',
      metadata: { cost_limit_units: 100, lifecycle: ['created', 'validated', 'queued', 'running', 'succeeded'] },
    }),
  ]
}
