/**
 * Keeps one working administrator key in `CONCORD_HOME/admin.key`, readable by its owner alone. A start that died between the
 * commit of a key and the writing of the file leaves a key nobody knows; the next start makes another.
 */
import { chmod, mkdir, open, readFile, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { bootstrapAdmin, type IdentityWorld } from '#domains/identity'

export function adminKeyFile(home: string): string {
  return join(home, 'admin.key')
}

export async function ensureAdminKey(world: IdentityWorld, home: string, traceId: string): Promise<string> {
  const file = adminKeyFile(home)
  const { key } = await bootstrapAdmin(world, traceId, { isKeyKnown: await hasKey(file) })
  if (key !== null) await writeKey(file, key)
  return file
}

async function hasKey(file: string): Promise<boolean> {
  const text = await readFile(file, 'utf8').catch(() => '')
  return text.trim() !== ''
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
