/** Fetches content into a file that is complete and checked, or not there: written beside it, compared, then renamed. */
import { createHash } from 'node:crypto'
import { open, rename, rm, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { accept, type Decision, refuse } from '#kernel/refusal'
import type { ArtifactView } from './artifacts.ts'
import { openClient } from './client.ts'
import { withHint } from './next-hint.ts'
import type { Cli } from './terminal.ts'

export type Fetched = { readonly file: string; readonly size_bytes: number; readonly checksum: string }

export async function fetchArtifact(
  { terminal }: Cli,
  path: string,
  artifact: ArtifactView,
  { out, force }: { readonly out?: string; readonly force?: boolean },
): Promise<Decision<Fetched>> {
  // The name comes from somebody else: whatever folders it names are not followed.
  const name = out ?? basename(artifact.file_name.replaceAll('\\', '/'))
  const file = resolve(terminal.folder, name)
  if (force !== true && (await stat(file).catch(() => undefined)))
    return refuse('cli.usage', `${name} is there already`, { path: '--out', hint: 'add --force, or name another file' })
  const client = openClient(terminal)
  if (!client.ok) return client
  const body = await client.value.open(`${path}/content`, { accept: '*/*' })
  if (!body.ok) return withHint(body, path)
  const beside = `${file}.part`
  try {
    const got = await writeTo(beside, body.value)
    if (got.checksum !== artifact.checksum)
      return refuse('artifacts.content.altered', 'what arrived is not what the artifact is', {
        hint: 'Fetch it again.',
      })
    await rename(beside, file)
    return accept({ file: name, ...got })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return refuse('app.server.unreachable', `the content did not arrive completely: ${why}`, {
      hint: 'Fetch it again.',
    })
  } finally {
    await rm(beside, { force: true })
  }
}

async function writeTo(file: string, body: ReadableStream<Uint8Array>): Promise<Omit<Fetched, 'file'>> {
  const hash = createHash('sha256')
  let size_bytes = 0
  const handle = await open(file, 'w', 0o600)
  try {
    for await (const chunk of body) {
      hash.update(chunk)
      size_bytes += chunk.byteLength
      await handle.writeFile(chunk)
    }
  } finally {
    await handle.close()
  }
  return { size_bytes, checksum: `sha256:${hash.digest('hex')}` }
}
