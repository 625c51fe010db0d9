/** `concord artifacts`: lists artifacts, shows one, downloads its content and draws its lineage. */
import { createHash } from 'node:crypto'
import { open, rename, rm, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import type { ArtifactView } from '#domains/artifacts'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, openClient, pathOf, queryOf } from './client.ts'
import { drawMermaid, drawText, type LineageView } from './lineage.ts'
import { findNames, type NameOf } from './names.ts'
import { withHint } from './next-hint.ts'
import { listVerb, noun, type PageFlags, paging, verb } from './noun.ts'
import { formatFacts } from './layout.ts'
import { type Cli, shortJson, type Terminal, wordsOf } from './terminal.ts'
import { sayTime } from './times.ts'

const ID = 'art_0197f3b2c4d57a8e9b0c1d2e3f405180'
type ListFlags = PageFlags & { type?: string; status?: string; command?: string }
type GetFlags = { readonly out?: string; readonly force?: boolean }

export const artifacts = noun('list artifacts, download them, show where they come from', (cli) => ({
  list: listVerb<ArtifactView, [ListFlags]>({
    description: 'list the artifacts of the workspace, newest first',
    options: [
      ...paging,
      ['--type <type>', 'only this type, like report'],
      ['--status <status>', 'only this status, like ready or published'],
      ['--command <id>', 'only artifacts of this command'],
    ],
    examples: ['concord artifacts list --type report --limit 20'],
    at: ({ type, status, command, limit, cursor }) =>
      `/artifacts${queryOf({ artifact_type: type, status, command_id: command, limit, cursor })}`,
    none: () => 'There are none.',
    columns: {
      id: ({ artifact_id }) => artifact_id,
      type: ({ artifact_type }) => artifact_type,
      status: ({ status }) => wordsOf(status),
      bytes: ({ size_bytes }) => String(size_bytes),
      created: ({ created_at }, when) => when(created_at),
      title: ({ title }) => title,
    },
  }),
  'show <id>': verb({
    description: 'show one artifact: its type, its creator, who may see it',
    examples: [`concord artifacts show ${ID}`],
    ask: (id: string) => askServer<ArtifactView>(cli, 'GET', pathOf('artifact', id)),
    say: async (artifact) => {
      const nameOf = await findNames(cli, [artifact.created_by])
      return formatArtifact(cli.terminal, artifact, nameOf)
    },
  }),
  'get <id>': verb({
    description: 'download the content into a file and verify its checksum',
    options: [
      ['--out <file>', 'the file (default: the name of the artifact, in this folder)'],
      ['--force', 'overwrite an existing file'],
    ],
    examples: [`concord artifacts get ${ID} --out report.txt`],
    async ask(id: string, flags: GetFlags) {
      const path = pathOf('artifact', id)
      if (!path.ok) return path
      const found = await askServer<ArtifactView>(cli, 'GET', path)
      return found.ok ? download(cli, path.value, found.value, flags) : found
    },
    say: ({ file, size_bytes }) => `saved ${showLine(file)} (${size_bytes} bytes, checksum verified)\n`,
  }),
  'lineage <id>': verb<[string, { mermaid?: boolean }], LineageView>({
    description: 'show what an artifact was made from and what was made from it',
    options: [['--mermaid', 'as a Mermaid graph']],
    examples: [`concord artifacts lineage ${ID} --mermaid`],
    ask: (id) => askServer<LineageView>(cli, 'GET', pathOf('artifact', id, '/lineage')),
    say: (lineage, _, { mermaid }) => (mermaid === true ? drawMermaid(lineage) : drawText(lineage)),
  }),
}))

function formatArtifact(terminal: Terminal, artifact: ArtifactView, nameOf: NameOf): string {
  const { title, artifact_type, artifact_id, version, status, next } = artifact
  const facts = formatFacts(terminal, 9, [
    ['status', `${wordsOf(status)}${next.length > 0 ? `; can become ${next.map(wordsOf).join(', ')}` : ''}`],
    ['version', `${version}${artifact.superseded_by === null ? '' : `, replaced by ${artifact.superseded_by}`}`],
    [
      'made by',
      `${artifact.command_id} for ${showLine(nameOf(artifact.created_by))} at ${sayTime(terminal, artifact.created_at)}`,
    ],
    [
      'content',
      `${artifact.size_bytes} bytes of ${showLine(artifact.content_type)}${artifact.has_content ? '' : ', removed'}`,
    ],
    ['checksum', artifact.checksum],
    ['seen by', artifact.visibility === 'private' ? 'its creator and administrators' : 'everybody in the workspace'],
    ['data', artifact.data_class],
    ...artifact.publications.map(
      ({ destination, command_id }) =>
        ['published', `${showLine(destination)}${command_id === null ? '' : `, by ${command_id}`}`] as const,
    ),
    ['kept', artifact.retain_until && `until ${sayTime(terminal, artifact.retain_until)}`],
    ['held', artifact.hold_reason && showLine(artifact.hold_reason)],
    ['from', artifact.sources.map(({ id }) => id).join(', ')],
    ['notes', Object.keys(artifact.metadata).length > 0 ? shortJson(artifact.metadata) : null],
    ['fetch', artifact.has_content ? `concord artifacts get ${artifact_id}` : null],
  ])
  return `${showLine(title ?? artifact_type)}  ${artifact_id}\n${facts}`
}

type Downloaded = { readonly file: string; readonly size_bytes: number; readonly checksum: string }

/** Writes a temporary file, verifies the checksum, then renames it, so that the file is complete or absent. */
async function download(
  { terminal }: Cli,
  path: string,
  artifact: ArtifactView,
  { out, force }: GetFlags,
): Promise<Decision<Downloaded>> {
  // The name comes from the artifact, so folders in it are ignored.
  const name = out ?? basename(artifact.file_name.replaceAll('\\', '/'))
  const file = resolve(terminal.folder, name)
  if (force !== true && (await stat(file).catch(() => undefined)))
    return refuse('cli.usage', `${name} already exists.`, { path: '--out', hint: 'Add --force, or name another file.' })
  const client = openClient(terminal)
  if (!client.ok) return client
  const body = await client.value.open(`${path}/content`, { accept: '*/*' })
  if (!body.ok) return withHint(body, path)
  const beside = `${file}.part`
  const hint = 'Download it again.'
  try {
    const got = await writeTo(beside, body.value)
    if (got.checksum !== artifact.checksum)
      return refuse('artifacts.content.altered', 'The content does not match the checksum of the artifact.', { hint })
    await rename(beside, file)
    return accept({ file, ...got })
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    return refuse('app.server.unreachable', `The download did not complete: ${why}`, { hint })
  } finally {
    await rm(beside, { force: true })
  }
}

async function writeTo(file: string, body: ReadableStream<Uint8Array>): Promise<Omit<Downloaded, 'file'>> {
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
