/** Every refusal of the server ends with the command line's own next step: the server cannot know the name of a verb. */
import type { Refusal, RefusalCode } from '#kernel/refusal'
import { refusals } from '#refusals'

const TASKS = '`concord task-types` lists the tasks and their payloads.'
const TOOLS = '`concord task-types` lists the tasks and says which are open to agents.'
const MOVES = '`concord commands show <id>` says what can happen now, and who can do it.'
const INBOX = '`concord inbox` lists what waits for you.'
const USAGE = '`--help` after the command shows what it takes.'
const ELSEWHERE = 'CONCORD_WORKSPACE chooses the workspace.'

const hints: Partial<Record<RefusalCode, string>> = {
  task_unknown: TASKS,
  ingress_not_allowed: TASKS,
  'commands.tool.unknown': TOOLS,
  'commands.tool.forbidden': TOOLS,
  'commands.tool.ambiguous': TOOLS,
  'commands.payload.malformed': TASKS,
  'idempotency.key.required': 'Add --key <text>: the same text again is the same request.',
  'idempotency.field.missing': TASKS,
  key_in_progress: 'The first request with this --key is being written: try again in a second.',
  key_reused: 'Take another --key, or send what the first request sent.',
  'commands.command.not_found': `\`concord commands list\` shows those of this workspace. ${ELSEWHERE}`,
  'commands.command.not_waiting': MOVES,
  'commands.command.not_failed': MOVES,
  'commands.command.moved': MOVES,
  'commands.retry.exhausted': '`concord why <id>` says what went wrong; submit it again when that is mended.',
  'commands.action.not_allowed': MOVES,
  'connectors.notification.not_found': `\`concord notifications list\` shows yours. ${ELSEWHERE}`,
  mode_reserved: 'Use --mode graceful or --mode compensate_then_stop.',
  approval_decided: INBOX,
  approval_expired: INBOX,
  payload_changed: INBOX,
  'approvals.approval.cancelled': INBOX,
  'approvals.vote.repeated': INBOX,
  'approvals.approver.not_asked': '`concord inbox --all` says who was asked.',
  self_approval: 'Somebody who was asked decides, with a key of their own; `concord inbox --all` says who.',
  agents_cannot_decide: 'Use the key of a person.',
  'approvals.reason.missing': 'Add --reason "<why>".',
  'approvals.edits.not_allowed': 'Leave --edits out, or use `concord deny <id> --ask-changes --reason "<which>"`.',
  decision_value: INBOX,
  cursor_archived:
    'Add --skip-archived to get what is left; `concord history show <id>` tells the history of a command from the archive.',
  'connectors.connector.not_found': '`concord connectors list` shows them.',
  'schedules.schedule.not_found': `\`concord command-schedules list\` shows those of this workspace. ${ELSEWHERE}`,
  'schedules.command_type.unknown': TASKS,
  'schedules.schedule.too_many': 'Remove one that is not needed any more; `concord command-schedules list` shows them.',
  'memory.record.not_found': `\`concord memory search\` finds what is remembered. ${ELSEWHERE}`,
  'memory.candidate.not_found': `\`concord memory candidates\` shows what was proposed. ${ELSEWHERE}`,
  'memory.candidate.nothing_pending': '`concord memory candidates` shows what became of it.',
  'memory.consent.not_found': `\`concord memory consent list\` shows the consents. ${ELSEWHERE}`,
  'memory.hold.not_found': `\`concord memory hold list\` shows the holds. ${ELSEWHERE}`,
  'memory.forget.nothing_known': 'Look at how the subject is written: `concord memory search` shows it.',
  'identity.user.not_found': '`concord people list` shows everybody.',
  'identity.user.external_id_taken':
    '`concord people list` shows who is here already; --again makes them a new invitation.',
  'identity.org_role.not_found': 'Add --create to make the role, or use one that `concord people list` shows.',
  'identity.key.not_found': '`concord keys list` shows yours.',
  'api.field.missing': USAGE,
  'api.field.value': USAGE,
  unknown_field: USAGE,
  'api.route.not_found': 'Use the command line of the server’s version; `concord doctor` says which that is.',
  unauthenticated: 'Set CONCORD_KEY to a key of this server.',
  workspace_unknown: 'Set CONCORD_WORKSPACE to the id or the short name of a workspace of yours, or leave it out.',
  'identity.role.insufficient': '`concord keys create --role <role>` makes a key that may, from one that may.',
}

/** What is not there is looked for in the list of its own kind. */
const lists: readonly (readonly [string, string])[] = [
  ['/approvals', '`concord inbox --all` lists what is open in this workspace.'],
  ['/artifacts', '`concord artifacts list` shows those of this workspace.'],
  ['/commands', '`concord commands list` shows those of this workspace.'],
  ['/memory/candidates', '`concord memory candidates` shows what was proposed.'],
  ['/memory/consents', '`concord memory consent list` shows the consents.'],
  ['/memory/holds', '`concord memory hold list` shows the holds.'],
  ['/memory/records', '`concord memory search` finds what is remembered.'],
  ['/schedules', '`concord command-schedules list` shows those of this workspace.'],
]

/** Which verb lists what lies at a path. */
export function listOf(path: string): string | undefined {
  return lists.find(([prefix]) => path.startsWith(prefix))?.[1]
}

function whereToLook(path: string): string {
  const list = listOf(path)
  return list === undefined ? ELSEWHERE : `${list} ${ELSEWHERE}`
}

/** `path` is what the server was asked for. */
export function withHint(refusal: Refusal, path: string): Refusal {
  const known = refusal.code === 'row.not_found' ? whereToLook(path) : hints[refusal.code]
  if (known === undefined) return refusal
  const own = known.replaceAll('<id>', idIn(path) ?? '<id>')
  return { ...refusal, hint: isOfUse(refusal) ? `${refusal.hint?.replace(/[^.?!]$/, '$&.')} ${own}` : own }
}

/** Whoever named it need not put it together again. */
function idIn(path: string): string | undefined {
  return /^\/(?:commands|approvals)\/([a-z]+_[0-9a-f]{32})(?:\/|$)/.exec(path)?.[1]
}

/** What the server says in terms of routes and headers, or of any such refusal, is of no use beside what we know ourselves. */
function isOfUse({ code, hint }: Refusal): boolean {
  return hint !== undefined && hint !== refusals[code][1] && !/^((GET|POST|PATCH|DELETE) \/|Send )/.test(hint)
}
