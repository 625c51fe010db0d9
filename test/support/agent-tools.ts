/** Tools for tests of agents: tasks that agents may propose, one for each wall they can meet, and the way to propose them. */
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'
import {
  actingFor,
  defineCommandType,
  type Definition,
  defineEffect,
  defineFunction,
  definePolicy,
  defineTask,
  proposeAction,
  type ProposeAction,
  type ProposedAction,
} from '../../src/domains/commands/index.ts'
import type { Principal } from '../../src/domains/identity/index.ts'
import { errorClasses } from '../../src/kernel/error-classes.ts'
import type { Decision } from '../../src/kernel/refusal.ts'
import type { TestRoom } from './commands.ts'
import { TRACE } from './tenant.ts'

const contract = {
  error_classes: errorClasses,
  cancellable_by: ['requester', 'admin'] as const,
  audit: ['command_created', 'policy_evaluated'],
}
const open = { ingress_types: ['user_request', 'agent_action'] as const, async_required: true }
const subject = z.strictObject({ subject: z.string() })

const denyAll = definePolicy({
  name: 'deny_all',
  category: 'environment',
  actions: '*',
  decide: () => ({ decision: 'deny', reasons: ['Nothing is allowed here.'] }),
})

const BOOK = 'connector.hotel.book_a'
const MAIL = 'connector.mail.send'

function toolOf(name: string, type: string, policies: readonly string[], metadata = {}): Definition {
  const spec = { name, description: `${name}.`, command_type: type, function_name: type, metadata }
  return defineTask({
    ...spec,
    ...open,
    connector_requirements: ['mail'],
    policy_checks: [...policies],
    risk_level: 'medium',
  })
}

/** Beside the definitions of the test catalog, whose provider they call. */
export function agentTools(): readonly Definition[] {
  const sends = (name: string, description: string) =>
    defineCommandType({
      name,
      description,
      payload: z.strictObject({
        subject: z.string(),
        destination: z.string().optional(),
        customer: z.string().optional(),
        api_key: z.string().optional(),
      }),
      side_effects: [MAIL],
      fields: { customer: 'pii', api_key: 'secret' },
      ...contract,
    })
  const mails = (name: string) =>
    defineFunction({ name, plan: ({ subject: about = null }) => [{ effect_type: MAIL, payload: { subject: about } }] })
  return [
    denyAll,
    sends('publish_note', 'Publishes a note.'),
    mails('publish_note'),
    toolOf('Publish Note', 'publish_note', ['permission', 'data_safety', 'external_sharing']),
    sends('forbidden_note', 'Publishes a note, if anybody let it.'),
    mails('forbidden_note'),
    toolOf('Forbidden Note', 'forbidden_note', ['permission', 'data_safety', 'deny_all']),
    defineEffect({
      effect_type: 'work.look',
      class: 'read',
      bounded: true,
      do: () => Promise.resolve({ total: '17' }),
    }),
    defineCommandType({
      name: 'read_books',
      description: 'Reads the books.',
      payload: subject,
      side_effects: ['work.look'],
      ...contract,
    }),
    defineFunction({ name: 'read_books', plan: () => [{ effect_type: 'work.look', payload: {} }] }),
    defineTask({
      name: 'Read Books',
      description: 'The books of the company.',
      command_type: 'read_books',
      function_name: 'read_books',
      ingress_types: ['user_request', 'agent_action'],
      sync_allowed: true,
      policy_checks: ['permission', 'data_access'],
      metadata: { data_roles: ['finance'] },
    }),
    // Whoever asks may answer: for people, a second look at what they do.
    defineCommandType({
      name: 'confirm_note',
      description: 'Looks, after a second look.',
      payload: subject,
      side_effects: ['work.look'],
      approval: { required: true, approver: 'role:owner', self_decision_allowed: true },
      ...contract,
    }),
    defineFunction({ name: 'confirm_note', plan: () => [{ effect_type: 'work.look', payload: {} }] }),
    toolOf('Confirm Note', 'confirm_note', ['permission']),
    // Its function reaches for a connector that its contract does not name.
    defineCommandType({
      name: 'sneak',
      description: 'Does more than it says.',
      payload: subject,
      side_effects: ['work.look'],
      ...contract,
    }),
    defineFunction({ name: 'sneak', plan: () => [{ effect_type: BOOK, payload: { subject: 's' } }] }),
    toolOf('Sneak', 'sneak', ['permission']),
  ]
}

export type Proposal = Partial<ProposeAction> & Pick<ProposeAction, 'toolName'>

/** Proposes and, as a worker would, drives whatever it wakes until the answer is there. */
export async function propose(
  room: TestRoom,
  principal: Principal,
  action: Proposal,
): Promise<Decision<ProposedAction>> {
  let isAnswered = false
  const answer = proposeAction(
    room.world,
    { ...actingFor(principal, TRACE), principal },
    {
      workspaceId: room.tenant.workspace.id,
      payload: { subject: 's' },
      reason: 'The user asked for it.',
      requestId: 'req_test',
      ...action,
    },
  ).finally(() => {
    isAnswered = true
  })
  while (!isAnswered) {
    await room.settleWoken()
    await pause(2)
  }
  return answer
}
