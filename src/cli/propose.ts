/** `concord propose`: proposes a tool call as an agent would and exits with the decision. */
import { InvalidArgumentError } from 'commander'
import type { actionView } from '#domains/commands'
import { type RiskLevel, riskLevels } from '#kernel/policy/policy'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf } from './client.ts'
import { withWhoAnswers } from './command-view.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { action, type Add, type ViewOf, showAnswer } from './noun.ts'
import type { Cli } from './terminal.ts'

type Proposed = Pick<ViewOf<typeof actionView>, 'decision' | 'command_id' | 'approval_id' | 'status' | 'message'>
type ProposeOptions = JsonFlags & { reason: string; key?: string; risk?: RiskLevel }

export const propose = (cli: Cli): Add =>
  action({
    description:
      'propose a tool call as an agent; exits 0 if it is allowed, 65 if it is denied or failed, 75 if it waits',
    args: [
      ['<tool>', 'a task that agents may propose: its name, its slug or its function'],
      ['[-]', 'read the payload from standard input'],
    ],
    required: [['--reason <text>', 'the reason; the approver sees it']],
    options: [
      ['--payload <json>', 'the payload, as a JSON object'],
      ['--file <file>', 'the payload, from a file'],
      ['--risk <level>', `${riskLevels.join(', ')}: it can only raise the level of the tool`, parseRisk],
      ['--key <key>', 'idempotency key: proposals with the same key count as one'],
    ],
    examples: [
      `concord propose undo_command --payload '{"command_id":"cmd_…"}' --reason "Half of the booking failed."`,
      'concord propose publish_report --file letter.json --reason "Finance waits for it." --key run-17:step-3 --json',
    ],
    async run(tool: string, input: string | undefined, options: ProposeOptions) {
      const payload = await readJsonFlags(cli.terminal, options, input)
      if (!payload.ok) return payload
      const { reason, risk, key } = options
      const body = { tool_name: tool, payload: payload.value ?? {}, reason, risk_level: risk, idempotency_key: key }
      const proposed = await askServer<Proposed>(cli, 'POST', '/agent-actions', fieldsOf(body))
      // The id alone on standard output, so that a script can keep it.
      const shown = await showAnswer(cli, proposed, ({ command_id }) => `${command_id}\n`)
      if (!shown.ok || !proposed.ok) return shown
      const judged = judgeDecision(proposed.value)
      if (judged.ok && !cli.isJson()) cli.terminal.err(sayAllowed(proposed.value))
      if (judged.ok || proposed.value.status !== 'waiting_for_approval') return judged
      return withWhoAnswers(cli, judged, proposed.value.command_id)
    },
  })

function sayAllowed({ command_id: id, message, status }: Proposed): string {
  const next = status === 'succeeded' ? '' : `; \`concord commands show ${id}\` shows its status`
  return `${showLine(message).replace(/\.$/, next === '' ? '.' : '')}${next}\n`
}

const endedWithoutSuccess = ['failed', 'cancelled', 'expired', 'compensated']

/** Accepts only what was allowed or has succeeded: a script must not continue while people still have to decide. */
function judgeDecision({ decision, command_id: id, approval_id, message, status }: Proposed): Decision<undefined> {
  const facts = { command_id: id, approval_id, decision, status }
  if (status === 'succeeded') return accept(undefined)
  if (decision !== 'deny' && endedWithoutSuccess.includes(status))
    return refuse('cli.command.not_succeeded', message, {
      hint: `\`concord why ${id}\` explains why.`,
      facts,
    })
  switch (decision) {
    case 'allow':
    case 'route':
      return accept(undefined)
    case 'deny':
      return refuse('cli.command.not_succeeded', message, {
        hint: `\`concord why ${id}\` shows what denied it: a rule, or the contract of the payload.`,
        facts,
      })
    case 'require_approval':
    case 'escalate': {
      const hint = `They answer with \`concord approve ${approval_id ?? '<id>'}\` or \`concord deny\`; \`concord commands show ${id}\` shows its status.`
      return refuse('cli.command.waiting', message, { hint, facts })
    }
    case 'require_more_input': {
      const hint = `\`concord commands input ${id} --payload '{…}'\` supplies what is missing.`
      return refuse('cli.command.waiting', message, { hint, facts })
    }
    case 'delay':
    case null:
      return refuse('cli.command.waiting', message, {
        hint: `\`concord commands show ${id}\` shows its status.`,
        facts,
      })
  }
}

function parseRisk(text: string): RiskLevel {
  const level = riskLevels.find((known) => known === text)
  if (level) return level
  throw new InvalidArgumentError(`${quote(text)} is not a risk level. Use one of ${riskLevels.join(', ')}.`)
}
