/** The approval types that every installation has. */
import { type ApprovalType, defineApprovalType } from './approval-type.ts'

const HOUR = 60
const DAY = 24 * HOUR

/** May this command run? For every command type that names no type of its own. */
const commandApproval = defineApprovalType({
  name: 'command_approval',
  version: '1',
  riskLevel: 'medium',
  expirationMinutes: 3 * DAY,
  editsAllowed: true,
  remindersAfterMinutes: [4 * HOUR, DAY, 2 * DAY],
  meanings: {
    approved: 'Run it as shown.',
    rejected: 'Do not run it.',
    request_changes: 'Ask the requester for changes.',
  },
})

/**
 * The provider did not answer and cannot be asked: did it happen? Never expires, because no time makes an unknown deed
 * known, and doing it again on a guess is the one wrong answer.
 */
const reconcileEffect = defineApprovalType({
  name: 'reconcile_effect',
  version: '1',
  about: 'effect',
  riskLevel: 'high',
  expirationMinutes: null,
  reasonRequired: ['approved', 'rejected'],
  remindersAfterMinutes: [HOUR, 4 * HOUR, DAY],
  meanings: { approved: 'It happened.', rejected: 'It did not happen.' },
})

/** A person goes against a rule. Loud: always with a reason, always by somebody else. */
const override = defineApprovalType({
  name: 'override',
  version: '1',
  riskLevel: 'high',
  expirationMinutes: 4 * HOUR,
  decisionValues: ['approved', 'rejected'],
  reasonRequired: ['approved', 'rejected'],
  remindersAfterMinutes: [HOUR],
  meanings: { approved: 'Go against the rule, for this reason.', rejected: 'The rule stands.' },
})

/** A policy wants somebody higher up to judge. */
const escalation = defineApprovalType({
  name: 'escalation',
  version: '1',
  riskLevel: 'high',
  expirationMinutes: DAY,
  reasonRequired: ['approved', 'rejected', 'request_changes'],
  remindersAfterMinutes: [2 * HOUR, 8 * HOUR],
})

export const builtInApprovalTypes: readonly ApprovalType[] = [commandApproval, reconcileEffect, override, escalation]
