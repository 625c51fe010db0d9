/** Starts the provider as a child process and reads its book. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export type Book = {
  readonly calls: number
  readonly paid: Readonly<Record<string, number>>
  readonly undone: Readonly<Record<string, number>>
  /** Paid again by requests that arrived after the time limit of their own call. */
  readonly late: Readonly<Record<string, number>>
}

export type Provider = { readonly url: string; book(): Promise<Book>; stop(): void }

export async function startProvider(book: string, seed: string, latencyMs = 0): Promise<Provider> {
  const program = fileURLToPath(new URL('./provider.ts', import.meta.url))
  const child = spawn(process.execPath, [program, book, seed, String(latencyMs)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  process.on('exit', () => child.kill('SIGKILL'))
  const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  const { url } = JSON.parse(String(first.value)) as { url: string }
  return {
    url,
    book: async () => (await (await fetch(`${url}/book`)).json()) as Book,
    stop: () => void child.kill('SIGKILL'),
  }
}
