/** `concord artifacts`: lists what work produced, shows one, fetches its content, and draws where it comes from. */
import type { Command } from 'commander'
import { showLine } from '#kernel/visible-text'
import { askServer, pathOf, showAnswer } from './ask-server.ts'
import { addPaging, type Page, queryOf, shortJson, wordsOf } from './command-view.ts'
import { fetchArtifact } from './fetch-artifact.ts'
import { drawMermaid, drawText, type Lineage } from './lineage.ts'
import { type Cli, formatTable } from './terminal.ts'

export type ArtifactView = {
  readonly artifact_id: string
  readonly artifact_type: string
  readonly title: string | null
  readonly version: number
  readonly status: string
  readonly next: readonly string[]
  readonly command_id: string
  readonly created_by: string
  readonly created_at: string
  readonly checksum: string
  readonly content_type: string
  readonly size_bytes: number
  readonly file_name: string
  readonly visibility: string
  readonly data_class: string
  readonly published_to: string | null
  readonly publications: readonly { readonly destination: string; readonly command_id: string | null }[]
  readonly superseded_by: string | null
  readonly retain_until: string | null
  readonly hold_reason: string | null
  readonly has_content: boolean
  readonly sources: readonly { readonly kind: string; readonly id: string }[]
  readonly metadata: Readonly<Record<string, unknown>>
}

const ID = 'art_0197f3b2c4d57a8e9b0c1d2e3f405180'
type ListOptions = { type?: string; status?: string; command?: string; limit: number; cursor?: string }

export function addArtifacts(program: Command, cli: Cli): void {
  const artifacts = program
    .command('artifacts')
    .description('look at what work produced, fetch it, see where it comes from')
  addList(artifacts, program, cli)
  addShow(artifacts, program, cli)
  addGet(artifacts, program, cli)
  addLineage(artifacts, program, cli)
}

function addList(artifacts: Command, program: Command, cli: Cli): void {
  addPaging(artifacts.command('list'))
    .description('list the artifacts of the workspace, newest first')
    .option('--type <type>', 'only of this kind, like report')
    .option('--status <status>', 'only those, like ready or published')
    .option('--command <id>', 'only what this command made')
    .addHelpText('after', '\nExample:\n  $ concord artifacts list --type report --limit 20\n')
    .action(
      cli.handle(async ({ type, status, command, limit, cursor }: ListOptions) => {
        const path = `/artifacts${queryOf({ artifact_type: type, status, command_id: command, limit, cursor })}`
        const listed = await askServer<Page<ArtifactView>>(cli, 'GET', path)
        return showAnswer(cli, program, listed, ({ items, next_cursor }) => {
          if (items.length === 0) return cli.terminal.err('There are none.\n')
          cli.terminal.out(formatTable(['id', 'type', 'status', 'bytes', 'created', 'title'], items.map(rowOf)))
          if (next_cursor !== null) cli.terminal.err(`there are more: add --cursor ${showLine(next_cursor)}\n`)
        })
      }),
    )
}

function rowOf({ artifact_id, artifact_type, status, size_bytes, created_at, title }: ArtifactView): string[] {
  const shown = showLine(title ?? '')
  return [artifact_id, showLine(artifact_type), wordsOf(status), String(size_bytes), created_at, shown]
}

function addShow(artifacts: Command, program: Command, cli: Cli): void {
  artifacts
    .command('show <id>')
    .description('show one: what it is, who made it, how far it may go')
    .addHelpText('after', `\nExample:\n  $ concord artifacts show ${ID}\n`)
    .action(
      cli.handle(async (id: string) => {
        const path = pathOf('artifact', id)
        if (!path.ok) return path
        const found = await askServer<ArtifactView>(cli, 'GET', path.value)
        return showAnswer(cli, program, found, (artifact) => cli.terminal.out(formatArtifact(artifact)))
      }),
    )
}

export function formatArtifact(artifact: ArtifactView): string {
  const { title, artifact_type, artifact_id, version, status, next } = artifact
  const lines: (readonly [string, string | null])[] = [
    ['status', `${wordsOf(status)}${next.length > 0 ? `; can become ${next.map(wordsOf).join(', ')}` : ''}`],
    ['version', `${version}${artifact.superseded_by === null ? '' : `, replaced by ${artifact.superseded_by}`}`],
    ['made by', `${artifact.command_id} for ${showLine(artifact.created_by)} at ${artifact.created_at}`],
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
    ['kept', artifact.retain_until && `until ${artifact.retain_until}`],
    ['held', artifact.hold_reason && showLine(artifact.hold_reason)],
    ['from', artifact.sources.map(({ id }) => id).join(', ') || null],
    ['notes', Object.keys(artifact.metadata).length > 0 ? shortJson(artifact.metadata) : null],
    ['fetch', artifact.has_content ? `concord artifacts get ${artifact_id}` : null],
  ]
  const shown = lines.flatMap(([name, text]) => (text === null ? [] : [`  ${name.padEnd(9)}  ${text}`]))
  return [`${showLine(title ?? artifact_type)}  ${artifact_id}`, ...shown, ''].join('\n')
}

function addGet(artifacts: Command, program: Command, cli: Cli): void {
  artifacts
    .command('get <id>')
    .description('fetch the content into a file, and check it')
    .option('--out <file>', 'the file; left out, under the name that the artifact has, here')
    .option('--force', 'write over a file that is there')
    .addHelpText('after', `\nExample:\n  $ concord artifacts get ${ID} --out report.txt\n`)
    .action(
      cli.handle(async (id: string, options: { out?: string; force?: boolean }) => {
        const path = pathOf('artifact', id)
        if (!path.ok) return path
        const found = await askServer<ArtifactView>(cli, 'GET', path.value)
        if (!found.ok) return found
        const fetched = await fetchArtifact(cli, path.value, found.value, options)
        return showAnswer(cli, program, fetched, ({ file, size_bytes }) =>
          cli.terminal.out(`${showLine(file)}: ${size_bytes} bytes, checked\n`),
        )
      }),
    )
}

function addLineage(artifacts: Command, program: Command, cli: Cli): void {
  artifacts
    .command('lineage <id>')
    .description('show what it was made from and what was made from it')
    .option('--mermaid', 'as a Mermaid graph')
    .addHelpText('after', `\nExample:\n  $ concord artifacts lineage ${ID} --mermaid\n`)
    .action(
      cli.handle(async (id: string, { mermaid }: { mermaid?: boolean }) => {
        const path = pathOf('artifact', id, '/lineage')
        if (!path.ok) return path
        const found = await askServer<Lineage>(cli, 'GET', path.value)
        return showAnswer(cli, program, found, (lineage) =>
          cli.terminal.out(mermaid === true ? drawMermaid(lineage) : drawText(lineage)),
        )
      }),
    )
}
