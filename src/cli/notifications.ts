/** `concord notifications`: what was sent to me in the app, and that I have read it. */
import type { Command } from 'commander'
import { decodeId } from '#kernel/ids'
import { accept, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, isJson, showAnswer } from './ask-server.ts'
import { addPaging, type Page, queryOf } from './command-view.ts'
import { type Cli, colorsOf, type Outcome, type Terminal } from './terminal.ts'

export type NotificationView = {
  readonly notification_id: string
  readonly command_id: string
  readonly subject: string
  readonly text: string
  readonly created_at: string
  readonly read_at: string | null
}

export function addNotifications(program: Command, cli: Cli): void {
  const notifications = program
    .command('notifications')
    .description('messages in the app: list them, mark them as read')
  addList(notifications, program, cli)
  addRead(notifications, program, cli)
}

function addList(notifications: Command, program: Command, cli: Cli): void {
  const { terminal } = cli
  addPaging(notifications.command('list'))
    .description('what was sent to you, newest first')
    .option('--unread', 'only what you have not read')
    .addHelpText('after', '\nExample:\n  $ concord notifications list --unread\n')
    .action(
      cli.handle(async ({ unread, limit, cursor }: { unread?: boolean; limit: number; cursor?: string }) => {
        const path = `/notifications${queryOf({ limit, cursor, unread: unread === true ? 'true' : undefined })}`
        const listed = await askServer<Page<NotificationView>>(cli, 'GET', path)
        return showAnswer(cli, program, listed, ({ items, next_cursor }) => {
          if (items.length === 0)
            terminal.err(unread === true ? 'You have read everything.\n' : 'Nothing was sent to you.\n')
          else terminal.out(items.map((item) => formatNotification(terminal, item)).join('\n'))
          if (next_cursor !== null) terminal.err(`there are more: add --cursor ${showLine(next_cursor)}\n`)
        })
      }),
    )
}

function formatNotification(terminal: Terminal, { notification_id, ...notification }: NotificationView): string {
  const color = colorsOf(terminal)
  const subject = showLine(notification.subject)
  const mark = notification.read_at === null ? color.yellow('unread') : `read ${notification.read_at}`
  return [
    `${notification.read_at === null ? color.bold(subject) : subject}  ${notification_id}\n`,
    `  ${showLine(notification.text)}\n`,
    `  sent ${notification.created_at}, ${mark}, by ${notification.command_id}\n`,
  ].join('')
}

function addRead(notifications: Command, program: Command, cli: Cli): void {
  notifications
    .command('read')
    .argument('[ids...]', 'ids, as `concord notifications list` shows them')
    .description('mark messages as read; once is enough, and the first time stands')
    .option('--all', 'all that were sent to you in this workspace')
    .addHelpText(
      'after',
      '\nExamples:\n  $ concord notifications read inv_0197f3b2c4d57a8e9b0c1d2e3f405171\n  $ concord notifications read --all\n',
    )
    .action(
      cli.handle(async (ids: string[], { all }: { all?: boolean }) => {
        if (ids.length > 0 === (all === true)) {
          return refuse('cli.usage', ids.length > 0 ? '--all and ids exclude each other' : 'nothing is named', {
            path: '<ids>',
            hint: 'Name messages, or add --all; `concord notifications list --unread` shows them.',
          })
        }
        return all === true ? readAll(cli, program) : readSome(cli, program, ids)
      }),
    )
}

async function readAll(cli: Cli, program: Command): Promise<Outcome> {
  const marked = await askServer<{ marked: number }>(cli, 'POST', '/notifications/read')
  return showAnswer(cli, program, marked, ({ marked: count }) =>
    cli.terminal.out(count === 0 ? 'You had read everything.\n' : `${count} marked as read\n`),
  )
}

/** A typing mistake among them marks none. */
async function readSome(cli: Cli, program: Command, ids: readonly string[]): Promise<Outcome> {
  for (const id of ids) {
    const decoded = decodeId('connector_invocation', id)
    const hint = '`concord notifications list` shows the ids of messages.'
    if (!decoded.ok) return { ...decoded, reason: `${quote(id)} is not the id of a message`, path: '<ids>', hint }
  }
  for (const id of ids) {
    const read = await askServer<NotificationView>(cli, 'POST', `/notifications/${id}/read`)
    if (!read.ok) return read
    if (isJson(program)) cli.terminal.out(`${JSON.stringify(read.value)}\n`)
    else cli.terminal.out(`${id} was read ${read.value.read_at ?? ''}\n`)
  }
  return accept(undefined)
}
