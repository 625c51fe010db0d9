/** Says of a command that waits for people who they are and how each of them answers. */
import type { Refusal } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer } from './ask-server.ts'
import { type Page, queryOf } from './command-view.ts'
import type { ApprovalView } from './inbox.ts'
import type { Cli } from './terminal.ts'

/** Where the server does not tell, the hint stays as it was: it is right, only less exact. */
export async function withWhoAnswers(cli: Cli, waiting: Refusal, commandId: string): Promise<Refusal> {
  const lines = await listWhoAnswers(cli, commandId)
  return lines.length === 0 ? waiting : { ...waiting, hint: lines.join('\n') }
}

/** One line for each who is asked and has not answered. */
export async function listWhoAnswers(cli: Cli, commandId: string): Promise<string[]> {
  const path = `/approvals${queryOf({ command_id: commandId, status: 'pending' })}`
  const listed = await askServer<Page<ApprovalView>>(cli, 'GET', path)
  return listed.ok ? listed.value.items.map(sayHow) : []
}

function sayHow({ approval_id: id, approver, approver_name, may_decide, blocked_by }: ApprovalView): string {
  // Nobody answers: whoever waits must not be told that somebody does.
  if (blocked_by) return `${showLine(blocked_by.reason)} To do: ${showLine(blocked_by.hint)}`
  const who = may_decide ? 'You answer' : `${showLine(approver_name ?? approver)} answers`
  return `${who} with \`concord approve ${id}\` or \`concord deny ${id} --reason "…"\`.`
}
