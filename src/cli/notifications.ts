/** `concord notifications`: in-app messages for the caller, and marking them as read. */
import type { notificationView } from '#domains/connectors'
import { accept, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, pathOf, queryOf } from './client.ts'
import { action, listVerb, noun, type PageFlags, paging, type ViewOf, showAnswer } from './noun.ts'
import { type Cli, colorsOf, type VerbResult, type Terminal } from './terminal.ts'
import { sayTime } from './times.ts'

type NotificationView = ViewOf<typeof notificationView>

export const notifications = noun('list in-app messages and mark them as read', (cli) => ({
  list: listVerb<NotificationView, [PageFlags & { unread?: boolean }]>({
    description: 'list the messages that were sent to you, newest first',
    options: [...paging, ['--unread', 'only unread messages']],
    examples: ['concord notifications list --unread'],
    at: ({ unread, limit, cursor }) =>
      `/notifications${queryOf({ limit, cursor, unread: unread === true ? 'true' : undefined })}`,
    none: ({ unread }) => (unread === true ? 'You have read everything.' : 'Nothing was sent to you.'),
    each: (item) => formatNotification(cli.terminal, item),
  }),
  read: action({
    description: 'mark messages as read; repeating it changes nothing',
    args: [['[ids...]', 'ids, as `concord notifications list` shows them']],
    options: [['--all', 'all messages to you in this workspace']],
    examples: ['concord notifications read inv_0197f3b2c4d57a8e9b0c1d2e3f405171', 'concord notifications read --all'],
    async run(ids: string[], { all }: { all?: boolean }) {
      if (ids.length > 0 === (all === true))
        return refuse('cli.usage', ids.length > 0 ? '--all and ids cannot be combined' : 'no message is named', {
          path: '<ids>',
          hint: 'Name messages, or add --all; `concord notifications list --unread` shows them.',
        })
      if (all !== true) return readSome(cli, ids)
      const marked = await askServer<{ marked: number }>(cli, 'POST', '/notifications/read')
      return showAnswer(cli, marked, ({ marked: count }) =>
        count === 0 ? 'There were no unread messages.\n' : `${count} marked as read\n`,
      )
    },
  }),
}))

function formatNotification(terminal: Terminal, { notification_id, ...notification }: NotificationView): string {
  const color = colorsOf(terminal)
  const subject = showLine(notification.subject)
  const mark =
    notification.read_at === null ? color.yellow('unread') : `read ${sayTime(terminal, notification.read_at)}`
  return [
    `${notification.read_at === null ? color.bold(subject) : subject}  ${notification_id}\n`,
    `  ${showLine(notification.text)}\n`,
    `  sent ${sayTime(terminal, notification.created_at)}, ${mark}, ${notification.command_id === null ? 'by Concord' : `by ${notification.command_id}`}\n`,
  ].join('')
}

/** Checks every id before it marks the first. */
async function readSome(cli: Cli, ids: readonly string[]): Promise<VerbResult> {
  for (const id of ids) {
    const path = pathOf('connector_invocation', id)
    if (!path.ok) return { ...path, path: '<ids>' }
  }
  for (const id of ids) {
    const read = await askServer<NotificationView>(cli, 'POST', `/notifications/${id}/read`)
    const shown = await showAnswer(
      cli,
      read,
      ({ read_at }) => `${id} was read ${read_at === null ? '' : sayTime(cli.terminal, read_at)}\n`,
    )
    if (!shown.ok) return shown
  }
  return accept(undefined)
}
