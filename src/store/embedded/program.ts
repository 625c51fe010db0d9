/** Runs one of the Postgres programs to its end, as the account that was decided, with an environment of its own. */
import { spawn } from 'node:child_process'
import { type Decision, refuse } from '#kernel/refusal'
import { quoteForShell } from './home-fault.ts'
import { setprivFlags } from './passage.ts'
import { findClosedFolder, type RunAs } from './run-as.ts'

/** Nothing of ours leaks in: PGPORT, PGDATA or a locale of the caller would change what the server does. */
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

/** How to call a program so that it runs as the decided account; `setpriv` replaces itself, so the process id is the program's. */
export function callAs({ account, passesClosedFolders }: RunAs, file: string, flags: readonly string[]): Call {
  if (!account) return { file, flags, identity: {} }
  if (passesClosedFolders) return { file: 'setpriv', flags: [...setprivFlags(account), file, ...flags], identity: {} }
  return { file, flags, identity: { uid: account.uid, gid: account.gid } }
}

export type ProgramEnd = { readonly code: number | null; readonly output: string[] }

export function runProgram(file: string, flags: readonly string[], runAs: RunAs): Promise<ProgramEnd> {
  const call = callAs(runAs, file, flags)
  return new Promise((resolve) => {
    // The folder `/` is one that every account may enter; ours may be closed to the borrowed one.
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

/** When the borrowed account was stopped by a closed folder, says which one and how to open it. */
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
      `the server runs as ${account.name}, which may not pass through ${closed}`,
      {
        path: target,
        hint: `chmod o+x ${quoteForShell(closed)}, or move ${target} to a folder outside of it, such as /var/lib/concord`,
        facts: { closed, account: account.name },
      },
    )
  }
  return undefined
}
