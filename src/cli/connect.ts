/** `concord connect`: adds Concord to the MCP configuration of a coding agent. The file names the variable with the key, never the key. */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { readConfig, serverAddress } from '#app/config'
import type { createdApiKeyView } from '#domains/identity'
import { isJsonObject } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { askServer } from './client.ts'
import { parseNamed } from './json-source.ts'
import { type Add, type ViewOf, verb, yesOption } from './noun.ts'
import type { Cli } from './terminal.ts'

const KEY = 'CONCORD_AGENT_KEY'
const ENTRY = 'concord'

type Target = { readonly url: string; readonly workspace: string | undefined }
type Format = {
  readonly file: string
  /** Returns the new text of the file, and whether it replaces an entry of this name that says something else. */
  edit(text: string, target: Target, file: string): Decision<{ readonly text: string; readonly replaces: boolean }>
}

const formats: Readonly<Record<string, Format>> = {
  'claude-code': jsonFormat('.mcp.json', `\${${KEY}}`, { type: 'http' }),
  cursor: jsonFormat('.cursor/mcp.json', `\${env:${KEY}}`),
  codex: { file: '.codex/config.toml', edit: editToml },
}

type Flags = { readonly tools?: string; readonly agent?: string; readonly dryRun?: boolean; readonly yes?: boolean }
type Connected = {
  readonly file: string
  readonly changed: boolean
  readonly written: boolean
  readonly diff: string
  /** Of the new agent key; shown once. */
  readonly key: string | null
}

export const connectVerb = (cli: Cli): Add =>
  verb<[agent: string, flags: Flags], Connected>({
    description: 'add Concord to the MCP configuration of a coding agent in this folder',
    args: [['<agent>', Object.keys(formats).join(', ')]],
    options: [
      ['--tools <names>', 'create a key for the agent that covers these tasks, separated by commas'],
      ['--agent <name>', 'the name of the agent in that key; default: the argument'],
      ['--dry-run', 'show the change and write nothing'],
      yesOption,
    ],
    examples: ['concord connect claude-code --tools publish_report,undo_command', 'concord connect codex --dry-run'],
    ask: (agent, flags) => connectAgent(cli, agent, flags),
    say: ({ file, changed, written, diff, key }) => {
      const state = !changed ? 'already has this entry' : written ? 'is written' : 'would be written'
      const next = key === null ? `Set ${KEY} to the key of the agent before you start it.` : 'It is not shown again.'
      return [key === null ? '' : `export ${KEY}=${key}\n`, `${diff}${file} ${state}. ${next}\n`]
    },
  })

async function connectAgent(cli: Cli, agent: string, flags: Flags): Promise<Decision<Connected>> {
  const format = Object.hasOwn(formats, agent) ? formats[agent] : undefined
  if (!format)
    return refuse('cli.usage', `${quote(agent)} is not a known agent.`, {
      path: '<agent>',
      hint: `Use one of ${Object.keys(formats).join(', ')}; others need the address of /mcp and a key.`,
    })
  const config = readConfig(cli.terminal.environment, cli.terminal.folder)
  if (!config.ok) return config
  const target = { url: `${serverAddress(config.value)}/mcp`, workspace: config.value.cliWorkspace }
  const path = join(cli.terminal.folder, format.file)
  const old = await readText(path)
  if (!old.ok) return old
  const edited = format.edit(old.value, target, format.file)
  if (!edited.ok) return edited
  const { text, replaces } = edited.value
  const isWriting = !flags.dryRun && text !== old.value
  const diff = diffOf(old.value, text)
  if (replaces && isWriting && !flags.yes)
    return refuse('cli.confirmation_missing', `${format.file} has another entry ${quote(ENTRY)}:\n${diff.trimEnd()}`, {
      path: format.file,
      hint: 'Add --yes to replace it, or --dry-run to see the whole change.',
    })
  const key = flags.tools === undefined || flags.dryRun ? accept(null) : await createKey(cli, agent, flags)
  if (!key.ok) return key
  try {
    if (isWriting) await mkdir(dirname(path), { recursive: true })
    if (isWriting) await writeFile(path, text)
  } catch (error) {
    return refuse('cli.file.unwritable', `${format.file} cannot be written: ${(error as Error).message}.`, { path })
  }
  return accept({ file: format.file, changed: text !== old.value, written: isWriting, diff, key: key.value })
}

async function createKey(cli: Cli, client: string, { tools = '', agent = client }: Flags): Promise<Decision<string>> {
  const named = tools.split(',').flatMap((tool) => tool.trim() || [])
  const body = { name: agent, role: 'writer', agent, tools: named }
  const made = await askServer<ViewOf<typeof createdApiKeyView>>(cli, 'POST', '/keys', body)
  return made.ok ? accept(made.value.key) : made
}

