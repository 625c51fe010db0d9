/** `concord history`: archives old events, shows the history of a command and verifies the archive. */
import { type Config, readConfig } from '#app/config'
import type { HistoryView } from '#app/history'
import type { ArchivedHistory, ArchiveFinding } from '#domains/commands'
import { decodeId } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { mapAnswer, noun, verb } from './noun.ts'
import { formatTable } from './layout.ts'
import { counted, shortJson, type Terminal } from './terminal.ts'
import { sayClock, sayTime } from './times.ts'

const LISTED = '`concord commands list` shows the ids of commands'
const configOf = ({ environment, folder }: Terminal): Decision<Config> => readConfig(environment, folder)

export const history = noun('archive old events and read the archive', (cli) => {
  const { terminal } = cli
  return {
    archive: verb({
      description: 'move the events of commands that ended long ago into files; commands, effects and approvals stay',
      options: [
        ['--before <days>', 'only commands that ended more than this many days ago (default: CONCORD_HISTORY_DAYS)'],
        ['--dry-run', 'count only'],
      ],
      examples: ['concord history archive --before 365 --dry-run'],
      async ask({ before, dryRun: isDryRun = false }: { before?: string; dryRun?: boolean }) {
        const days = before === undefined ? accept(undefined) : parseDays(before)
        if (!days.ok) return days
        const config = configOf(terminal)
        if (!config.ok) return config
        const { moveHistory } = await import('#app/history')
        const onProgress = (soFar: ArchivedHistory) => sayProgress(terminal, isDryRun, soFar)
        const options = { days: days.value, isDryRun, signal: terminal.stop, onProgress }
        return mapAnswer(await moveHistory(config.value, options), (moved) => archivedJson(moved, isDryRun))
      },
      say: (moved) => sayArchived(terminal, moved),
    }),
    'show <id>': verb({
      description: 'show everything that happened to a command, from the archive and the database',
      examples: ['concord history show cmd_0197f3b2c4d57a8e9b0c1d2e3f405170'],
      async ask(id: string) {
        const commandId = decodeId('command', id)
        if (!commandId.ok) return { ...commandId, path: '<id>', hint: LISTED }
        const config = configOf(terminal)
        if (!config.ok) return config
        const { showHistory } = await import('#app/history')
        const told = await showHistory(config.value, commandId.value)
        return !told.ok && told.code === 'commands.command.not_found' ? { ...told, path: '<id>', hint: LISTED } : told
      },
      say: (view) => sayHistory(terminal, view),
    }),
    verify: verb({
      description: 'compare every file of the archive with its manifest and the database',
      examples: ['concord history verify'],
      async ask() {
        const config = configOf(terminal)
        if (!config.ok) return config
        const { checkHistory } = await import('#app/history')
        const checked = await checkHistory(config.value, {
          signal: terminal.stop,
          onProgress: (looked, of) =>
            terminal.isTty ? terminal.err(`\r${looked} of ${counted(of, 'file')} `) : undefined,
        })
        return mapAnswer(checked, (files) => ({ files }))
      },
      say: ({ files }) => sayVerified(terminal, files),
      judge: ({ files }) => judgeFindings(files, terminal.stop.aborted),
    }),
  }
})

/** One day at least, so that readers of the event feed have time to read them. */
function parseDays(text: string): Decision<number> {
  if (/^[1-9]\d{0,4}$/.test(text)) return accept(Number(text))
  return refuse('cli.usage', `--before needs a number of days from 1 to 99999, not ${quote(text)}.`, {
    path: '--before',
    hint: 'For example --before 365.',
  })
}

function sizeOf(bytes: number): string {
  return bytes < 1_048_576 ? `${(bytes / 1_024).toFixed(1)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`
}

function sayProgress(terminal: Terminal, isDryRun: boolean, { events, files }: ArchivedHistory): void {
  const text = isDryRun
    ? `${counted(events, 'event')} counted`
    : `${counted(events, 'event')} in ${counted(files.length, 'file')}`
  if (terminal.isTty) terminal.err(`\r${text} `)
  else terminal.err(`${text}\n`)
}

function archivedJson({ events, bytes, files, held, finished, passedOver }: ArchivedHistory, isDryRun: boolean) {
  const shown = files.map((each) => ({ workspace_id: each.workspaceId, file: each.file, events: each.events }))
  return { dry_run: isDryRun, events, bytes, files: shown, held, finished, passed_over: passedOver }
}

function sayArchived(terminal: Terminal, moved: ReturnType<typeof archivedJson>): void {
  const { events, files, held, finished, passed_over: passedOver, bytes, dry_run: isDryRun } = moved
  if (terminal.isTty && events > 0) terminal.err('\n')
  if (isDryRun)
    terminal.out(
      events === 0
        ? 'Nothing to archive: no event is that old\n'
        : `${counted(events, 'event')} would move, ${sizeOf(bytes)} before compression\n`,
    )
  else terminal.out(`${counted(events, 'event')} moved into ${counted(files.length, 'file')}\n`)
  if (held > 0) terminal.out(`${counted(held, 'event')} not archived: their commands are on hold\n`)
  if (finished > 0) terminal.out(`${counted(finished, 'file')} of an interrupted run completed\n`)
  if (passedOver > 0)
    terminal.out(
      `${counted(passedOver, 'event')} not archived: their commands changed meanwhile; run the command again\n`,
    )
}

function sayHistory(terminal: Terminal, { archived, events }: HistoryView): void {
  const rows = events.map(({ created_at, event_type, actor, payload, file }) =>
    [
      sayClock(terminal, created_at),
      event_type,
      actor,
      file === null ? 'database' : 'archive',
      shortJson(payload, 120),
    ].map(showLine),
  )
  terminal.out(formatTable(terminal, ['when', 'event', 'by', 'from', 'what'], rows))
  for (const { file, archived_at } of archived)
    terminal.out(`archived ${sayTime(terminal, archived_at)} in ${showLine(file)}\n`)
}

function sayVerified(terminal: Terminal, findings: readonly ArchiveFinding[]): void {
  if (terminal.isTty && findings.length > 0) terminal.err('\n')
  const whole = findings.filter(({ status }) => status === 'whole')
  const events = whole.reduce((sum, finding) => sum + (finding.events ?? 0), 0)
  if (findings.length === 0) return terminal.out('Nothing is archived yet\n')
  terminal.out(`${counted(whole.length, 'file')} with ${counted(events, 'event')} verified\n`)
  const rest = findings.filter(({ status }) => status !== 'whole')
  if (rest.length === 0) return
  // The file has its own column.
  const rows = rest.map(({ status, file, found }) =>
    [status, file, (found ?? '').replace(`${file} `, '')].map(showLine),
  )
  terminal.out(formatTable(terminal, ['status', 'file', 'found'], rows, { long: 'wrap' }))
}

/** A stopped check has not read every file. */
export function judgeFindings(findings: readonly ArchiveFinding[], isStopped: boolean): Decision<undefined> {
  const bad = findings.filter(({ status }) => status === 'missing' || status === 'damaged')
  if (bad.length === 0) {
    if (!isStopped) return accept(undefined)
    return refuse('cli.wait.ended', 'The check was stopped before it ended.', { hint: 'Run it again.' })
  }
  return refuse('history.unwell', `${counted(bad.length, 'file')} of the archive cannot be trusted.`, {
    path: bad[0]?.file ?? '',
    hint: 'Restore them from a backup, or set CONCORD_HISTORY_FOLDER to the folder of the archive.',
  })
}
