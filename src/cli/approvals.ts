/** `concord inbox`, `approve` and `deny`: the approvals that wait for a person, and that person's decision. */
import type { ApprovalView, ResolvedApprovalView, ReviewPacket } from '#domains/approvals'
import type { meView } from '#domains/identity'
import { decodeId } from '#kernel/ids'
import { type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, type Page, pathOf, queryOf } from './client.ts'
import { sayStatus } from './command-view.ts'
import { parseNamed } from './json-source.ts'
import {
  moreOf,
  type PageFlags,
  paging,
  type Said,
  table,
  type TableColumns,
  verb,
  type Verbs,
  type ViewOf,
} from './noun.ts'
import { formatFacts } from './layout.ts'
import { type Cli, colorsOf, shortJson, type Terminal } from './terminal.ts'
import { sayTime } from './times.ts'

const ID = 'appr_0197f3b2c4d57a8e9b0c1d2e3f405165'
const UNREAD_MAX = 500

export function approvalVerbs(cli: Cli): Verbs {
  const { terminal } = cli
  const decide = (id: string, answer: Readonly<Record<string, unknown>>): Promise<Decision<ResolvedApprovalView>> =>
    askServer(cli, 'POST', pathOf('approval', id, '/resolve'), fieldsOf(answer))
  return {
    inbox: verb({
      description: 'list the approvals that wait for your decision, by deadline',
      options: [...paging, ['--all', 'include approvals that wait for others']],
      examples: ['concord inbox'],
      ask: ({ all, limit, cursor }: PageFlags & { all?: boolean }) => {
        const query = queryOf({ mine: all === true ? undefined : 'true', limit, cursor })
        return askServer<Page<ApprovalView>>(cli, 'GET', `/approvals${query}`)
      },
      async say(page, { all }) {
        const unread = await countUnread(cli)
        const count = `${unread}${unread === UNREAD_MAX ? ' or more' : ''}`
        if (unread > 0) terminal.err(`unread messages: ${count}; \`concord notifications list --unread\` shows them\n`)
        if (page.items.length === 0)
          return all === true
            ? ['', 'Nothing is waiting.\n']
            : [await listOwnWaiting(cli), 'Nothing is waiting for you.\n']
        return [page.items.map((item) => formatApproval(terminal, item)).join('\n'), moreOf(page)]
      },
    }),
    'approve <id>': verb({
      description: 'approve what `concord inbox` shows',
      options: [
        ['--reason <text>', 'the reason, for the record'],
        ['--edits <json>', 'arguments to replace, by name; an edited request is checked again before it runs'],
      ],
      examples: [
        `concord approve ${ID} --reason "within the budget"`,
        `concord approve ${ID} --edits '{"amount":"80.00"}'`,
      ],
      async ask(id: string, { reason, edits }: { reason?: string; edits?: string }) {
        const parsed = edits === undefined ? undefined : parseNamed('--edits', edits)
        if (parsed && !parsed.ok) return parsed
        return decide(id, { decision: 'approved', reason, edits: parsed?.value })
      },
      say: (approval, id) => sayDecided(id, approval),
    }),
    'deny <id>': verb({
      description: 'deny what `concord inbox` shows',
      required: [['--reason <text>', 'the reason; the requester sees it']],
      options: [['--ask-changes', 'ask the requester for changes instead of rejecting']],
      examples: [`concord deny ${ID} --reason "the budget is used up"`],
      async ask(id: string, { reason, askChanges }: { reason: string; askChanges?: boolean }) {
        if (reason.trim() === '')
          return refuse('cli.usage', '--reason is empty.', {
            path: '--reason',
            hint: 'Give the reason for the denial.',
          })
        return decide(id, { decision: askChanges === true ? 'request_changes' : 'rejected', reason })
      },
      say: (approval, id) => sayDecided(id, approval),
    }),
  }
}

/** What the caller asked for and others have to decide. Empty if there is nothing, or no answer. */
async function listOwnWaiting(cli: Cli): Promise<string> {
  const me = await askServer<ViewOf<typeof meView>>(cli, 'GET', '/me')
  const open = await askServer<Page<ApprovalView>>(cli, 'GET', `/approvals${queryOf({ limit: UNREAD_MAX })}`)
  if (!me.ok || !open.ok) return ''
  const own = open.value.items.filter(({ requested_by }) => requested_by === me.value.user_id)
  const columns: TableColumns<ApprovalView> = {
    'you asked for': ({ packet }) => (packet as Partial<ReviewPacket>).requested_action?.summary,
    'waits for': ({ approver, approver_name }) => approver_name ?? approver,
    until: ({ expires_at }, when) => expires_at && when(expires_at),
    command: ({ command_id }) => command_id,
  }
  return own.length === 0 ? '' : table(cli.terminal, columns, own)
}

/** Returns zero if the server does not answer. */
async function countUnread(cli: Cli): Promise<number> {
  const path = `/notifications${queryOf({ limit: UNREAD_MAX, unread: 'true' })}`
  const unread = await askServer<Page<unknown>>(cli, 'GET', path)
  return unread.ok ? unread.value.items.length : 0
}

