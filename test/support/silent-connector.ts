/** A connector for tests that takes a call and never answers, with all the time a declaration may give. */
import { z } from 'zod'
import { type ConnectorDefinition, type ConnectorResult, defineConnector } from '../../src/domains/connectors/index.ts'

/** `call` hears of every call, and may answer it after all. */
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
