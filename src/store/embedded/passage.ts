/**
 * Lets a borrowed account pass through folders that are closed to it, such as /root or a fresh `mktemp -d`: under root the
 * programs get the one capability to search folders and read, and no other. Without it a checkout under /root could not start.
 */
import { spawn } from 'node:child_process'
import { type Account, findClosedFolder, type RunAs } from './run-as.ts'

/** `setpriv` is part of util-linux, which every Linux distribution installs; a container may lack the capability. */
export function setprivFlags({ uid, gid }: Account): string[] {
  const capability = '+dac_read_search'
  const identity = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
  // access(2), with which Postgres looks for its own programs, forgets capabilities of a plain user unless this bit is set.
  return [
    ...identity,
    `--inh-caps=${capability}`,
    `--ambient-caps=${capability}`,
    '--securebits=+no_setuid_fixup',
    '--',
  ]
}

export async function addPassage(runAs: RunAs, targets: readonly string[]): Promise<RunAs> {
  const { account } = runAs
  if (!account) return runAs
  const closed = await Promise.all(targets.map((target) => findClosedFolder(target, account)))
  if (closed.every((folder) => folder === undefined)) return runAs
  return (await canPass(account)) ? { account, passesClosedFolders: true } : runAs
}

function canPass(account: Account): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = spawn('setpriv', [...setprivFlags(account), 'true'], { cwd: '/', stdio: 'ignore' })
    probe.once('error', () => resolve(false))
    probe.once('close', (code) => resolve(code === 0))
  })
}
