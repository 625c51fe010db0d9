import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApprovalRequest } from './stored-approval.ts'
import { buildPacket, type PacketFacts, packetItems } from './review-packet.ts'

const facts: PacketFacts = {
  content: {
    arguments: { amount: '80\u200b.00' },
    effects: [{ effect_type: 'x' }],
    policy_version: '1',
    command_version: '1',
  },
  packet: {
    requestedAction: 'Refund an order.',
    why: 'It came back.',
    affected: ['order 17'],
    policy: 'cost',
    afterApproval: 'Money is sent.',
  },
  requester: 'user:1',
  riskLevel: 'medium',
  expiresAt: new Date('2026-05-01T10:00:00Z'),
}

test('[APR-03] the packet has the eight items, the exact arguments among them, with hidden characters made visible', () => {
  const packet = buildPacket(facts)
  assert.deepEqual(packet.ok && packet.value, {
    requested_action: {
      summary: 'Refund an order.',
      arguments: { amount: '80\\u{200b}.00' },
      effects: [{ effect_type: 'x' }],
    },
    requester: 'user:1',
    why: 'It came back.',
    affected: ['order 17'],
    policy: 'cost',
    after_approval: 'Money is sent.',
    risk_level: 'medium',
    expiration: '2026-05-01T10:00:00.000Z',
    hidden_characters: ['requested_action.arguments.amount'],
  })
  assert.deepEqual(packetItems, [
    'requested_action',
    'requester',
    'why',
    'affected',
    'policy',
    'after_approval',
    'risk_level',
    'expiration',
  ])
})

const blanked: Readonly<Record<string, PacketFacts>> = {
  requested_action: with_({ requestedAction: '' }),
  requester: { ...facts, requester: '' },
  why: with_({ why: ' \n' }),
  affected: with_({ affected: [] }),
  policy: with_({ policy: '' }),
  after_approval: with_({ afterApproval: '' }),
  risk_level: { ...facts, riskLevel: '' },
}
function with_(words: Partial<ApprovalRequest['packet']>): PacketFacts {
  return { ...facts, packet: { ...facts.packet, ...words } }
}

for (const [item, without] of Object.entries(blanked)) {
  test(`[APR-03] a packet without ${item} is not built`, () => {
    const packet = buildPacket(without)
    assert.equal(packet.ok, false)
    assert.deepEqual(packet.ok ? [] : [packet.code, packet.facts], ['approvals.packet.incomplete', { missing: [item] }])
  })
}

test('[APR-03] expiration is always said, also when there is none; a blank among the affected is a missing item', () => {
  const endless = buildPacket({ ...facts, expiresAt: null })
  assert.equal(endless.ok && endless.value.expiration, 'never')
  assert.equal(buildPacket(with_({ affected: ['order 17', ''] })).ok, false)
  // Words that were never given, as a caller without types can do it.
  assert.equal(buildPacket({ ...facts, packet: {} as ApprovalRequest['packet'] }).ok, false)
})
