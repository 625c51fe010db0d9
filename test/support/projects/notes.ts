/** A project with one task that people, agents and schedules may use. It writes an artifact, whose metadata come from the environment, like the answer of its provider. */
import { z } from 'zod'
import { defineEffect, defineProject } from '../../../src/index.ts'
import { defineWork } from './define-work.ts'

const EFFECT = 'artifact.note'

export default defineProject({
  catalog: [
    defineEffect({
      effect_type: EFFECT,
      class: 'keyed',
      async do({ payload, artifacts }) {
        const metadata = JSON.parse(process.env[`NOTES_${payload['subject'] as string}`] ?? '{}')
        const { artifact_id } = await artifacts.write({ type: 'report', content: { text: 'A note.' }, metadata })
        return { artifact_id, answer: JSON.parse(process.env[`NOTES_ANSWER_${payload['subject'] as string}`] ?? '{}') }
      },
    }),
    ...defineWork({
      name: 'Note',
      payload: z.strictObject({ subject: z.string(), text: z.string().optional() }),
      plan: ({ subject = null }) => [{ effect_type: EFFECT, payload: { subject } }],
      effects: [EFFECT],
      task: {
        ingress_types: ['user_request', 'agent_action', 'scheduled_trigger'],
        policy_checks: ['permission', 'data_safety'],
        required_inputs: ['subject'],
        artifact_output_possible: true,
        risk_level: 'medium',
      },
    }),
  ],
})
