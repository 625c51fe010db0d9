/** The refusals of connectors: declarations, secret references, definitions, notifications: each code with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const connectorRefusals = {
  secret_in_manifest: ['invalid', 'Write a reference such as env://NAME, never the secret itself.'],
  'connectors.declaration.invalid': [
    'configuration',
    'Fix the definition in the project and restart; `facts` names every finding.',
  ],
  'connectors.template.unfilled': ['invalid', 'Give the field in the payload, or take it out of the template.'],
  'connectors.secret.reference': [
    'invalid',
    'Write env://NAME, file:///path, keyring://service/account or vault://path.',
  ],
  'connectors.secret.no_source': ['configuration', 'Configure the source of such secrets, or use env:// or file://.'],
  'connectors.secret.missing': ['configuration', 'Put the secret where the reference points, and start again.'],
  'connectors.secret.unavailable': ['unavailable', 'Check that the secret store answers, then try again.'],
  'connectors.connector.not_found': ['not_found', 'GET /connectors lists them.'],
  'connectors.address.not_allowed': ['forbidden', 'Call an address that the connector declares, or declare this one.'],
  'connectors.path.not_allowed': ['forbidden', 'Stay inside the folder that the connector declares.'],
  'connectors.definition.not_found': [
    'not_found',
    'Look at the connector: only some describe themselves, and only after a check.',
  ],
  'connectors.definition.changed': ['conflict', 'Look at it again, then approve that one.'],
  'connectors.definition.unreadable': [
    'invalid',
    'Ask the operator of that server to fix it. Until then the tool stays disabled.',
  ],
  'connectors.definition.unavailable': ['unavailable', 'Check that the provider answers, then ask again.'],
  'connectors.notification.not_found': [
    'not_found',
    'GET /notifications lists what was sent to you in this workspace.',
  ],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    connectors: typeof connectorRefusals
  }
}
