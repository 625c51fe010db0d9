/**
 * Decides which operating-system user the server runs as. Postgres refuses root, so under root an existing
 * unprivileged account is borrowed; none is ever created.
 */
import { execFile } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { quoteForShell } from './home-fault.ts'

export type Account = { readonly name: string; readonly uid: number; readonly gid: number }

/** Empty for a plain user: the programs then run as ourselves. */
export type RunAs = {
  readonly account?: Account
  /** See `passage.ts`. */
  readonly passesClosedFolders?: true
}

/** Tried in this order under root. `nobody` is the account every system has for work without rights. */
const borrowedAccounts = ['postgres', 'nobody'] as const

export type RunAsFacts = {
  /** Undefined on Windows. */
  readonly ownUid: number | undefined
  readonly dataDir: string
  /** The owner of the data directory, if there is one with something in it. */
  readonly dataDirOwner?: { readonly uid: number; readonly gid: number }
  readonly accounts: readonly Account[]
  /** An account the person asked for by name. */
  readonly wanted?: string
}

export function decideRunAs(facts: RunAsFacts): Decision<RunAs> {
  if (facts.ownUid !== 0) return accept({})
  if (facts.dataDirOwner !== undefined) {
    const { uid, gid } = facts.dataDirOwner
    if (uid === 0) {
      return refuse('store.root.no_user', 'the data directory belongs to root, and Postgres does not run as root', {
        hint: `give it to an unprivileged account: chown -R ${facts.accounts[0]?.name ?? borrowedAccounts[0]} ${quoteForShell(facts.dataDir)}`,
      })
    }
    // Whoever made the data keeps it, whatever accounts exist today. The server needs no entry in the password file.
    return accept({
      account: facts.accounts.find((account) => account.uid === uid) ?? { name: `uid ${uid}`, uid, gid },
    })
  }
  const names = facts.wanted === undefined ? borrowedAccounts : [facts.wanted]
  for (const name of names) {
    const account = facts.accounts.find((known) => known.name === name && known.uid !== 0)
    if (account) return accept({ account })
  }
  return refuse(
    'store.root.no_user',
    `running as root, and there is no unprivileged account named ${names.join(' or ')}`,
    {
      hint: 'create one (useradd --system postgres), or run as a plain user, or set DATABASE_URL to a Postgres of your own',
      facts: { tried: names },
    },
  )
}

export async function findRunAs(dataDir: string, wanted?: string): Promise<Decision<RunAs>> {
  const ownUid = process.getuid?.()
  if (ownUid !== 0) return decideRunAs({ ownUid, dataDir, accounts: [] })
  const isMade = (await readdir(dataDir).catch(() => [])).length > 0
  const owner = isMade ? await stat(dataDir) : undefined
  const used = owner ? { dataDirOwner: { uid: owner.uid, gid: owner.gid } } : {}
  const found = await Promise.all([...borrowedAccounts, ...(wanted ? [wanted] : [])].map(findAccount))
  const accounts = found.filter((account) => account !== undefined)
  return decideRunAs({ ownUid, dataDir, accounts, ...used, ...(wanted ? { wanted } : {}) })
}

/** The password file first, since small containers have no `id`; then `id`, since accounts may live in a directory service. */
async function findAccount(name: string): Promise<Account | undefined> {
  const lines = (await readFile('/etc/passwd', 'utf8').catch(() => '')).split('\n')
  const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
  if (fields?.[2] && fields[3]) return { name, uid: Number(fields[2]), gid: Number(fields[3]) }
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map((flag) => promisify(execFile)('id', [flag, '--', name]).catch(() => undefined)),
  )
  return uid && gid ? { name, uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined
}

/** The first folder on the way to `target` that the account may not pass through, as far as the mode bits tell. */
export async function findClosedFolder(target: string, account: Account): Promise<string | undefined> {
  const folders: string[] = []
  for (let at = path.resolve(target); ; at = path.dirname(at)) {
    folders.unshift(at)
    if (at === path.dirname(at)) break
  }
  for (const folder of folders) {
    const entry = await stat(folder).catch(() => undefined)
    if (!entry?.isDirectory()) continue
    const bit = entry.uid === account.uid ? 0o100 : entry.gid === account.gid ? 0o010 : 0o001
    if ((entry.mode & bit) === 0) return folder
  }
  return undefined
}
