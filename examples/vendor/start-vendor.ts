/** Starts the hotel vendor as a separate process and reads its ledger. */
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import type { Books } from './ledger.ts'

export type VendorSettings = {
  readonly ledger: string
  readonly seed: number
  /** How many calls of each operation fail. */
  readonly trouble: number
  /** `later`: confirmations are written at night. */
  readonly confirmation?: 'ready' | 'later'
}

export type Vendor = {
  readonly url: string
  books(): Promise<Books>
  close(): Promise<void>
}

export async function startVendor({ ledger, seed, trouble, confirmation = 'ready' }: VendorSettings): Promise<Vendor> {
  const program = fileURLToPath(new URL('../hotel-vendor.ts', import.meta.url))
  const flags = [
    '--ledger',
    ledger,
    '--seed',
    String(seed),
    '--trouble',
    String(trouble),
    '--confirmation',
    confirmation,
    '--life-line',
  ]
  const child = spawn(process.execPath, [program, ...flags], { stdio: ['pipe', 'pipe', 'inherit'] })
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const first = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  if (first.done) throw new Error('The vendor did not start.')
  const { url } = JSON.parse(first.value) as { url: string }
  return {
    url,
    books: async () => (await (await fetch(`${url}/ledger`)).json()) as Books,
    async close() {
      child.stdin.end()
      await ended
    },
  }
}
