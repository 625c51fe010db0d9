/** The refusal codes of this room, each with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

const DEFINITION = 'Fix the definition in the project and restart.'

export const commandRefusals = {
  task_unknown: ['not_found', 'GET /task-types lists them.'],
  ingress_not_allowed: ['forbidden', 'Use a task whose `ingress_types` include this one; GET /task-types shows them.'],
  mode_reserved: ['invalid', 'Use graceful or compensate_then_stop.'],
  signature: ['unauthenticated', 'Sign the delivery with the secret of this webhook.'],
  timestamp: ['unauthenticated', 'Send deliveries without delay, and correct the clock of the sender.'],
  encoding: ['malformed', 'Save it as UTF-8 without BOM.'],
  yaml_syntax: ['malformed', 'Fix the file at the named position.'],
  yaml_duplicate_key: ['malformed', 'Keep one of the two.'],
  yaml_aliases: ['malformed', 'Replace the aliases by their values.'],
  yaml_too_deep: ['malformed', 'Use less nesting.'],
  yaml_tag: ['malformed', 'Remove the tag: only plain values are read.'],
  yaml_version: ['malformed', 'Remove the %YAML line, or set it to 1.2.'],
  yaml_one_document: ['malformed', 'Keep one document in each file.'],
  'commands.catalog.invalid': [
    'configuration',
    'Fix the definition in the project and restart; `facts` names every finding.',
  ],
  'commands.definition.invalid': ['invalid', DEFINITION],
  'commands.payload.malformed': [
    'invalid',
    'Send a payload that matches the task; GET /task-types shows its payload_schema.',
  ],
  'commands.contract_key.taken': [
    'conflict',
    'Read the command that was asked for the same thing; change a field that its key is made of to ask for another thing.',
  ],
  'commands.input.given': [
    'conflict',
    'Send only the fields that are missing; cancel the command to change the others.',
  ],
  'commands.command.not_found': ['not_found', 'GET /commands lists those of this workspace.'],
  'commands.command.not_waiting': ['conflict', 'Read the command: `next` says what can happen now, and who can do it.'],
  'commands.command.not_failed': ['conflict', 'Read the command: `next` says what can happen now, and who can do it.'],
  'commands.command.moved': ['conflict', 'Read the command again: `next` says what can happen now.'],
  'commands.cancel.succeeded': [
    'conflict',
    'POST /commands/{id}/undo requests the undo of its effects; GET /commands/{id}/undo shows what would be undone.',
  ],
  'commands.cancel.ended': ['conflict', 'Submit a new command if it is still wanted.'],
  'commands.undo.of_undo': ['conflict', 'Submit the request of the original command again.'],
  'commands.undo.not_ended': ['conflict', 'Read the command: `next` says what can happen now, and who can do it.'],
  'commands.undo.cancelling': ['conflict', 'Cancel it again: the cancel undoes the rest.'],
  'commands.undo.nothing_left': ['conflict', 'GET /commands/{id}/undo says of each effect why it stays.'],
  'commands.undo.unknown_undo': ['conflict', 'Try again when the project has the undo again.'],
  'commands.retry.rejected': ['conflict', 'Read the command: `next` says how to ask again.'],
  'commands.retry.undone': ['conflict', 'Undo or cancel it to undo the rest, then submit a new command.'],
  'commands.retry.in_doubt': [
    'conflict',
    'Check at the provider what was done, and submit what is missing under another key.',
  ],
  'commands.retry.exhausted': ['conflict', 'Fix the cause and submit a new command.'],
  'commands.action.not_allowed': ['forbidden', 'Read the command: `next` says who can do what.'],
  'commands.effect.key_taken': ['conflict', 'Give each effect its own idempotency key.'],
  'commands.plan.changed': ['conflict', 'Reject the approval, or cancel the command and submit it again.'],
  'commands.plan.invalid': ['invalid', 'Fix the function of the task in the project: its plan breaks the contract.'],
  'commands.dependency.not_found': ['not_found', 'Name each command once, by an id of this workspace.'],
  'commands.signal.id_reused': [
    'conflict',
    'Send another signal under another id, and the same id only to repeat the same signal.',
  ],
  'commands.webhook.source_unknown': [
    'not_found',
    'Check the address: its last part is the name of the webhook in the project.',
  ],
  'commands.connector_access.invalid': ['configuration', DEFINITION],
  'commands.tool.unknown': [
    'not_found',
    'GET /task-types lists the tasks; agents can use those whose `ingress_types` include agent_action.',
  ],
  'commands.tool.forbidden': ['forbidden', 'Use a task that is open to agents; GET /task-types shows which.'],
  'commands.tool.outside_scope': [
    'forbidden',
    'Propose one of the tools of the key, or ask the person for a key that covers it.',
  ],
  'commands.proposal.of_another': ['conflict', 'Propose other work, or ask the person for whom you act.'],
  'commands.agent.stopped': [
    'conflict',
    'Propose it again after the stop is lifted. The person for whom you act can see who set it, and why.',
  ],
  'commands.stop.target': [
    'invalid',
    'Name an agent, a run or a swarm as `target`, or use the scope `all` without one.',
  ],
  'commands.stop.target_unknown': [
    'not_found',
    'Use an id of this workspace, or the name of an agent of the project, of a key or of a run.',
  ],
  'commands.stop.not_in_force': ['conflict', 'GET /stops lists the stops in force.'],
  'commands.tool.ambiguous': ['invalid', 'Use the full name of the task; GET /task-types lists them.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    commands: typeof commandRefusals
  }
}
