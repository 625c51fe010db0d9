/** The review packet of an approver: eight items, with hidden characters made visible. */
import { formatInstant } from '#kernel/instant'
import { formatPath, isJsonObject, type JsonStep, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showText } from '#kernel/visible-text'
import type { ApprovalRequest, ReviewPacket } from './stored-approval.ts'

export const packetItems = [
  'requested_action',
  'requester',
  'why',
  'affected',
  'policy',
  'after_approval',
  'risk_level',
  'expiration',
] as const
type PacketItem = (typeof packetItems)[number]

export type PacketFacts = Pick<ApprovalRequest, 'content' | 'packet' | 'readBack'> & {
  readonly requester: string
  readonly riskLevel: string
  readonly expiresAt: Date | null
}

const isBlank = (text: string | undefined) => text === undefined || text.trim() === ''

export function buildPacket({
  content,
  packet,
  readBack,
  requester,
  riskLevel,
  expiresAt,
}: PacketFacts): Decision<ReviewPacket> {
  const words: Readonly<Record<PacketItem, string | undefined>> = {
    requested_action: packet.requestedAction,
    requester,
    why: packet.why,
    // A list with a blank item counts as missing.
    affected: packet.affected?.some(isBlank) ? undefined : packet.affected?.join(', '),
    policy: packet.policy,
    after_approval: packet.afterApproval,
    risk_level: riskLevel,
    expiration: expiresAt === null ? 'never' : formatInstant(expiresAt),
  }
  const missing = packetItems.filter((item) => isBlank(words[item]))
  if (missing.length > 0) {
    return refuse('approvals.packet.incomplete', `The packet lacks ${missing.join(', ')}.`, {
      path: `packet.${missing[0]}`,
      hint: 'A person decides on eight items, and none of them may be blank.',
      facts: { missing },
    })
  }
  const { value, places } = showValue<Omit<ReviewPacket, 'hidden_characters'>>({
    requested_action: {
      summary: packet.requestedAction,
      arguments: content.arguments,
      effects: content.effects,
      ...(readBack === undefined ? {} : { read_back: readBack }),
    },
    requester,
    why: packet.why,
    affected: packet.affected,
    policy: packet.policy,
    after_approval: packet.afterApproval,
    risk_level: riskLevel,
    expiration: words.expiration ?? 'never',
  })
  return accept({ ...value, hidden_characters: [...new Set(places)] })
}

type Shown<T> = {
  readonly value: T
  /** The paths of the hidden characters. */
  readonly places: readonly string[]
}

/** Makes hidden characters visible in every text and key. */
export function showValue<T extends JsonValue>(value: T, root: readonly JsonStep[] = []): Shown<T> {
  const places: string[] = []
  const show = (part: JsonValue, steps: readonly JsonStep[]): JsonValue => {
    if (typeof part === 'string') return visible(part, steps)
    if (Array.isArray(part)) return part.map((each: JsonValue, index) => show(each, [...steps, index]))
    if (!isJsonObject(part)) return part
    return Object.fromEntries(
      Object.entries(part).map(([key, each]) => [visible(key, [...steps, key]), show(each, [...steps, key])]),
    )
  }
  const visible = (text: string, steps: readonly JsonStep[]): string => {
    const shown = showText(text)
    if (shown !== text) places.push(formatPath(steps))
    return shown
  }
  // Texts are replaced by texts, so the shape stays the same.
  return { value: show(value, root) as T, places }
}
