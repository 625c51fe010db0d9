/** Generate Report: turns the sales of a month into an artifact. Its undo withdraws the artifact. */
import { defineCommand, defineEffect } from '@concordhq/concord'
import { z } from 'zod'
import { appNotification } from './app-notification.ts'

export const generateReportExample = { report_type: 'monthly_revenue' as const, date_range: '2026-05' }

const input = z
  .strictObject({
    report_type: z.enum(['monthly_revenue']),
    date_range: z.string().regex(/^\d{4}-(0[1-9]|1[0-2])$/, 'a month such as 2026-05'),
    estimated_cost_units: z.number().nonnegative().optional(),
  })
  .meta({ example: generateReportExample })

/** In cents, so that sums are exact. */
const sales = [
  ['2026-04-30', 'Licences', 99_000],
  ['2026-05-04', 'Licences', 120_050],
  ['2026-05-11', 'Support', 45_000],
  ['2026-05-19', 'Licences', 80_025],
  ['2026-05-27', 'Training', 60_000],
] as const

function renderReport(month: string): string {
  const own = sales.filter(([day]) => day.startsWith(`${month}-`))
  const line = (name: string, of: typeof own) =>
    `  ${name.padEnd(10)}${(of.reduce((sum, [, , cents]) => sum + cents, 0) / 100).toFixed(2).padStart(10)}`
  const products = [...new Set(own.map(([, product]) => product))].toSorted()
  const lines = products.map((name) =>
    line(
      name,
      own.filter(([, product]) => product === name),
    ),
  )
  return [`Revenue of ${month} in USD`, ...lines, line('Total', own), ''].join('\n')
}

const writeReport = defineEffect('artifact.report', {
  input: z.object({ month: z.string() }),
  class: 'keyed',
  risk_level: 'medium',
  async do({ input: { month }, artifacts }) {
    const [text, title] = [renderReport(month), `Revenue of ${month} in USD`]
    const written = await artifacts.write({
      type: 'report',
      title,
      file_name: `revenue-${month}.txt`,
      content: { text },
    })
    return { artifact_id: written.artifact_id, title, text, checksum: written.checksum, size_bytes: written.size_bytes }
  },
  undo: ({ result, artifacts }) => artifacts.withdraw(result.artifact_id),
})

export const generateReport = defineCommand('generate_report', {
  description: 'Makes a report of one month from the sales of the company.',
  input,
  key: 'generate_report:{report_type}:{date_range}',
  policy: ['cost', 'data_access'],
  steps: ({ date_range }) => [writeReport({ month: date_range })],
  uses: [appNotification],
  result: (report) => report,
  task: {
    name: 'Generate Report',
    ingress_types: ['user_request', 'scheduled_trigger'],
    required_inputs: ['report_type', 'date_range'],
    metadata: { cost_limit_units: 100, lifecycle: ['created', 'validated', 'queued', 'running', 'succeeded'] },
  },
})
