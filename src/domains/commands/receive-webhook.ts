/** Takes in what an outside system sends: signed, fresh, once. It becomes a command, a record, or an audited rejection. */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { JsonObject } from '#kernel/json-value'
import { parseGuardedObject } from '#kernel/json-guard'
import { webhookKey } from '#kernel/key-template'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { appendEvents, eventIdOf } from '#store'
import { commandLog } from './events.ts'
import { submitCommand } from './submit-command.ts'
import type { Acting, CommandDeps } from './deps.ts'

export type WebhookSource = {
  readonly name: string
  readonly workspaceId: string
  readonly secret: Uint8Array
  /** What an event of the source asks for; undefined: nothing, it is only recorded. */
  readonly map: (event: JsonObject) => { readonly taskName: string; readonly payload: JsonObject } | undefined
}

export type WebhookDelivery = {
  readonly id: string | undefined
  readonly timestamp: string | undefined
  readonly signature: string | undefined
  readonly body: Uint8Array
}

export type Received =
  | { readonly t: 'command'; readonly commandId: string; readonly status: string }
  | { readonly t: 'duplicate'; readonly commandId: string | null }
  | { readonly t: 'recorded' }

const TOLERANCE_MS = 5 * 60_000
const SIGNATURE = /^v1=([0-9a-f]{64})$/
const EVENT_ID = /^[\w.:-]{1,200}$/

/** One answer for every wrong signature: missing, malformed, of another body, of another secret. */
export function checkDelivery(
  source: Pick<WebhookSource, 'secret'>,
  { id, timestamp, signature, body }: WebhookDelivery,
  now: Date,
): Decision<string> {
  const given = SIGNATURE.exec(signature ?? '')?.[1]
  const wrong = refuse('signature', 'The signature does not fit this delivery.', {
    hint: 'webhook-signature is v1= and the lower-case hex HMAC-SHA-256 of id.timestamp.body.',
  })
  if (
    given === undefined ||
    id === undefined ||
    !EVENT_ID.test(id) ||
    timestamp === undefined ||
    !/^\d{1,12}$/.test(timestamp)
  )
    return wrong
  const expected = createHmac('sha256', source.secret).update(`${id}.${timestamp}.`).update(body).digest()
  if (!timingSafeEqual(expected, Buffer.from(given, 'hex'))) return wrong
  const distance = Math.abs(now.getTime() - Number(timestamp) * 1_000)
  if (distance > TOLERANCE_MS)
    return refuse('timestamp', 'The delivery is too old or from the future.', {
      facts: { tolerance_s: TOLERANCE_MS / 1_000 },
    })
  return accept(id)
}

/** For senders written by us, and for tests. */
export function signDelivery(secret: Uint8Array, id: string, timestamp: string, body: Uint8Array): string {
  return `v1=${createHmac('sha256', secret).update(`${id}.${timestamp}.`).update(body).digest('hex')}`
}

export async function receiveWebhook(
  deps: CommandDeps,
  source: WebhookSource,
  delivery: WebhookDelivery,
  ids: { readonly traceId: string; readonly requestId: string },
): Promise<Decision<Received>> {
  const by: Acting = { actor: `webhook:${source.name}`, kind: 'system', traceId: ids.traceId }
  const checked = checkDelivery(source, delivery, deps.now())
  if (!checked.ok) return checked
  const parsed = parseGuardedObject(Buffer.from(delivery.body).toString('utf8'))
  if (!parsed.ok) return parsed
  const asked = source.map(parsed.value)
  if (!asked) return recordOnly(deps, source, by, checked.value, parsed.value)
  const submitted = await submitCommand(deps, by, {
    workspaceId: source.workspaceId,
    taskName: asked.taskName,
    payload: asked.payload,
    // One command per event of the provider, in whatever order and how often it is delivered.
    idempotencyKey: webhookKey(source.name, checked.value),
    ingress: 'webhook',
    requestId: ids.requestId,
    metadata: { webhook: source.name, event_id: checked.value },
  })
  if (!submitted.ok) return submitted
  const { command, isNew } = submitted.value
  return accept(
    isNew
      ? { t: 'command', commandId: command.command_id, status: command.status }
      : { t: 'duplicate', commandId: command.command_id },
  )
}

/** Nobody here knows what to do about it: it is kept on record, once. */
async function recordOnly(
  deps: CommandDeps,
  source: WebhookSource,
  by: Acting,
  id: string,
  event: JsonObject,
): Promise<Decision<Received>> {
  const payload = {
    source: source.name,
    provider_event_id: id,
    type: typeof event['type'] === 'string' ? event['type'].slice(0, 100) : null,
    target_type: 'webhook',
    target_id: id,
  }
  const draft = {
    eventId: eventIdOf('webhook', source.workspaceId, source.name, id),
    type: 'webhook_received' as const,
    payload,
    actor: by.actor,
    actorKind: by.kind,
    traceId: by.traceId,
    at: deps.now(),
    links: { workspace_id: source.workspaceId },
  }
  const added = await appendEvents(deps.db, commandLog, [draft], { once: true })
  return accept(added === 0 ? { t: 'duplicate', commandId: null } : { t: 'recorded' })
}
