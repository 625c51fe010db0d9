/** Builds what a person sees before deciding; a packet with one of its eight items missing is not built. */
import { formatInstant } from '#kernel/instant'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ApprovalRequest } from './approval-request.ts'
import type { ReviewPacket } from './stored-approval.ts'
import { showValue } from './visible-text.ts'

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
    // One item that is blank says as little as none.
    affected: packet.affected?.some(isBlank) ? undefined : packet.affected?.join(', '),
    policy: packet.policy,
    after_approval: packet.afterApproval,
    risk_level: riskLevel,
    expiration: expiresAt === null ? 'never' : formatInstant(expiresAt),
  }
  const missing = packetItems.filter((item) => isBlank(words[item]))
  if (missing.length > 0) {
    return refuse('approvals.packet.incomplete', `the packet lacks ${missing.join(', ')}`, {
      path: `packet.${missing[0]}`,
      hint: 'A person decides on eight items; each of them must say something.',
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