export function formatApproval(terminal: Terminal, approval: ApprovalView): string {
  const { approval_id: id, meanings, blocked_by, not_counted, counts_invited, edited, may_decide_for } = approval
  const packet: Partial<ReviewPacket> = approval.packet
  const said = (text: string | undefined) => showLine(text ?? '')
  const hidden = (packet.hidden_characters ?? []).map(showLine).join(', ')
  const reason = approval.reason_required.includes('approved') ? ' --reason "…"' : ''
  const facts = formatFacts(terminal, 9, [
    ['risk', said(packet.risk_level)],
    ['asked by', showLine(approval.requested_by_name ?? approval.requested_by)],
    // Written by the policy rule, not by the requester.
    ['because', said(packet.why)],
    ['rule', said(packet.policy)],
    ['affects', (packet.affected ?? []).map(showLine).join(', ')],
    ['edited', edited && sayEdited(edited)],
    ['with', shortJson(packet.requested_action?.arguments ?? {}, 2_000)],
    ['careful', hidden === '' ? null : `there are hidden characters in ${hidden}`],
    ['if yes', [said(packet.after_approval), said(meanings['approved'])].filter(Boolean).join(' ')],
    ['if no', said(meanings['rejected'])],
    ['until', deadlineOf(terminal, approval.expires_at)],
    ['so far', approval.approvals_required > 1 ? soFar(approval) : null],
    ['counted', approval.counted_elsewhere.length > 0 ? sayCounted(approval) : null],
    ['command', approval.command_id],
    ['not count', not_counted.map(({ name, reason }) => `${showLine(name)} ${said(reason)}`).join('; ')],
    ['careful', counts_invited ? 'people whom the requester invited may decide here' : null],
    ['blocked', blocked_by && `${said(blocked_by.reason)} (${blocked_by.code})`],
    ['to do', blocked_by && said(blocked_by.hint)],
    ['for', may_decide_for === null ? null : `you would decide in the place of ${showLine(may_decide_for)}`],
    approval.may_decide
      ? ['next', `concord approve ${id}${reason} | concord deny ${id} --reason "…"`]
      : ['waits for', showLine(approval.approver_name ?? approval.approver)],
  ])
  return `${colorsOf(terminal).bold(said(packet.requested_action?.summary))}  ${id}\n${facts}`
}

function soFar({ approved_by, approved_by_names, approvals_required }: ApprovalView): string {
  const who = approved_by.map((id, at) => showLine(approved_by_names[at] ?? id)).join(', ')
  return `${approved_by.length} of ${approvals_required} have approved${who === '' ? '' : `: ${who}`}`
}

function sayEdited({ by, fields, reason, needs_confirmation }: NonNullable<ApprovalView['edited']>): string {
  const because = reason === null ? '' : `, because: ${showLine(reason)}`
  const confirm = needs_confirmation ? '; another person must confirm it' : ''
  return `${showLine(by)} changed ${fields.map(showLine).join(', ')}${because}${confirm}`
}

function sayCounted({ counted_elsewhere }: ApprovalView): string {
  const who = counted_elsewhere.map(showLine).join(', ')
  return `${who} approved another part of this command; one person counts once`
}

/** An approval without a decision is refused at its deadline. */
function deadlineOf(terminal: Terminal, expiresAt: string | null): string {
  if (expiresAt === null) return 'decided; it does not expire'
  const isOpen = Date.parse(expiresAt) > terminal.now().getTime()
  return `${sayTime(terminal, expiresAt)}${isOpen ? '; without a decision it is then refused' : ', which has passed'}`
}

const whatNow: Readonly<Record<string, string>> = {
  run_command: 'the command continues',
  fail_command: 'the command fails',
  fail_or_replan: 'the command fails; submit a new one for another plan',
  ask_for_input: 'the requester is asked for changes',
  effect_happened: 'the effect counts as done',
  effect_did_not_happen: 'the effect counts as not done',
}

function sayDecided(asked: string, approval: ResolvedApprovalView): Said {
  const { approval_id: id, command_id: commandId, status, next, approved_by, approvals_required } = approval
  const note = `${whatNow[next] ?? 'other people still have to approve'}; \`concord why ${commandId}\` shows why\n`
  if (status !== 'pending') return [`${id} ${sayStatus(status)}\n`, note]
  if (isSame(id, asked)) return `${id} counted: ${approved_by.length} of ${approvals_required} have approved\n`
  if (approval.edited?.needs_confirmation)
    return [`${id}\n`, 'the request changed, so another person must confirm it\n']
  const who = showLine(approval.approver_name ?? approval.approver)
  return [`${id}\n`, `the request changed, so ${who} is asked again: \`concord approve ${id}\`\n`]
}

/** Compares two ids in either form. */
function isSame(left: string, right: string): boolean {
  const [one, other] = [decodeId('approval', left), decodeId('approval', right)]
  return one.ok && other.ok && one.value === other.value
}
