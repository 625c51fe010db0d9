/** The one task of the catalog in the compliance research: the report is filed. Everything else is done by workers. */
import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import process from 'node:process'
import { allow, defineCommand, defineEffect, defineProject } from '@concordhq/concord'
import { z } from 'zod'

const folder = process.env['COMPLIANCE_FOLDER'] ?? '.concord/compliance'

const file = defineEffect('archive.file_report', {
  input: z.object({ gaps: z.array(z.object({ rule: z.string(), source: z.string() })) }),
  class: 'keyed',
  async do({ input: { gaps }, idempotencyKey }) {
    const name = `${createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 8)}.json`
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, name), JSON.stringify(gaps), { flush: true })
    return { filed: gaps.length }
  },
})

export default defineProject({
  catalog: [
    defineCommand('file_report', {
      input: file.input,
      policy: allow,
      steps: (input) => [file(input)],
      task: { name: 'File Report' },
    }),
  ],
})
