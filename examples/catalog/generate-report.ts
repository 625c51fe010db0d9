/**
 * Generate Report: numbers in, a text out, nobody has to agree. The report is a file of the project named after its effect,
 * and the effect's result holds its text and checksum; there is no row in `concord.artifacts` for it.
 */
import { rm } from 'node:fs/promises'
import { z } from 'zod'
import { defineCommandType, type Definition, defineEffect, defineFunction, defineTask } from '#domains/commands'
import type { ExampleOptions } from './example-options.ts'
import { textOf } from './payload-text.ts'
import { checksumOf, reportFile, writeOnce } from './report-files.ts'

const payload = z.strictObject({
  report_type: z.enum(['monthly_revenue']),
  date_range: z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'a month such as 2026-05'),
  estimated_cost_units: z.number().nonnegative().optional(),
})

export const generateReportExample = { report_type: 'monthly_revenue', date_range: '2026-05' }

/** In cents: sums of money are exact. */
const sales = [
  { day: '2026-04-30', product: 'Licences', cents: 99_000 },
  { day: '2026-05-04', product: 'Licences', cents: 120_050 },
  { day: '2026-05-11', product: 'Support', cents: 45_000 },
  { day: '2026-05-19', product: 'Licences', cents: 80_025 },
  { day: '2026-05-27', product: 'Training', cents: 60_000 },
]

/** Pure: the same month gives the same text, so a repeated attempt writes the same report. */
export function renderReport(month: string): string {
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

export function generateReport({ folder }: ExampleOptions): readonly Definition[] {
  return [
    defineEffect({
      effect_type: 'artifact.report',
      class: 'keyed',
      async do({ payload: asked, effectId, attempt }) {
        const text = renderReport(textOf(asked, 'month'))
        await writeOnce(reportFile(folder, effectId), text, `draft-${attempt}`)
        const size_bytes = Buffer.byteLength(text)
        return { report_id: effectId, title: text.split('\n')[0] ?? '', text, checksum: checksumOf(text), size_bytes }
      },
      undo: {
        name: 'artifact.discard_report',
        async do({ undone, emit }) {
          await rm(reportFile(folder, undone.effectId), { force: true })
          emit('artifact.discard_report')
          return { discarded: undone.effectId }
        },
      },
    }),
    defineFunction({
      name: 'generate_report',
      plan: ({ date_range }) => [{ effect_type: 'artifact.report', payload: { month: date_range ?? null } }],
      // The notification comes after it; what was asked for is the report.
      result: ([report]) => report,
    }),
    defineCommandType({
      name: 'generate_report',
      description: 'Makes a report of one month from the sales of the house.',
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
