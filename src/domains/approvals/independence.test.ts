/** Who decides independently of the requester: credentials, roles, times, and what the installation counts. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { contractOf, type CountedInvited, defineApprovalType } from './approval-type.ts'
import type { Person } from './approver.ts'
import { findDependence, findTie, refuseDependent, type Request } from './independence.ts'

const uuid = (n: number) => `0197f3b2-c4d5-7a8e-9b0c-${String(n).padStart(12, '0')}`
const [root, ann, other] = [uuid(1), uuid(2), uuid(3)]
const [EARLY, ASKED, LATE] = ['2026-05-01T09:00:00Z', '2026-05-01T10:00:00Z', '2026-05-01T11:00:00Z']

function aRequest({ invited = 'by_others', ...more }: Partial<Request> & { readonly invited?: CountedInvited } = {}) {
  const type = defineApprovalType({ name: 'x', version: '1', riskLevel: 'low', expirationMinutes: 60 })
  const content = { arguments: {}, effects: [], policy_version: '1', command_version: '1' }
  const contract = contractOf({ ...type, invited }, 'low')
  return {
    requested_by: `user:${root}`,
    approver: 'role:data-owner',
    approver_roles: [],
    self_decision_allowed: false,
    request_payload: { ...content, approvers: [], contract, requested_at: ASKED },
    ...more,
  }
}
const kindOf = (...asked: Parameters<typeof findDependence>) => findDependence(...asked)?.kind
const aPerson = (issuers: readonly string[], by: readonly string[] = [], at = EARLY): Person => ({
  userId: ann,
  externalId: 'local:ann',
  orgRoles: ['data-owner'],
  origins: { issuers, grants: [{ role: 'data-owner', by, at }], stands_for: [] },
})

test('[H3] issued by the requester, directly or not, is the requester; issued by somebody else is not', () => {
  assert.equal(kindOf(aRequest(), aPerson([root])), 'issued_by_requester')
  assert.equal(kindOf(aRequest(), aPerson([other, root])), 'issued_by_requester')
  assert.equal(kindOf(aRequest(), aPerson([other])), undefined)
  assert.equal(kindOf(aRequest(), aPerson([])), undefined)
  assert.equal(kindOf(aRequest({ requested_by: `user:${ann}` }), aPerson([])), 'is_requester')
  assert.equal(kindOf(aRequest({ self_decision_allowed: true }), aPerson([root])), undefined)
})

test('[M3] after an edit the requester may confirm, and everybody else is as independent as before', () => {
  const edits = { by: `user:${other}`, of: uuid(9), fields: ['amount'], author: `user:${other}` }
  const { request_payload } = aRequest()
  const edited = aRequest({ self_decision_allowed: true, request_payload: { ...request_payload, edits } })
  assert.equal(kindOf(edited, aPerson([root])), 'issued_by_requester')
  // The person who changed it counts as a requester: neither people of theirs nor a requester whom they issued confirm it.
  assert.deepEqual(findDependence(edited, aPerson([other])), { kind: 'issued_by_requester', on: 'editor' })
  assert.equal(kindOf(edited, { ...aPerson([other]), userId: root }), 'issued_by_requester')
  assert.equal(kindOf(edited, aPerson([], [other], LATE)), 'role_by_requester')
  assert.equal(kindOf(edited, { ...aPerson([]), userId: root }), undefined)
})

test('[H3] the issuers of the requester count as the requester, at any distance and in both directions', () => {
  const by = (invited: CountedInvited, issuers: readonly string[]) => {
    const { request_payload } = aRequest({ invited })
    return aRequest({ request_payload: { ...request_payload, issuers: { [`user:${root}`]: issuers } } })
  }
  const from = (...issuers: readonly string[]) => by('none', issuers)
  const [maker, first] = [uuid(4), uuid(5)]
  // By default a common issuer counts: one administrator has invited a whole team.
  assert.equal(kindOf(by('by_others', [maker]), aPerson([maker])), undefined)
  assert.equal(findTie(by('by_others', [maker]), aPerson([maker]))?.kind, 'same_issuer')
  assert.equal(kindOf(by('by_others', [maker]), aPerson([], [maker], LATE)), undefined)
  assert.equal(kindOf(by('by_others', [maker, ann]), aPerson([])), 'issued_requester')
  assert.equal(kindOf(from(maker), aPerson([maker])), 'same_issuer')
  // The maker of the requester has a maker, who also made the approver.
  assert.equal(kindOf(from(maker, first), aPerson([first])), 'same_issuer')
  assert.equal(kindOf(from(first), aPerson([other, first])), 'same_issuer')
  assert.equal(kindOf(from(ann), aPerson([])), 'issued_requester')
  assert.equal(kindOf(from(maker, ann), aPerson([])), 'issued_requester')
  assert.equal(kindOf(from(maker), aPerson([other])), undefined)
  assert.equal(kindOf(from(maker), aPerson([], [maker], LATE)), 'role_by_requester')
  assert.equal(kindOf(from(maker), aPerson([], [other, maker], LATE)), 'role_by_requester')
  assert.equal(kindOf(from(maker), aPerson([], [maker], EARLY)), undefined)
  // An installation that counts invited people counts all of these, except what the requester granted.
  const { contract } = aRequest({ invited: 'all' }).request_payload
  const strict = from(maker, ann)
  const counted = { ...strict, request_payload: { ...strict.request_payload, contract } }
  assert.equal(kindOf(counted, aPerson([maker], [maker], LATE)), undefined)
  assert.equal(kindOf(counted, aPerson([maker], [root], LATE)), 'role_by_requester')
})

test('[H3] an installation that counts invited people counts them, and still no role of after the request', () => {
  assert.equal(kindOf(aRequest({ invited: 'all' }), aPerson([root])), undefined)
  assert.equal(kindOf(aRequest({ invited: 'all' }), aPerson([root], [root], LATE)), 'role_by_requester')
})

test('[G7] a request that a clock dates ahead is as old as its approval: a role of after it does not count', () => {
  const { request_payload } = aRequest()
  const dated = { ...request_payload, requested_at: '2026-05-01T20:00:00Z' }
  const ahead = aRequest({ request_payload: dated, created_at: new Date(ASKED) })
  assert.equal(kindOf(ahead, aPerson([], [root], LATE)), 'role_by_requester')
  assert.equal(kindOf(ahead, aPerson([], [root], EARLY)), undefined)
})

test('[G16] the hint of a strict installation does not advise to turn its rules off', () => {
  for (const [invited, advises] of [
    ['none', false],
    ['by_others', true],
  ] as const) {
    const { hint } = refuseDependent(aRequest({ invited }), { kind: 'issued_by_requester', on: 'requester' })
    assert.equal(hint?.includes('CONCORD_COUNT_INVITED_APPROVERS=1'), advises)
  }
})

test('[H3] a role counts unless the requester, or somebody they issued, granted it after the request', () => {
  assert.equal(kindOf(aRequest(), aPerson([], [root], EARLY)), undefined)
  assert.equal(kindOf(aRequest(), aPerson([], [root], ASKED)), 'role_by_requester')
  assert.equal(kindOf(aRequest(), aPerson([], [root], LATE)), 'role_by_requester')
  assert.equal(kindOf(aRequest(), aPerson([], [other, root], LATE)), 'role_by_requester')
  assert.equal(kindOf(aRequest(), aPerson([], [other], LATE)), undefined)
  // Named in person, the role is not needed.
  assert.equal(kindOf(aRequest({ approver: `user:${ann}` }), aPerson([], [root], LATE)), undefined)
  // An approval of an older version knows only its own time.
  const { requested_at: _, ...older } = aRequest().request_payload
  const asked = aRequest({ request_payload: older, created_at: new Date(ASKED) })
  assert.equal(kindOf(asked, aPerson([], [root], LATE)), 'role_by_requester')
  // A rule writes data_owner, the role is data-owner.
  assert.equal(kindOf(aRequest({ approver: 'role:data_owner' }), aPerson([], [root], LATE)), 'role_by_requester')
})
