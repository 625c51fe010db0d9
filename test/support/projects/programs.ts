/** A project whose agents are programs, one for each dialect, with a model that needs a key. */
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { exampleCatalog } from '../../../examples/catalog/index.ts'
import { defineAgent, defineProject, modelConnector, processRuntime } from '../../../src/index.ts'

const program = fileURLToPath(new URL('../agent-program-child.ts', import.meta.url))
const dialects = ['concord', 'claude', 'codex'] as const

export function programsProject({ modelUrl, folder }: { readonly modelUrl: string; readonly folder: string }) {
  const agent = (runtime: string, limits: { readonly max_cost_units?: number } = {}) =>
    defineAgent(`Write With ${runtime}`, {
      input: z.object({}),
      goal: 'Publish the report, and say what came of it.',
      role: 'worker',
      tools: ['publish_report'],
      connectors: ['sharing'],
      runtime,
      model: { model: 'small', output_tokens_max: 200 },
      limits: { max_steps: 6, ...limits },
    })
  const runtime = (name: string, dialect: (typeof dialects)[number], mode: string) =>
    processRuntime({ name, command: process.execPath, args: [program, dialect, mode], dialect })
  return defineProject({
    catalog: exampleCatalog({ vendorUrl: 'http://127.0.0.1:1', folder }),
    agents: [...dialects.map((name) => agent(name)), agent('greedy', { max_cost_units: 4 })],
    agentRuntimes: [
      ...dialects.map((dialect) => runtime(dialect, dialect, 'spy')),
      runtime('greedy', 'concord', 'greedy'),
    ],
    models: [
      modelConnector({
        name: 'small',
        provider: 'fake',
        baseUrl: modelUrl,
        apiKey: 'env://MODEL_KEY',
        model: 'fake-small',
        prices: { input: '100', output: '200' },
        contextTokens: 8_000,
        overheadTokens: 50,
        outputTokensMax: 200,
        reach: { allow_http: true, private_networks: ['127.0.0.0/8'] },
      }),
    ],
  })
}
