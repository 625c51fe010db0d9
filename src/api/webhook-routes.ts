/** Receives webhooks: authenticated by a signature over the exact bytes instead of a credential, so the body is read here. */
import { type CommandDeps, openWebhooks, type WebhookSource } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import { refuse } from '#kernel/refusal'
import { defaultLimits } from './api-deps.ts'
import { readBody } from './body.ts'
import { answerProblem } from './guards.ts'
import { newRouter } from './resource.ts'

/** For `publicPaths`: the signature replaces the credential. */
export const webhookPath = '/webhooks/:source'

export function webhookRoutes(deps: CommandDeps, sources: readonly WebhookSource[]) {
  const byName = new Map(sources.map((source) => [source.name, source]))
  const receive = openWebhooks(deps)
  const router = newRouter()
  router.post(webhookPath, async (c) => {
    const source = byName.get(c.req.param('source') ?? '')
    if (!source) return answerProblem(c, refuse('commands.webhook.source_unknown', 'There is no such webhook.'))
    const delivery = {
      id: c.req.header('webhook-id'),
      timestamp: c.req.header('webhook-timestamp'),
      signature: c.req.header('webhook-signature'),
      body: await readBody(c.req.raw, defaultLimits, c.env?.incoming),
    }
    const received = await receive(source, delivery, c.get('ids'))
    if (!received.ok) return answerProblem(c, received)
    const { value } = received
    switch (value.t) {
      case 'command':
        return c.json(
          { outcome: 'command', command_id: encodeId('command', value.commandId), status: value.status },
          202,
        )
      case 'duplicate':
        return c.json(
          { outcome: 'duplicate', command_id: value.commandId === null ? null : encodeId('command', value.commandId) },
          200,
        )
      case 'recorded':
        return c.json({ outcome: 'recorded' }, 202)
    }
  })
  return router
}
