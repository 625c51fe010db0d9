/** `concord history`: moves old events into the archive, tells the history of a command from both, and checks the files. */
import type { Command } from 'commander'
import { type Config, readConfig } from '#app/config'
import type { ArchivedHistory, ArchiveFinding, HistoryView } from '#app/history'
import { decodeId } from '#kernel/ids'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { isJson } from './ask-server.ts'
import { shortJson } from './command-view.ts'
import { type Cli, formatTable, type Terminal } from './terminal.ts'

export function addHistory(program: Command, cli: Cli): void {
  const history = program.command('history').description('the archive of what happened long ago')
  addArchive(history, program, cli)
  addShow(history, program, cli)
  addVerify(history, program, cli)
}

const configOf = ({ environment, folder }: Terminal): Decision<Config> => readConfig(environment, folder)

function addArchive(history: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  history
    .command('archive')
    .description('move the events of what ended long ago into files; commands, effects and approvals stay')
    .option('--before <days>', 'what ended more days ago than this (default: CONCORD_HISTORY_DAYS)')
    .option('--dry-run', 'count only')
    .addHelpText('after', '\nExample:\n  $ concord history archive --before 365 --dry-run\n')
    .action(
      cli.handle(async (options: { before?: string; dryRun?: boolean }) => {
        const days = options.before === undefined ? accept(undefined) : parseDays(options.before)
        if (!days.ok) return days
        const config = configOf(terminal)
        if (!config.ok) return config
        const isDryRun = options.dryRun === true
        const { moveHistory } = await import('#app/history')
        const moved = await moveHistory(config.value, {
          days: days.value,
          isDryRun,
          signal: terminal.stop,
          onProgress: (soFar) => sayProgress(terminal, isDryRun, soFar),
        })
        if (!moved.ok) return moved
        if (isJson(program)) terminal.out(`${JSON.stringify(archivedJson(moved.value, isDryRun))}\n`)
        else sayArchived(terminal, moved.value, isDryRun)
        return accept(undefined)
      }),
    )
}

/** A day at least: whoever follows events must have had the time to see them. */
function parseDays(text: string): Decision<number> {
  if (/^[1-9]\d{0,4}$/.test(text)) return accept(Number(text))
  return refuse('cli.usage', `--before takes a number of days from 1 to 99999, not ${quote(text)}`, {
    path: '--before',
    hint: 'for example --before 365',
  })
}

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? '' : 's'}`

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

function sayArchived(terminal: Terminal, moved: ArchivedHistory, isDryRun: boolean): void {
  const { events, files, held, finished, passedOver, bytes } = moved
  if (terminal.isTty && events > 0) terminal.err('\n')
  if (isDryRun)
    terminal.out(
      events === 0
        ? 'Nothing would move: nothing is so old\n'
        : `${counted(events, 'event')} would move, ${sizeOf(bytes)} before compression\n`,
    )
  else terminal.out(`${counted(events, 'event')} moved into ${counted(files.length, 'file')}\n`)
  if (held > 0) terminal.out(`${counted(held, 'event')} stay: a hold names their commands\n`)
  if (finished > 0) terminal.out(`${counted(finished, 'file')} of a run that was cut short finished\n`)
  if (passedOver > 0)
    terminal.out(`${counted(passedOver, 'event')} stay: their commands were changed meanwhile; run it again\n`)
}

const LISTED = '`concord commands list` shows the ids of commands'

function addShow(history: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  history
    .command('show <id>')
    .description('tell everything that happened to a command, from the archive and the database')
    .addHelpText('after', '\nExample:\n  $ concord history show cmd_0197f3b2c4d57a8e9b0c1d2e3f405170\n')
    .action(
      cli.handle(async (id: string) => {
        const commandId = decodeId('command', id)
        if (!commandId.ok) return { ...commandId, path: '<id>', hint: LISTED }
        const config = configOf(terminal)
        if (!config.ok) return config
        const { showHistory } = await import('#app/history')
        const told = await showHistory(config.value, commandId.value)
        if (!told.ok) return told.code === 'commands.command.not_found' ? { ...told, path: '<id>', hint: LISTED } : told
        if (isJson(program)) terminal.out(`${JSON.stringify(told.value)}\n`)
        else sayHistory(terminal, told.value)
        return accept(undefined)
      }),
    )
}

function sayHistory(terminal: Terminal, { archived, events }: HistoryView): void {
  const rows = events.map(({ created_at, event_type, actor, payload, file }) =>
    [created_at, event_type, actor, file === null ? 'database' : 'archive', shortJson(payload, 120)].map(showLine),
  )
  terminal.out(formatTable(['when', 'event', 'by', 'from', 'what'], rows))
  for (const { file, archived_at } of archived) terminal.out(`archived ${archived_at} in ${showLine(file)}\n`)
}

function addVerify(history: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  history
    .command('verify')
    .description('hold every file of the archive against its manifest and the database')
    .addHelpText('after', '\nExample:\n  $ concord history verify\n')
    .action(
      cli.handle(async () => {
        const config = configOf(terminal)
        if (!config.ok) return config
        const { checkHistory } = await import('#app/history')
        const checked = await checkHistory(config.value, {
          signal: terminal.stop,
          onProgress: (looked, of) =>
            terminal.isTty ? terminal.err(`\r${looked} of ${counted(of, 'file')} `) : undefined,
        })
        if (!checked.ok) return checked
        if (isJson(program)) terminal.out(`${JSON.stringify({ files: checked.value })}\n`)
        else sayVerified(terminal, checked.value)
        return judgeFindings(checked.value, terminal.stop.aborted)
      }),
    )
}

function sayVerified(terminal: Terminal, findings: readonly ArchiveFinding[]): void {
  if (terminal.isTty && findings.length > 0) terminal.err('\n')
  const whole = findings.filter(({ state }) => state === 'whole')
  const events = whole.reduce((sum, finding) => sum + (finding.events ?? 0), 0)
  if (findings.length === 0) return terminal.out('Nothing is archived yet\n')
  terminal.out(`${counted(whole.length, 'file')} with ${counted(events, 'event')} as they were written\n`)
  const rest = findings.filter(({ state }) => state !== 'whole')
  if (rest.length === 0) return
  // The file stands in the column before.
  const rows = rest.map(({ state, file, found }) => [state, file, (found ?? '').replace(`${file} `, '')].map(showLine))
  terminal.out(formatTable(['state', 'file', 'found'], rows))
}

/** Stopped before its end, it has not looked at every file. */
export function judgeFindings(findings: readonly ArchiveFinding[], isStopped: boolean): Decision<undefined> {
  const bad = findings.filter(({ state }) => state === 'missing' || state === 'damaged')
  if (bad.length === 0) {
    if (!isStopped) return accept(undefined)
    return refuse('cli.wait.ended', 'you stopped the check before its end', { hint: 'run it again' })
  }
  return refuse('history.unwell', `${counted(bad.length, 'file')} of the archive cannot be trusted`, {
    path: bad[0]?.file ?? '',
    hint: 'restore them from a backup, or set CONCORD_HISTORY_FOLDER to the folder of the archive',
  })
}
