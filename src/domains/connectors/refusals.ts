/** The refusals of this room, each with its kind and the next step. */
import type { RefusalTable } from '#kernel/refusal'

export const connectorRefusals = {
  secret_in_manifest: ['invalid', 'Write a reference such as env://NAME, never the secret itself.'],
  'connectors.declaration.invalid': [
    'configuration',
    'Fix the definition in the project and restart; `facts` names every finding.',
  ],
  'connectors.template.unfilled': ['invalid', 'Send the field in the payload, or remove it from the template.'],
  'connectors.secret.reference': [
    'invalid',
    'Write env://NAME, file:///path, keyring://service/account, secret://name or vault://path.',
  ],
  'connectors.secret.no_source': ['configuration', 'Configure the source of such secrets, or use env:// or file://.'],
  'connectors.secret.missing': ['configuration', 'Store the secret at the reference, and start again.'],
  'connectors.secret.unavailable': ['unavailable', 'Check that the secret store is available, then try again.'],
  'connectors.connector.not_found': ['not_found', 'GET /connectors lists them.'],
  'connectors.address.not_allowed': ['forbidden', 'Call an address that the connector declares, or declare this one.'],
  'connectors.path.not_allowed': ['forbidden', 'Use a path inside the folder that the connector declares.'],
  'connectors.definition.not_found': [
    'not_found',
    'Check the connector first: only some providers describe themselves.',
  ],
  'connectors.definition.changed': ['conflict', 'Review the new definition, then approve it.'],
  'connectors.definition.unreadable': [
    'invalid',
    'Ask the operator of that server to fix it. Until then the tool stays disabled.',
  ],
  'connectors.definition.unavailable': ['unavailable', 'Check that the provider is available, then try again.'],
  'connectors.notification.not_found': ['not_found', 'GET /notifications lists your messages in this workspace.'],
} as const satisfies RefusalTable

declare module '#kernel/refusal' {
  interface RefusalTables {
    connectors: typeof connectorRefusals
  }
}
