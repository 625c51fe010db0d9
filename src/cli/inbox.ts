/** `concord inbox`: what waits for my decision, the nearest deadline first, and what happens if I say yes. */
import type { Command } from 'commander'
import { describeDuration } from '#kernel/duration'
import { showLine } from '#kernel/visible-text'
import { askServer, isJson, showAnswer } from './ask-server.ts'
import { addPaging, type Page, queryOf, shortJson } from './command-view.ts'
import { type Cli, colorsOf, type Terminal } from './terminal.ts'

export type ApprovalView = {
  readonly approval_id: string
  readonly command_id: string
  readonly status: string
  readonly requested_by: string
  readonly requested_by_name: string | null
  readonly approver: string
  readonly approver_name: string | null
  readonly approvals_required: number
  readonly approved_by: readonly string[]
  readonly approved_by_names: readonly (string | null)[]
  readonly may_decide: boolean
  readonly meanings: Readonly<Record<string, string>>
  readonly reason_required: readonly string[]
  readonly packet: {
    readonly requested_action?: { readonly summary?: string; readonly arguments?: unknown }
    readonly why?: string
    readonly affected?: readonly string[]
    readonly policy?: string
    readonly after_approval?: string
    readonly risk_level?: string
    readonly hidden_characters?: readonly string[]
  }
  readonly expires_at: string | null
  /** Left out by a server that is older. */
  readonly blocked_by?: { readonly code: string; readonly reason: string; readonly hint: string } | null
}

const UNREAD_MAX = 500

type InboxOptions = { all?: boolean; limit: number; cursor?: string }

export function addInbox(program: Command, cli: Cli): void {
  const { terminal } = cli
  addPaging(program.command('inbox'))
    .description('list what waits for your decision, by deadline')
    .option('--all', 'also what waits for others')
    .addHelpText('after', '\nExample:\n  $ concord inbox\n')
    .action(
      cli.handle(async ({ all, limit, cursor }: InboxOptions) => {
        const path = `/approvals${queryOf({ mine: all === true ? undefined : 'true', limit, cursor })}`
        const listed = await askServer<Page<ApprovalView>>(cli, 'GET', path)
        const unread = listed.ok && !isJson(program) ? await countUnread(cli) : 0
        return showAnswer(cli, program, listed, ({ items, next_cursor }) => {
          if (unread > 0)
            terminal.err(
              `unread messages: ${unread}${unread === UNREAD_MAX ? ' or more' : ''}; \`concord notifications list --unread\` shows them\n`,
            )
          if (items.length === 0) return terminal.err(all === true ? 'Nothing waits.\n' : 'Nothing waits for you.\n')
          terminal.out(items.map((item) => formatApproval(terminal, item, Date.now())).join('\n'))
          if (next_cursor !== null) terminal.err(`there are more: add --cursor ${showLine(next_cursor)}\n`)
        })
      }),
    )
}

/** As far as the server tells; who looks for decisions should not miss what was only told to them. */
async function countUnread(cli: Cli): Promise<number> {
  const path = `/notifications${queryOf({ limit: UNREAD_MAX, unread: 'true' })}`
  const unread = await askServer<{ items: readonly unknown[] }>(cli, 'GET', path)
  return unread.ok ? unread.value.items.length : 0
}

export function formatApproval(terminal: Terminal, approval: ApprovalView, nowMs: number): string {
  const { approval_id: id, packet, meanings, approver, may_decide, reason_required } = approval
  const said = (text: string | undefined) => showLine(text ?? '')
  const action = packet.requested_action
  const hidden = (packet.hidden_characters ?? []).map(showLine).join(', ')
  const reason = reason_required.includes('approved') ? ' --reason "…"' : ''
  const lines: (readonly [string, string] | undefined)[] = [
    ['risk', said(packet.risk_level)],
    ['asked by', showLine(approval.requested_by_name ?? approval.requested_by)],
    // Who asked did not say this: it is why a person is needed.
    ['because', said(packet.why)],
    ['rule', said(packet.policy)],
    ['affects', (packet.affected ?? []).map(showLine).join(', ')],
    ['with', shortJson(action?.arguments ?? {}, 2_000)],
    hidden === '' ? undefined : ['careful', `there are hidden characters in ${hidden}`],
    ['if yes', [said(packet.after_approval), said(meanings['approved'])].filter(Boolean).join(' ')],
    ['if no', said(meanings['rejected'])],
    ['until', deadlineOf(approval.expires_at, nowMs)],
    approval.approvals_required > 1 ? ['so far', soFar(approval)] : undefined,
    ['command', approval.command_id],
    approval.blocked_by ? ['blocked', `${said(approval.blocked_by.reason)} (${approval.blocked_by.code})`] : undefined,
    approval.blocked_by ? ['to do', said(approval.blocked_by.hint)] : undefined,
    may_decide
      ? ['next', `concord approve ${id}${reason} | concord deny ${id} --reason "…"`]
      : ['waits for', showLine(approval.approver_name ?? approver)],
  ]
  const body = lines.map((line) => (line && line[1] !== '' ? `  ${line[0].padEnd(9)}  ${line[1]}\n` : '')).join('')
  return `${colorsOf(terminal).bold(said(action?.summary))}  ${id}\n${body}`
}

function soFar({ approved_by, approved_by_names, approvals_required }: ApprovalView): string {
  const who = approved_by.map((id, at) => showLine(approved_by_names[at] ?? id)).join(', ')
  return `${approved_by.length} of ${approvals_required} have approved${who === '' ? '' : `: ${who}`}`
}

/** No decision is a refusal, so the time that is left stands beside the time itself. */
function deadlineOf(expiresAt: string | null, nowMs: number): string {
  if (expiresAt === null) return 'it is decided; it does not expire'
  const leftMs = Date.parse(expiresAt) - nowMs
  return leftMs > 0 ? `${expiresAt}, in ${describeDuration(leftMs)}; then it is refused` : `${expiresAt}, which is over`
}
