/** Renders the pages of docs/reference from the code: refusal codes, exit codes, events and settings. */
import { readdirSync, readFileSync } from 'node:fs'
import type { RefusalCode, RefusalKind } from '#kernel/refusal'
import { refusals, refusalTables } from '#refusals'
import { settings } from '#app/settings'
import { statusOf } from '../src/api/problem.ts'
import { exitCodeOf } from '../src/cli/program.ts'

const MARK = '<!-- Written by `npm run reference` from the code; change it there, not here. -->'

/** By file name. Throws if an exit code or an event has no meaning. */
export function renderReference(): ReadonlyMap<string, string> {
  return new Map([
    ['refusal-codes.md', renderRefusals()],
    ['exit-codes.md', renderExits()],
    ['events.md', renderEvents()],
    ['settings.md', renderSettings()],
  ])
}

function page(title: string, intro: string, sections: readonly string[]): string {
  return `${[`# ${title}`, MARK, intro, ...sections].join('\n\n')}\n`
}

function table(titles: readonly string[], rows: readonly (readonly (string | number)[])[]): string {
  const line = (cells: readonly (string | number)[]) =>
    `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
  return [line(titles), `|${'---|'.repeat(titles.length)}`, ...rows.map(line)].join('\n')
}

const code = (text: string): string => `\`${text}\``

function renderRefusals(): string {
  const intro = `A refusal over HTTP is \`application/problem+json\` with \`code\`, \`detail\`, \`path\` and \`hint\`; on the command line it is a text, or with \`--json\` one line of JSON on
standard error. Codes are stable: programs switch on them. A refusal may have a more precise hint than the one of its code. Exit codes: [exit-codes.md](exit-codes.md).`
  const sections = Object.entries(refusalTables).map(([room, codes]) => {
    const rows = Object.entries<readonly [RefusalKind, string]>(codes)
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, [kind, hint]]) => {
        const refusal = { code: name as RefusalCode }
        // These come from the program, not from a server.
        const status = kind === 'usage' || kind === 'configuration' ? '' : statusOf(refusal)
        return [code(name), status, exitCodeOf(refusal), hint]
      })
    return `## ${room}\n\n${table(['Code', 'HTTP', 'Exit', 'What to do'], rows)}`
  })
  return page('Refusal codes', intro, sections)
}

/** The numbers are those of sysexits.h. */
const meanings: Readonly<Record<number, string>> = {
  0: 'It is done. With `submit --wait`: the command has succeeded',
  64: 'The command line is wrong: an unknown command or flag, or a missing argument',
  65: 'The data was refused: an unknown id, a value that is not allowed, a command that failed',
  69: 'Nothing answers: the server or the database is down',
  70: 'Concord failed. The log has the cause',
  75: 'Not now: it waits for a person, another command holds the contract key, the state has changed, or the limit is reached. Try again later',
  77: 'The API key is missing, unknown or revoked, or it may not do this',
  78: 'A setting or the project is wrong. Nothing was started',
  130: 'A second Ctrl-C ended the program at once',
  143: 'A second SIGTERM ended the program at once',
}

function renderExits(): string {
  const kinds = new Map<number, Set<string>>()
  for (const [name, [kind]] of Object.entries(refusals)) {
    const exit = exitCodeOf({ code: name as RefusalCode })
    if (meanings[exit] === undefined) throw new Error(`exit code ${exit} has no meaning in ${import.meta.filename}`)
    kinds.set(exit, (kinds.get(exit) ?? new Set()).add(kind))
  }
  const rows = Object.entries(meanings).map(([exit, meaning]) => [
    exit,
    meaning,
    [...(kinds.get(Number(exit)) ?? [])].toSorted().map(code).join(', '),
  ])
  const intro = `The exit codes of the \`concord\` program follow sysexits.h. The code of the refusal says more: it is in the text, and in \`code\` of the line that \`--json\` prints on standard
error ([refusal-codes.md](refusal-codes.md)).`
  return page('Exit codes', intro, [table(['Exit', 'Meaning', 'Kinds of refusals'], rows)])
}

const purposes: Readonly<Record<string, string>> = {
  audit: 'audit',
  event: '',
  agent_step: 'step of an agent',
}

/** An entry of a list of event types, with the comment that says what it means. */
const entry = /^ {2}(?:\/\*\* (.+) \*\/\n {2})?(\w+): '(\w+)',?$/gm

function renderEvents(): string {
  const domains = new URL('../src/domains/', import.meta.url)
  const sections = readdirSync(domains, { recursive: true, encoding: 'utf8' })
    .toSorted()
    .flatMap((path) => {
      if (!path.endsWith('events.ts')) return []
      const text = readFileSync(new URL(path, domains), 'utf8')
      const [, list] = /const \w+EventTypes = \{\n([\s\S]*?)\n\} as const/.exec(text) ?? []
      return list === undefined ? [] : [`## ${path.split('/')[0]}\n\n${eventTable(path, list)}`]
    })
  const intro = `Each change is written with its events in one commit. \`GET /events\` and \`concord events tail\` follow all of them in commit order; \`GET /audit\` and \`GET /org/audit\` list those
with the purpose audit; \`GET /commands/{command_id}/events\` lists those of one command. Every event has its time, actor, target and trace id. Ignore names that you do not know: a later version may add some.`
  return page('Events', intro, sections)
}

function eventTable(path: string, list: string): string {
  const rows = [...list.matchAll(entry)].map(([, meaning, name = '', purpose = '']) => {
    if (meaning === undefined) throw new Error(`the event ${name} of ${path} has no comment that says what it means`)
    return [code(name), purposes[purpose] ?? purpose, meaning]
  })
  return table(['Event', 'Purpose', 'Meaning'], rows)
}

function renderSettings(): string {
  const rows = Object.values(settings).map(({ variable, meaning, example }) => [code(variable), meaning, code(example)])
  const intro = `Concord reads these environment variables at its start, and does not start on an unknown \`CONCORD_…\` variable or a wrong value. \`concord doctor --settings\` prints the same table.`
  return page('Settings', intro, [table(['Variable', 'Meaning', 'Example or default'], rows)])
}
