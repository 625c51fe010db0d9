/** The data directory: recognised as ours, as somebody else's, or made whole in one rename. */
import { randomBytes } from 'node:crypto'
import { chown, mkdir, readdir, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { totalmem } from 'node:os'
import path from 'node:path'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { Binaries } from './binaries.ts'
import { findText, syncFolder, writeDurably } from './durable-file.ts'
import { isStorageFull, storageFull } from './home-fault.ts'
import { type HomePaths, UNFINISHED_PREFIX } from './home-paths.ts'
import { explainDenied, runProgram } from './program.ts'
import type { RunAs } from './run-as.ts'
import { asFlags, birthSettings } from './settings.ts'

/** The one role that initdb makes. It owns the cluster and is used only to look at the server and to make the service's login. */
export const SUPERUSER = 'concord'
/** Of the installed programs; a data directory belongs to exactly one major version. */
const MAJOR = 18

export type ClusterState = { readonly state: 'absent' } | { readonly state: 'ours'; readonly password: string }

export async function inspectCluster(paths: HomePaths): Promise<Decision<ClusterState>> {
  const { dataDir, passwordFile } = paths
  const entries = await readdir(dataDir).catch((error: NodeJS.ErrnoException) => error)
  if (entries instanceof Error) {
    if (entries.code === 'ENOENT') return accept({ state: 'absent' })
    if (entries.code === 'ENOTDIR') return notOurs(dataDir, 'it is not a folder')
    if (entries.code === 'EACCES') return notOurs(dataDir, 'it may not be read by us')
    throw entries
  }
  if (entries.length === 0) return accept({ state: 'absent' })
  const version = await findText(path.join(dataDir, 'PG_VERSION'))
  if (version === undefined) return notOurs(dataDir, 'it has no PG_VERSION and so is no data directory of Postgres')
  if (version !== String(MAJOR)) {
    return refuse(
      'store.home.wrong_version',
      `${dataDir} was made by Postgres ${version}, and this is Postgres ${MAJOR}`,
      {
        path: 'CONCORD_HOME',
        hint: `move it over with pg_upgrade, or with a dump made by Postgres ${version}; or set CONCORD_HOME to a new folder`,
        facts: { found: version, needed: MAJOR },
      },
    )
  }
  const password = await findText(passwordFile)
  if (!password) return notOurs(dataDir, `there is no password for it in ${passwordFile}`)
  return accept({ state: 'ours', password })
}

function notOurs(dataDir: string, why: string): Decision<never> {
  return refuse('store.home.not_ours', `${dataDir} was not made by Concord: ${why}`, {
    path: 'CONCORD_HOME',
    hint: 'set CONCORD_HOME to another folder, put the missing file back, or start that server yourself and set DATABASE_URL',
  })
}

export function newPassword(): string {
  return randomBytes(32).toString('base64url')
}

/** The password exists before the cluster does, so no crash leaves a cluster that nobody can enter. */
async function ensurePassword({ passwordFile }: HomePaths): Promise<string> {
  const before = await findText(passwordFile)
  if (before) return before
  const password = newPassword()
  await writeDurably(passwordFile, `${password}\n`)
  return password
}

export async function makeCluster(paths: HomePaths, binaries: Binaries, runAs: RunAs): Promise<Decision<string>> {
  const { account } = runAs
  const password = await ensurePassword(paths)
  const making = path.join(paths.home, `${UNFINISHED_PREFIX}${randomBytes(6).toString('hex')}`)
  const passwordCopy = `${making}.password`
  await mkdir(making, { mode: 0o700 })
  // initdb runs as the borrowed account, which may not read the owner's password file.
  await writeFile(passwordCopy, `${password}\n`, { mode: 0o600 })
  if (account) for (const entry of [making, passwordCopy]) await chown(entry, account.uid, account.gid)
  const made = await runProgram(binaries.initdb, initdbFlags(making, passwordCopy), runAs)
  await rm(passwordCopy, { force: true })
  if (made.code !== 0) {
    await rm(making, { recursive: true, force: true })
    return initdbFault(paths, binaries, runAs, made.output)
  }
  // An empty folder in its place gives way; a mounted volume does not.
  await rmdir(paths.dataDir).catch(() => {})
  try {
    await rename(making, paths.dataDir)
  } catch (error) {
    await rm(making, { recursive: true, force: true })
    return refuse('store.home.not_writable', `${paths.dataDir} cannot be put in place: ${(error as Error).message}`, {
      path: 'CONCORD_HOME',
      hint: `mount the volume at ${paths.home}, not at the data directory inside of it`,
    })
  }
  await syncFolder(paths.home)
  return accept(password)
}

function initdbFlags(dataDir: string, passwordFile: string): string[] {
  return [
    `--pgdata=${dataDir}`,
    `--username=${SUPERUSER}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    // The locale that is part of Postgres sorts the same on every machine and after every upgrade of the system.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--data-checksums',
    ...asFlags('--set', birthSettings(totalmem())),
  ]
}

async function initdbFault(
  paths: HomePaths,
  binaries: Binaries,
  runAs: RunAs,
  output: string[],
): Promise<Decision<never>> {
  const text = output.join('\n')
  if (isStorageFull(text)) return storageFull(paths.home)
  const denied = await explainDenied(text, [binaries.initdb, paths.home], runAs)
  if (denied) return denied
  const hint = text.includes('could not look up effective user ID')
    ? 'initdb needs an entry in the password file for the user it runs as: add one to /etc/passwd, or run as a user that has one'
    : text.includes('error while loading shared libraries')
      ? 'the libraries were not linked at installation: run npm rebuild'
      : 'see the lines of initdb above'
  return refuse('store.initdb.failed', `initdb did not make a database: ${output.slice(-3).join(' | ')}`, { hint })
}
