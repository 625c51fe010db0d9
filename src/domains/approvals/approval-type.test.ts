import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  type ApprovalTypeInput,
  builtInApprovalTypes,
  contractOf,
  defineApprovalType,
  openApprovalTypes,
} from './approval-type.ts'

const good: ApprovalTypeInput = { name: 'publish', version: '1', riskLevel: 'medium', expirationMinutes: 60 }

test('[APR-18] a type says what is required, who is asked, until when, how risky, in which words, and what happens then', () => {
  const type = defineApprovalType({
    ...good,
    requiredFields: ['title'],
    approver: { role: 'editor' },
    ui: { template: 'publish' },
  })
  assert.equal(type.quorum, 1)
  assert.equal(type.selfDecision, false)
  assert.deepEqual(contractOf(type, 'low'), {
    type_version: '1',
    about: 'command',
    decision_values: ['approved', 'rejected', 'request_changes'],
    meanings: {},
    reason_required: ['rejected', 'request_changes'],
    edits_allowed: false,
    editor_may_approve: true,
    resume: {
      on_approved: 'run_command',
      on_rejected: 'fail_command',
      on_request_changes: 'ask_for_input',
      on_expired: 'expire_command',
    },
    reminders_after_minutes: [],
    escalation: null,
    ui: { template: 'publish' },
    counts_invited: false,
  })
})

const broken: readonly [string, Partial<ApprovalTypeInput>][] = [
  ['a name with capitals', { name: 'Publish' }],
  ['no version', { version: '' }],
  ['an unknown risk', { riskLevel: 'huge' as 'high' }],
  ['a quorum of nobody', { quorum: 0 }],
  ['a quorum of a half', { quorum: 1.5 }],
  ['no time at all', { expirationMinutes: 0 }],
  ['a decision that is none', { decisionValues: ['approved', 'rejected', 'maybe' as 'approved'] }],
  ['only yes', { decisionValues: ['approved'] }],
  ['a resume step that is none', { resume: { on_approved: 'dance' as 'run_command' } }],
  ['a reminder after the end', { remindersAfterMinutes: [10, 60] }],
  ['reminders out of order', { remindersAfterMinutes: [20, 10] }],
  ['an escalation after the end', { escalation: { afterMinutes: 90, role: 'board' } }],
  ['an escalation to nobody', { escalation: { afterMinutes: 30, role: 'user:1' } }],
  ['edits of what happened', { about: 'effect', editsAllowed: true }],
]
for (const [title, more] of broken) {
  test(`[APR-18] a type with ${title} does not start`, () => {
    assert.throws(() => defineApprovalType({ ...good, ...more }), { code: 'approvals.type.invalid' })
  })
}

test('the built-in types are a pin: name, risk, minutes, self, decisions, reasons', () => {
  assert.deepEqual(
    builtInApprovalTypes.map((type) => [
      type.name,
      type.riskLevel,
      type.expirationMinutes,
      type.selfDecision,
      type.decisionValues.join(),
      type.reasonRequired.join(),
    ]),
    [
      ['command_approval', 'medium', 4320, false, 'approved,rejected,request_changes', 'rejected,request_changes'],
      ['reconcile_effect', 'high', null, false, 'approved,rejected', 'approved,rejected'],
      ['requester_gone', 'high', null, false, 'approved,rejected', 'approved,rejected'],
      ['override', 'high', 240, false, 'approved,rejected', 'approved,rejected'],
      ['escalation', 'high', 1440, false, 'approved,rejected,request_changes', 'approved,rejected,request_changes'],
    ],
  )
})

test('an unknown type is refused with the nearest name; an own one may replace a built-in one, never another own one', () => {
  const types = openApprovalTypes()
  const wrong = types.find('comand_approval')
  assert.deepEqual(wrong.ok ? [] : [wrong.code, wrong.hint], [
    'approvals.type.unknown',
    'Did you mean `command_approval`?',
  ])
  const own = defineApprovalType({ ...good, name: 'override', expirationMinutes: 5 })
  const found = openApprovalTypes([own]).find('override')
  assert.equal(found.ok && found.value.expirationMinutes, 5)
  assert.throws(() => openApprovalTypes([own, own]), { code: 'approvals.type.duplicate' })
  assert.equal(types.find('toString').ok, false)
})
