/** Chooses the port of the server and finds the process that holds a port. */
import { createHash } from 'node:crypto'
import { readdir, readFile, readlink } from 'node:fs/promises'
import { createServer } from 'node:net'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { findCommandLine } from './postmaster.ts'

export const LOOPBACK = '127.0.0.1'

/** Below 32768, where Linux starts to assign ports to outgoing connections: those may be in use at any time. */
const FIRST = 15_432
const COUNT = 10_000

/** Each home starts the search at its own port, so that servers on one machine rarely collide. */
export function firstCandidate(home: string): number {
  return FIRST + (createHash('sha256').update(home).digest().readUInt32BE(0) % COUNT)
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535
}

function isPortFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ port, host: LOOPBACK, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}

/** Returns the port asked for, else the remembered one, else a free one. */
export async function choosePort(
  home: string,
  asked: number | undefined,
  remembered: number | undefined,
): Promise<Decision<number>> {
  if (asked !== undefined) {
    if (!isPort(asked)) {
      return refuse('store.port.invalid', `${asked} is not a port.`, {
        path: 'port',
        hint: 'Use a whole number from 1 to 65535.',
      })
    }
    return (await isPortFree(asked)) ? accept(asked) : portTaken(asked)
  }
  if (remembered !== undefined && isPort(remembered) && (await isPortFree(remembered))) return accept(remembered)
  const first = firstCandidate(home) - FIRST
  for (let step = 0; step < 200; step++) {
    const port = FIRST + ((first + step) % COUNT)
    if (await isPortFree(port)) return accept(port)
  }
  return refuse('store.port.taken', `None of the 200 ports after ${first + FIRST} is free.`, {
    path: 'port',
    hint: 'Name a free port.',
  })
}

export async function portTaken(port: number): Promise<Decision<never>> {
  const holder = await findPortHolder(port)
  const by = holder ? ` by process ${holder.pid} (${holder.command})` : ''
  return refuse('store.port.taken', `The port ${port} on ${LOOPBACK} is taken${by}.`, {
    path: 'port',
    hint: holder
      ? `Stop process ${holder.pid}, or name another port.`
      : 'Name another port, or none: then a free one is chosen.',
    facts: { port, ...(holder ? { pid: holder.pid } : {}) },
  })
}

/** Works on Linux, for processes that we may inspect; elsewhere the holder is unknown. */
export async function findPortHolder(port: number): Promise<{ pid: number; command: string } | undefined> {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  const inodes = new Set<string>()
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    const lines = (await readFile(table, 'utf8').catch(() => '')).split('\n')
    for (const line of lines) {
      const fields = line.trim().split(/\s+/)
      // 0A is LISTEN.
      if (fields[1]?.endsWith(`:${hex}`) && fields[3] === '0A' && fields[9]) inodes.add(`socket:[${fields[9]}]`)
    }
  }
  if (inodes.size === 0) return undefined
  for (const entry of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(entry)) continue
    for (const fd of await readdir(`/proc/${entry}/fd`).catch(() => [])) {
      const link = await readlink(`/proc/${entry}/fd/${fd}`).catch(() => '')
      if (inodes.has(link))
        return { pid: Number(entry), command: ((await findCommandLine(Number(entry))) ?? 'unknown').slice(0, 64) }
    }
  }
  return undefined
}
