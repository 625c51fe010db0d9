/** The fake model server for the tests of rooms, and a model of a project that asks it. */
import { modelConnector, type ModelDefinition, type ModelInput } from '../../src/domains/agents/index.ts'

export type { ModelScripts, Trouble } from '../../examples/model/script.ts'
export { type FakeModel, startModel } from '../../examples/model/start-model.ts'

export function aModelInput(url: string, more: Partial<ModelInput> = {}): ModelInput {
  return {
    name: 'small',
    provider: 'fake',
    baseUrl: url,
    model: 'fake-small',
    prices: { input: '0.15', output: '0.60' },
    contextTokens: 8_000,
    overheadTokens: 50,
    outputTokensMax: 500,
    reach: { allow_http: true, private_networks: ['127.0.0.0/8'] },
    ...more,
  }
}

export function aModel(url: string, more: Partial<ModelInput> = {}): ModelDefinition {
  return modelConnector(aModelInput(url, more))
}
