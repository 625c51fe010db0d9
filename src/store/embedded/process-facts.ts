/** What the operating system says about a process: whether it lives, and what it was started as. */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'

/** A process that has ended but was not collected by its parent counts as dead: it holds nothing any more. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0)
  } catch (error) {
    // No permission to signal it means that it is there.
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The name in brackets may hold anything, so the state is looked for after the last bracket.
  return (
    stat
      .slice(stat.lastIndexOf(')') + 1)
      .trimStart()
      .charAt(0) !== 'Z'
  )
}

/** The command line, or undefined where it cannot be read. */
export async function findCommandLine(pid: number): Promise<string | undefined> {
  if (process.platform === 'linux') {
    const line = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
    return line.replaceAll('\0', ' ').trim() || undefined
  }
  if (process.platform === 'win32') return undefined
  const listed = await promisify(execFile)('ps', ['-o', 'command=', '-p', String(pid)]).catch(() => undefined)
  return listed?.stdout.trim() || undefined
}
