/** Receives webhooks: authenticated by a signature over the exact bytes instead of a credential, so the body is read here. */
import { z } from '@hono/zod-openapi'
import { idView, textField } from '#contract'
import {
  type CommandDeps,
  commandStatus,
  type HomedSource,
  openWebhooks,
  signalView,
  toSignalView,
  webhookForms,
  type WebhookSource,
} from '#domains/commands'
import { findHomeWorkspace } from '#domains/identity'
import { encodeId } from '#kernel/ids'
import { accept, refuse } from '#kernel/refusal'
import { defaultLimits } from './api-deps.ts'
import { readBody } from './body.ts'
import { Known, resource, routes } from './resource.ts'

const receivedView = z
  .object({
    outcome: z.enum(['command', 'signal', 'duplicate', 'recorded']).meta({
      description:
        '`command`: submitted. `signal`: sent. `duplicate`: known already. `recorded`: the source maps it to neither.',
    }),
    command_id: idView('command', 'The command of the event; null when another event submitted it.')
      .nullable()
      .optional(),
    status: commandStatus.optional(),
    ...signalView.partial().shape,
  })
  .meta({ id: 'ReceivedWebhook', description: 'The outcome of a delivery.' })

type Api = {
  /** Undefined: there is no such source, or its workspace is archived. */
  readonly find: (name: string) => Promise<HomedSource | undefined>
  readonly receive: ReturnType<typeof openWebhooks>
}

export function openWebhookSources(deps: CommandDeps, sources: readonly WebhookSource[], fallback = 'default'): Api {
  return {
    receive: openWebhooks(deps),
    async find(name) {
      const source = sources.find((each) => each.name === name)
      if (!source) return undefined
      const workspaceId = await findHomeWorkspace(deps.db, source.workspace ?? fallback)
      return workspaceId === undefined ? undefined : { ...source, workspaceId }
    },
  }
}

const header = (pattern: RegExp, example: string, description: string) =>
  z.string().meta({ pattern: pattern.source, example, description })

export const webhookRoutes = routes({
  receiveWebhook: resource<Api>('commands', 'org').post('/webhooks/{source}', {
    summary: 'Receive an event of another system',
    description:
      'The project declares the sources, their secrets and what an event becomes. The signature replaces the credential.',
    role: null,
    raw: true,
    params: {
      source: textField(200, { charsMin: 1 }).meta({ example: 'shop', description: 'A source of the project.' }),
    },
    headers: z.object({
      'webhook-id': header(webhookForms.id, 'evt-4711', 'The id of the event. The same id is received once.'),
      'webhook-timestamp': header(
        webhookForms.timestamp,
        '1777629600',
        'Seconds since 1970; at most five minutes off.',
      ),
      'webhook-signature': header(
        webhookForms.signature,
        `v1=${'0'.repeat(64)}`,
        '`v1=` and the lower-case hex HMAC-SHA-256 of `id.timestamp.body` with the secret of the source.',
      ),
    }),
    body: [z.record(z.string(), z.unknown()).meta({ example: { type: 'order', id: 7 } }), 'The event, as signed'],
    answers: { 200: ['The event is known already.', receivedView], 202: ['The event is received.', receivedView] },
    problems: [404, 409],
    async handle({ deps, c }) {
      const source = await deps.find(c.req.param('source') ?? '')
      if (!source) return refuse('commands.webhook.source_unknown', 'There is no such webhook.')
      const delivery = {
        id: c.req.header('webhook-id'),
        timestamp: c.req.header('webhook-timestamp'),
        signature: c.req.header('webhook-signature'),
        body: await readBody(c.req.raw, defaultLimits, c.env?.incoming),
      }
      const received = await deps.receive(source, delivery, c.get('ids'))
      if (!received.ok) return received
      const { value } = received
      switch (value.t) {
        case 'command':
          return accept({
            outcome: 'command' as const,
            command_id: encodeId('command', value.commandId),
            status: value.status,
          })
        case 'signal':
          return accept({ outcome: 'signal' as const, ...toSignalView(value) })
        case 'duplicate':
          return accept(
            new Known({
              outcome: 'duplicate' as const,
              command_id: value.commandId === null ? null : encodeId('command', value.commandId),
            }),
          )
        case 'recorded':
          return accept({ outcome: 'recorded' as const })
      }
    },
  }),
})
