/**
 * What the home remembers of the last start: the port, so that an address noted by a person stays good, and the machine,
 * since a process number means nothing to another machine or container.
 */
import { readFile, readlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { writeDurably } from './durable-file.ts'

export type LastStart = { readonly port: number; readonly machine: string }

/** A file that cannot be understood is as good as none: the port is chosen anew. */
export function parseLastStart(text: string): LastStart | undefined {
  try {
    const { port, machine } = JSON.parse(text) as Record<string, unknown>
    return typeof port === 'number' && typeof machine === 'string' ? { port, machine } : undefined
  } catch {
    return undefined
  }
}

export async function findLastStart(file: string): Promise<LastStart | undefined> {
  return parseLastStart(await readFile(file, 'utf8').catch(() => ''))
}

export async function saveLastStart(file: string, start: LastStart): Promise<void> {
  const before = await findLastStart(file)
  if (before?.port !== start.port || before.machine !== start.machine)
    await writeDurably(file, `${JSON.stringify(start)}\n`)
}

/** The same for all processes that see each other's numbers: one boot of one machine, one process namespace. */
export async function thisMachine(): Promise<string> {
  const boot = await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => hostname())
  const namespace = await readlink('/proc/self/ns/pid').catch(() => '')
  return `${boot.trim()} ${namespace}`.trim()
}