async function readText(path: string): Promise<Decision<string>> {
  try {
    return accept(await readFile(path, 'utf8'))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT' ? accept('') : refuse('cli.file.unreadable', `${path} cannot be read (${code}).`, { path })
  }
}

function jsonFormat(file: string, key: string, more: object = {}): Format {
  return {
    file,
    edit(text, { url, workspace }) {
      const parsed = parseNamed(file, text.trim() === '' ? '{}' : text)
      if (!parsed.ok) return parsed
      const { mcpServers: servers = {} } = parsed.value
      if (!isJsonObject(servers))
        return refuse('cli.file.invalid', `mcpServers in ${file} is not an object.`, { path: `${file}: mcpServers` })
      const headers = {
        Authorization: `Bearer ${key}`,
        ...(workspace === undefined ? {} : { 'X-Workspace': workspace }),
      }
      const entry = { ...more, url, headers }
      const known = servers[ENTRY]
      if (JSON.stringify(known) === JSON.stringify(entry)) return accept({ text, replaces: false })
      const edited = { ...parsed.value, mcpServers: { ...servers, [ENTRY]: entry } }
      const indent = /^([ \t]+)"/m.exec(text)?.[1] ?? '  '
      return accept({ text: `${JSON.stringify(edited, null, indent)}\n`, replaces: known !== undefined })
    },
  }
}

/** Also of an array of tables. */
const TABLE = /^\s*\[{1,2}[^\]]*\]{1,2}\s*(?:#.*)?$/
const OWN_TABLE = new RegExp(`^\\s*\\[{1,2}\\s*mcp_servers\\s*\\.\\s*${ENTRY}\\s*(?:\\.[^\\]]*)?\\]`)
const NO_CONTENT = /^\s*(?:#.*)?$/

/** Splits off the tables of our entry. Comments after the last value of a table belong to the next one. */
function splitToml(text: string): { readonly own: readonly string[]; readonly rest: readonly string[] } {
  const [own, rest]: [string[], string[]] = [[], []]
  let isOwn = false
  const pending: string[] = []
  for (const line of text.split('\n')) {
    if (TABLE.test(line)) {
      rest.push(...pending.splice(0))
      isOwn = OWN_TABLE.test(line)
    }
    if (!isOwn) rest.push(line)
    else if (NO_CONTENT.test(line)) pending.push(line)
    else own.push(...pending.splice(0), line)
  }
  return { own, rest: [...rest, ...pending] }
}

/** Other ways to write the same entry, which this program does not edit. */
const OTHER_FORM = new RegExp(
  `^\\s*(?:mcp_servers\\s*[.=]|\\[\\s*mcp_servers\\s*\\]|\\[\\s*(?:"mcp_servers"|'mcp_servers')|\\[\\s*mcp_servers\\s*\\.\\s*(?:"${ENTRY}"|'${ENTRY}'))`,
  'm',
)

function editToml(text: string, { url, workspace }: Target, file: string): ReturnType<Format['edit']> {
  const headers = workspace === undefined ? '' : `http_headers = { "X-Workspace" = ${JSON.stringify(workspace)} }\n`
  const entry = `[mcp_servers.${ENTRY}]\nurl = ${JSON.stringify(url)}\nbearer_token_env_var = "${KEY}"\n${headers}`
  if (OTHER_FORM.test(text))
    return refuse('cli.file.invalid', `${file} writes mcp_servers in a form that this program does not edit.`, {
      path: file,
      hint: `Add it by hand:\n${entry.trimEnd()}`,
    })
  const { own, rest } = splitToml(text)
  if (own.join('\n') === entry.trimEnd()) return accept({ text, replaces: false })
  const others = rest.join('\n').trimEnd()
  return accept({ text: `${others}${others === '' ? '' : '\n\n'}${entry}`, replaces: own.length > 0 })
}

/** The lines between the first and the last that differ. */
function diffOf(before: string, after: string): string {
  if (before === after) return ''
  const [from, to] = [before, after].map((text) => text.split('\n').slice(0, text.endsWith('\n') ? -1 : undefined))
  const [old, now] = [before === '' ? [] : (from ?? []), to ?? []]
  let start = 0
  while (start < old.length && old[start] === now[start]) start += 1
  let end = 0
  while (end < Math.min(old.length, now.length) - start && old.at(-1 - end) === now.at(-1 - end)) end += 1
  const lines = (all: readonly string[], mark: string) =>
    all.slice(start, all.length - end).map((line) => `${mark} ${line}\n`)
  return [...lines(old, '-'), ...lines(now, '+')].join('')
}
