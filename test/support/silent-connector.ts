/** A connector that takes a call and never answers, with the longest timeout that a declaration allows. */
import { z } from 'zod'
import { type ConnectorDefinition, type ConnectorResult, defineConnector } from '../../src/domains/connectors/index.ts'

/** `call` receives every call and may answer it. */
export function silentConnector(call: () => Promise<ConnectorResult> | undefined): ConnectorDefinition {
  return defineConnector({
    connector_type: 'silent',
    name: 'silent',
    description: 'Never answers.',
    operations: [
      {
        name: 'wait',
        description: 'Waits.',
        input: z.strictObject({}),
        output: z.looseObject({}),
        side_effect_class: 'opaque',
        timeout_ms: 600_000,
      },
    ],
    open: () => ({
      name: 'silent',
      connector_type: 'silent',
      capabilities: () => ['wait'],
      call: () => call() ?? new Promise(() => {}),
    }),
  })
}
