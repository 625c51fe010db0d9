import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { approvalHash, type ApprovedContent } from './stored-approval.ts'

const content: ApprovedContent = {
  arguments: { amount: '80.00', order_id: 17 },
  effects: [{ effect_type: 'connector.pay.refund', effect_payload: { amount: '80.00' } }],
  policy_version: 'cost@3',
  command_version: 'refund_order@2',
}

test('[APR-15] the hash is pinned: another computation gives the same', () => {
  // printf '%s' '{"arguments":…,"command_version":…,"effects":…,"policy_version":…}' | sha256sum
  assert.equal(approvalHash(content), '755cb01e2f4249a8f77782ecd92a4a8289ac7410605b837d930d41acd24ece38')
})

test('[APR-15] the order of keys does not matter, and every part does', () => {
  const reordered = { ...content, arguments: { order_id: 17, amount: '80.00' } }
  assert.equal(approvalHash(reordered), approvalHash(content))
  const changed: readonly ApprovedContent[] = [
    { ...content, arguments: { ...content.arguments, amount: '80.01' } },
    { ...content, arguments: { ...content.arguments, extra: null } },
    { ...content, effects: [] },
    { ...content, effects: [...content.effects, ...content.effects] },
    { ...content, policy_version: 'cost@4' },
    { ...content, command_version: 'refund_order@3' },
  ]
  assert.equal(new Set([content, ...changed].map(approvalHash)).size, changed.length + 1)
})

test('[APR-15] two different arguments never share a hash, and equal ones always do', () => {
  const args = fc.dictionary(fc.string({ maxLength: 4 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 4 })
  fc.assert(
    fc.property(args, args, (left, right) => {
      const one = { ...content, arguments: JSON.parse(JSON.stringify(left)) as ApprovedContent['arguments'] }
      const two = { ...content, arguments: JSON.parse(JSON.stringify(right)) as ApprovedContent['arguments'] }
      const isEqual = sorted(one.arguments) === sorted(two.arguments)
      assert.equal(approvalHash(one) === approvalHash(two), isEqual)
    }),
  )
})

function sorted(value: unknown): string {
  return JSON.stringify(value, (_, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}
