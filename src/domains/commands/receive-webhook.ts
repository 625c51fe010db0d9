/** Receives webhooks: signed, recent, and each once. A delivery becomes a command, a record, or an audited rejection. */
import { type Actor, eventBy } from '#kernel/actor'
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { JsonObject } from '#kernel/json-value'
import type { CommandState } from '#kernel/machines/command'
import { parseGuardedObject } from '#kernel/json-guard'
import { webhookKey } from '#kernel/idempotency-key'
import { accept, type Decision, quote, type Refusal, refuse } from '#kernel/refusal'
import { cutText } from '#kernel/cut-text'
import { redactText } from '#kernel/secret-shapes'
import { appendEvents, eventIdOf } from '#store'
import { commandLog } from './events.ts'
import { sendSignal, type SignalDraft } from './signals.ts'
import { submitCommand } from './submit.ts'
import type { CommandDeps } from './deps.ts'

export type WebhookSource = {
  readonly name: string
  /** The id or the short name of the workspace. Default: the workspace of requests that name none. */
  readonly workspace?: string
  readonly secret: Uint8Array
  /** Maps an event to a task or to a signal. Undefined: the event is only recorded. */
  readonly map: (
    event: JsonObject,
  ) => { readonly taskName: string; readonly payload: JsonObject } | { readonly signal: SignalDraft } | undefined
}

/** A source whose workspace was found. */
export type HomedSource = WebhookSource & { readonly workspaceId: string }

type WebhookDelivery = {
  readonly id: string | undefined
  readonly timestamp: string | undefined
  readonly signature: string | undefined
  readonly body: Uint8Array
}

type Received =
  | { readonly t: 'command'; readonly commandId: string; readonly status: CommandState }
  | { readonly t: 'signal'; readonly signalId: string; readonly woken: number }
  | { readonly t: 'duplicate'; readonly commandId: string | null }
  | { readonly t: 'recorded' }

const TOLERANCE_MS = 5 * 60_000
/** The headers of a delivery. The id has no dots: they separate the parts that are signed. */
export const webhookForms = {
  id: /^[0-9A-Za-z_:-]{1,200}$/,
  timestamp: /^[0-9]{1,12}$/,
  signature: /^v1=([0-9a-f]{64})$/,
}

/** All wrong signatures get the same answer: missing, malformed, for another body, or with another secret. */
export function checkDelivery(
  source: Pick<WebhookSource, 'secret'>,
  { id, timestamp, signature, body }: WebhookDelivery,
  now: Date,
): Decision<string> {
  const given = webhookForms.signature.exec(signature ?? '')?.[1]
  const wrong = refuse('signature', 'The signature does not match this delivery.', {
    hint: 'webhook-signature is v1= and the lower-case hex HMAC-SHA-256 of id.timestamp.body.',
  })
  if (
    given === undefined ||
    id === undefined ||
    !webhookForms.id.test(id) ||
    timestamp === undefined ||
    !webhookForms.timestamp.test(timestamp)
  )
    return wrong
  const expected = createHmac('sha256', source.secret).update(`${id}.${timestamp}.`).update(body).digest()
  if (!timingSafeEqual(expected, Buffer.from(given, 'hex'))) return wrong
  const distance = Math.abs(now.getTime() - Number(timestamp) * 1_000)
  if (distance > TOLERANCE_MS)
    return refuse('timestamp', 'The timestamp of the delivery is too old or in the future.', {
      facts: { tolerance_s: TOLERANCE_MS / 1_000 },
    })
  return accept(id)
}

/** Signs a delivery as a sender does. */
export function signDelivery(secret: Uint8Array, id: string, timestamp: string, body: Uint8Array): string {
  return `v1=${createHmac('sha256', secret).update(`${id}.${timestamp}.`).update(body).digest('hex')}`
}

/** A delivery as it arrived. An unreadable body is refused and recorded like any other. */
type ArrivedDelivery = Omit<WebhookDelivery, 'body'> & { readonly body: Decision<Uint8Array> }
type DeliveryIds = { readonly traceId: string; readonly requestId: string }
type ReceiveWebhook = (source: HomedSource, delivery: ArrivedDelivery, ids: DeliveryIds) => Promise<Decision<Received>>

export function openWebhooks(deps: CommandDeps): ReceiveWebhook {
  const recordRefused = openRefusedRecord(deps)
  return async (source, { body, ...head }, ids) => {
    const by: Actor = { id: `webhook:${source.name}`, kind: 'system', traceId: ids.traceId }
    const known = body.ok ? readDelivery(source, { ...head, body: body.value }, deps.now()) : body
    if (!known.ok) return recordRefused(source, by, known, head.id)
    const { id, event } = known.value
    const mapped = mapEvent(source, event)
    if (!mapped.ok) return recordRefused(source, by, mapped, id)
    const asked = mapped.value
    if (!asked) return recordOnly(deps, source, by, id, event)
    // One command or signal per event of the provider, however often and in whatever order it is delivered.
    const key = webhookKey(source.name, id)
    if ('signal' in asked) {
      const received = await receiveSignal(deps, source, by, key, asked.signal)
      return received.ok ? received : recordRefused(source, by, received, id)
    }
    const submitted = await submitCommand(deps, by, {
      workspaceId: source.workspaceId,
      taskName: asked.taskName,
      payload: asked.payload,
      idempotencyKey: key,
      ingress: 'webhook',
      requestId: ids.requestId,
      metadata: { webhook: source.name, event_id: id },
    })
    // Another event has asked for the same thing. The refusal is on record; the sender must not deliver it again.
    if (!submitted.ok && submitted.code === 'commands.contract_key.taken')
      return accept({ t: 'duplicate', commandId: null })
    if (!submitted.ok) return submitted
    const { command, isNew } = submitted.value
    return accept(
      isNew
        ? { t: 'command', commandId: command.command_id, status: command.status }
        : { t: 'duplicate', commandId: command.command_id },
    )
  }
}

