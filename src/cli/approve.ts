/** `concord approve` and `concord deny`: one decision of one person about one approval. */
import type { Command } from 'commander'
import { decodeId } from '#kernel/ids'
import { type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, pathOf, showAnswer } from './ask-server.ts'
import { sayStatus } from './command-view.ts'
import type { ApprovalView } from './inbox.ts'
import { parseNamed } from './json-source.ts'
import type { Cli, Outcome, Terminal } from './terminal.ts'

type ResolvedView = ApprovalView & { readonly next: string }

const ID = 'appr_0197f3b2c4d57a8e9b0c1d2e3f405165'

export function addApprove(program: Command, cli: Cli): void {
  program
    .command('approve <id>')
    .description('say yes to what `concord inbox` shows')
    .option('--reason <text>', 'why, for the record')
    .option('--edits <json>', 'arguments to replace, by name; what changes is judged again before it runs')
    .addHelpText(
      'after',
      `\nExamples:\n  $ concord approve ${ID} --reason "within the budget"\n  $ concord approve ${ID} --edits '{"amount":"80.00"}'\n`,
    )
    .action(
      cli.handle(async (id: string, { reason, edits }: { reason?: string; edits?: string }) => {
        const parsed = edits === undefined ? undefined : parseNamed('--edits', edits)
        if (parsed && !parsed.ok) return parsed
        return decide(cli, program, id, { decision: 'approved', reason, edits: parsed?.value })
      }),
    )

  program
    .command('deny <id>')
    .description('say no to what `concord inbox` shows')
    .requiredOption('--reason <text>', 'why; the requester reads it')
    .option('--ask-changes', 'ask the requester for changes instead of ending it')
    .addHelpText('after', `\nExample:\n  $ concord deny ${ID} --reason "the budget is used up"\n`)
    .action(
      cli.handle(async (id: string, { reason, askChanges }: { reason: string; askChanges?: boolean }) => {
        if (reason.trim() === '') {
          return refuse('cli.usage', 'a no without a reason helps nobody', { path: '--reason', hint: 'say why' })
        }
        return decide(cli, program, id, { decision: askChanges === true ? 'request_changes' : 'rejected', reason })
      }),
    )
}

async function decide(
  cli: Cli,
  program: Command,
  id: string,
  answer: Readonly<Record<string, unknown>>,
): Promise<Outcome> {
  const path = pathOf('approval', id, '/resolve')
  if (!path.ok) return path
  const resolved: Decision<ResolvedView> = await askServer(cli, 'POST', path.value, fieldsOf(answer))
  return showAnswer(cli, program, resolved, (approval) => say(cli.terminal, id, approval))
}

const whatNow: Readonly<Record<string, string>> = {
  run_command: 'the command goes on',
  fail_command: 'the command ends as failed',
  fail_or_replan: 'the command ends as failed; whoever wants another plan submits a new one',
  ask_for_input: 'the requester is asked for changes',
  effect_happened: 'the effect counts as done',
  effect_did_not_happen: 'the effect counts as not done',
}

function say(terminal: Terminal, asked: string, approval: ResolvedView): void {
  const { approval_id: id, command_id: commandId, status, next } = approval
  const why = `\`concord why ${commandId}\` tells the chain\n`
  if (status === 'pending') {
    const { approved_by, approvals_required, approver } = approval
    if (!isSame(id, asked)) {
      terminal.out(`${id}\n`)
      terminal.err(
        `changed, so it is asked again, of ${showLine(approval.approver_name ?? approver)}: \`concord approve ${id}\`\n`,
      )
    } else {
      terminal.out(`${id} counted: ${approved_by.length} of ${approvals_required} have approved\n`)
    }
    return
  }
  terminal.out(`${id} ${sayStatus(status)}\n`)
  terminal.err(`${whatNow[next] ?? 'others have to agree'}; ${why}`)
}

/** The same row, whichever of the two forms of an id was typed. */
function isSame(left: string, right: string): boolean {
  const [one, other] = [decodeId('approval', left), decodeId('approval', right)]
  return one.ok && other.ok && one.value === other.value
}
