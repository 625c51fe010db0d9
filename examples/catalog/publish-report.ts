/** Publish Report: inside the organisation at once, outside with the approval of the data owner. A letter is a file in a folder. */
import { createHash } from 'node:crypto'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { defineCommand, defineConnector, defineEffect, EffectFailure, from, succeeded } from '@concordhq/concord'
import { decodeId } from '@concordhq/concord/kernel'
import { z } from 'zod'
import { appNotification } from './app-notification.ts'

export const publishReportExample = {
  artifact_id: 'art_0197f3b2c4d57a8e9b0c1d2e3f405170',
  checksum: `sha256:${'0'.repeat(64)}`,
  destination: 'finance@example.com',
}

/** Accepts the id as `concord artifacts` prints it or as a result contains it: both name one report. */
const artifactId = z.string().transform((text, context) => {
  const decoded = decodeId('artifact', text)
  if (decoded.ok) return decoded.value
  context.addIssue({ code: 'custom', message: 'the id of an artifact, art_…' })
  return z.NEVER
})

const input = z
  .strictObject({
    artifact_id: artifactId,
    /** The approved text is the one that is sent. */
    checksum: z.string().regex(/^sha256:[0-9a-f]{64}$/, 'the checksum of the report'),
    destination: z.string().regex(/^[\w.:+@-]{1,200}$/, 'an address such as finance@example.com, or internal'),
  })
  .meta({ example: publishReportExample })

const openReport = defineEffect('artifact.publish_report', {
  input,
  class: 'read',
  async do({ input: { artifact_id, checksum, destination }, artifacts }) {
    if ((await artifacts.find(artifact_id)).checksum !== checksum)
      throw new EffectFailure('validation_error', 'the report is not the one that was asked about')
    await artifacts.publish(artifact_id, destination)
    return { text: await artifacts.text(artifact_id) }
  },
})

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const letter = z.strictObject({ destination: z.string(), text: z.string() })

/** Letters as files, as in the pick-up folder of a mail server. The name is made from the key, so a repeated call writes the same file. */
const letters = (outbox: string) =>
  defineConnector({
    name: 'sharing',
    connector_type: 'letters',
    description: 'Sends letters.',
    operations: [
      {
        name: 'publish_report',
        description: 'Sends a report.',
        input: letter,
        output: z.object({ destination: z.string(), letter_checksum: z.string() }),
        side_effect_class: 'keyed',
        risk_level: 'medium',
        // A sent letter cannot be recalled: the compensation is a second letter.
        compensation: {
          operation: 'publish_report',
          input: { destination: '{input.destination}', text: 'Please disregard the report sent before.\n' },
        },
      },
    ],
    open: () => ({
      name: 'sharing',
      connector_type: 'letters',
      capabilities: () => ['publish_report'],
      async call({ input: asked, context: { idempotency_key, attempt } }) {
        const { destination, text } = letter.parse(asked)
        const content = `To: ${destination}\n\n${text}`
        const file = join(outbox, `${sha256(idempotency_key ?? '').slice(0, 32)}.txt`)
        await mkdir(outbox, { recursive: true })
        await writeFile(`${file}.draft-${attempt}`, content, { flush: true })
        await rename(`${file}.draft-${attempt}`, file)
        return succeeded({ destination, letter_checksum: `sha256:${sha256(content)}` })
      },
    }),
  })

export function publishReport(folder: string) {
  const sharing = letters(join(folder, 'outbox'))
  return defineCommand('publish_report', {
    description: 'Sends a report to an address.',
    input,
    key: 'publish_report:{artifact_id}:{destination}',
    policy: ['external_sharing'],
    approval: { approver: 'role:data_owner' },
    steps(asked) {
      const report = openReport(asked)
      return [report, sharing.publish_report({ destination: asked.destination, text: from(report, 'text') })]
    },
    uses: [appNotification],
    result: (_report, sent) => sent,
    task: {
      name: 'Publish Report',
      ingress_types: ['user_request', 'agent_action'],
      required_inputs: Object.keys(input.shape),
    },
  })
}