async function receiveSignal(
  deps: CommandDeps,
  { workspaceId }: HomedSource,
  by: Actor,
  id: string,
  signal: SignalDraft,
): Promise<Decision<Received>> {
  const sent = await sendSignal(deps, by, { ...signal, workspaceId, id, ingress: 'webhook' })
  if (!sent.ok) return sent
  const { signalId, woken, isNew } = sent.value
  return accept(isNew ? { t: 'signal', signalId, woken } : { t: 'duplicate', commandId: null })
}

/** The mapping is project code. Its error may quote the body, so the refusal names only the kind of error. */
function mapEvent({ name, map }: WebhookSource, event: JsonObject): Decision<ReturnType<WebhookSource['map']>> {
  try {
    return accept(map(event))
  } catch (error) {
    const kind = error instanceof Error ? error.name : typeof error
    return refuse('commands.payload.malformed', `The mapping of the webhook ${quote(name)} failed: ${kind}.`, {
      hint: 'Send an event of the form that the source maps, or fix `map` of the source in the project.',
    })
  }
}

function readDelivery(
  source: WebhookSource,
  delivery: WebhookDelivery,
  now: Date,
): Decision<{ readonly id: string; readonly event: JsonObject }> {
  const checked = checkDelivery(source, delivery, now)
  if (!checked.ok) return checked
  const parsed = parseGuardedObject(Buffer.from(delivery.body).toString('utf8'))
  return parsed.ok ? accept({ id: checked.value, event: parsed.value }) : parsed
}

const REFUSED_ROWS_PER_MINUTE = 30
const MINUTE_MS = 60_000

/**
 * Anyone can send a delivery that is refused, so the record is bounded: up to 30 rows per minute and source, then one row per minute, source
 * and code, marked as a flood. It never contains the body.
 */
function openRefusedRecord({ db, now, newId }: Pick<CommandDeps, 'db' | 'now' | 'newId'>) {
  let minute = 0
  let rows = new Map<string, number>()
  return async (source: HomedSource, by: Actor, refusal: Refusal, givenId: string | undefined): Promise<Refusal> => {
    const at = now()
    const current = Math.floor(at.getTime() / MINUTE_MS)
    if (current !== minute) [minute, rows] = [current, new Map()]
    const isFlood = (rows.get(source.name) ?? 0) >= REFUSED_ROWS_PER_MINUTE
    const bucket = isFlood ? `${source.name} ${refusal.code}` : source.name
    const written = rows.get(bucket) ?? 0
    rows.set(bucket, written + 1)
    if (isFlood && written > 0) return refusal
    const id = givenId !== undefined && webhookForms.id.test(givenId) ? redactText(givenId) : null
    const { code, reason } = refusal
    const payload = {
      source: source.name,
      provider_event_id: isFlood ? null : id,
      ingress: 'webhook',
      code,
      reason: cutText(redactText(reason), 500),
      is_flood: isFlood,
      target_type: 'request',
      target_id: null,
    }
    const draft = {
      // All processes of an installation write the same row about a flood.
      eventId: isFlood ? eventIdOf('webhook_flood', source.workspaceId, source.name, code, String(current)) : newId(),
      type: 'command_rejected' as const,
      payload,
      ...eventBy(by),
      at,
      links: { workspace_id: source.workspaceId },
    }
    await appendEvents(db, commandLog, [draft], { once: isFlood })
    return refusal
  }
}

/** Records an event without a mapping, once. */
async function recordOnly(
  deps: CommandDeps,
  source: HomedSource,
  by: Actor,
  id: string,
  event: JsonObject,
): Promise<Decision<Received>> {
  const payload = {
    source: source.name,
    provider_event_id: redactText(id),
    type: typeof event['type'] === 'string' ? cutText(redactText(event['type']), 100) : null,
    target_type: 'webhook',
    target_id: redactText(id),
  }
  const draft = {
    eventId: eventIdOf('webhook', source.workspaceId, source.name, id),
    type: 'webhook_received' as const,
    payload,
    ...eventBy(by),
    at: deps.now(),
    links: { workspace_id: source.workspaceId },
  }
  const added = await appendEvents(deps.db, commandLog, [draft], { once: true })
  return accept(added === 0 ? { t: 'duplicate', commandId: null } : { t: 'recorded' })
}
