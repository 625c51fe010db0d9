/** Keeps one working administrator key in `CONCORD_HOME/admin.key`, readable by its owner alone. */
import { chmod, mkdir, open, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { bootstrapAdmin, type IdentityDeps } from '#domains/identity'

export function adminKeyFile(home: string): string {
  return join(home, 'admin.key')
}

/** `orgId`: the organisation that the installation itself belongs to. */
export async function ensureAdminKey(
  deps: IdentityDeps,
  home: string,
  traceId: string,
): Promise<{ readonly keyFile: string; readonly orgId: string }> {
  const file = adminKeyFile(home)
  const { orgId } = await bootstrapAdmin(deps, traceId, {
    read: async () => (await readFile(file, 'utf8').catch(() => '')).trim() || null,
    write: (key) => writeKey(file, key),
  })
  return { keyFile: file, orgId }
}

/** Whole or not at all: written beside, synced, then renamed over. */
async function writeKey(file: string, key: string): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  const draft = `${file}.new`
  const handle = await open(draft, 'w', 0o600)
  try {
    await handle.writeFile(`${key}\n`)
    await handle.sync()
  } finally {
    await handle.close()
  }
  await chmod(draft, 0o600)
  await rename(draft, file)
}
