/** The closed lists of the columns of a command and its effects; the row types of the catalogue hold them to the database. */
export const ingressTypes = [
  'user_request',
  'scheduled_trigger',
  'webhook',
  'system_event',
  'agent_action',
  'connector_event',
  'human_decision',
] as const
export type IngressType = (typeof ingressTypes)[number]

export const cancellationModes = ['graceful', 'compensate_then_stop'] as const
export type CancellationMode = (typeof cancellationModes)[number]

const reversibilities = ['reversible', 'compensatable', 'irreversible'] as const
export type Reversibility = (typeof reversibilities)[number]
