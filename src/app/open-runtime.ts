/** Creates the runtime with the engine of the setting. A new engine is a carrier and one line here. */
import { inEnvironment, type Runtime } from '#runtime'
import { type BookOptions, type Carrier, createRuntime } from '#runtime/book'
import { createDbosCarrier } from '#runtime/dbos'
import type { Config } from './config.ts'

export type EngineName = Config['engine']

const carriers: Readonly<Record<EngineName, () => Carrier>> = { dbos: createDbosCarrier }

type RuntimeOptions = Omit<BookOptions, 'carrier'> & {
  readonly engine: EngineName
  readonly environmentName: string | undefined
}

export function createEngineRuntime({ engine, environmentName, ...options }: RuntimeOptions): Runtime {
  return inEnvironment(createRuntime({ ...options, carrier: carriers[engine]() }), environmentName)
}
