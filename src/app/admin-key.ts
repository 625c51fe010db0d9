/** Keeps a valid administrator key in `CONCORD_HOME/admin.key`, readable only by its owner. */
import { chmod, mkdir, open, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { bootstrapAdmin, type IdentityDeps } from '#domains/identity'

export function adminKeyFile(home: string): string {
  return join(home, 'admin.key')
}

/** `orgId` is the organisation that owns the installation. */
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

/** Writes a draft, syncs it and renames it, so that the file is complete or unchanged. */
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
