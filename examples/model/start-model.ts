/** Starts the fake model server as a separate process, gives it its scripts and reads what it was asked. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { ModelRequestSeen } from './fake-model.ts'
import type { ModelScripts } from './script.ts'

export type FakeModel = {
  /** For `baseUrl` of a model. */
  readonly url: string
  /** Replaces the scripts, and forgets what was asked. */
  script(scripts: ModelScripts): Promise<void>
  requests(): Promise<readonly ModelRequestSeen[]>
  close(): Promise<void>
}

export async function startModel(
  scripts: ModelScripts = {},
  { key }: { readonly key?: string } = {},
): Promise<FakeModel> {
  const program = fileURLToPath(new URL('fake-model.ts', import.meta.url))
  const flags = ['--life-line', ...(key === undefined ? [] : ['--key', key])]
  const child = spawn(process.execPath, [program, ...flags], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  if (first.done) throw new Error('The fake model did not start.')
  const { url } = JSON.parse(first.value) as { url: string }
  const model: FakeModel = {
    url: `${url}/v1`,
    async script(next) {
      await fetch(`${url}/scripts`, { method: 'PUT', body: JSON.stringify(next) })
    },
    requests: async () => (await (await fetch(`${url}/requests`)).json()) as ModelRequestSeen[],
    async close() {
      child.stdin.end()
      await ended
    },
  }
  await model.script(scripts)
  return model
}
