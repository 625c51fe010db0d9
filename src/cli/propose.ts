/** `concord propose`: asks for a tool as an agent would, says what was decided, and exits with it. */
import { type Command, InvalidArgumentError } from 'commander'
import { type RiskLevel, riskLevels } from '#kernel/policy/risk'
import type { PolicyDecision } from '#kernel/policy/rule'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer, fieldsOf, isJson } from './ask-server.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import type { Cli } from './terminal.ts'
import { withWhoAnswers } from './who-answers.ts'

type Proposed = {
  readonly decision: PolicyDecision | null
  readonly command_id: string
  readonly approval_id: string | null
  readonly status: string
  readonly message: string
}
type ProposeOptions = JsonFlags & { reason: string; key?: string; risk?: RiskLevel }

export function addPropose(program: Command, cli: Cli): void {
  program
    .command('propose')
    .argument('<tool>', 'a task that is open to agents: its name, its slug or its function')
    .argument('[-]', 'read the payload from standard input')
    .description(
      'propose a tool call as an agent; exits 0 if it was allowed, 65 if it was denied or failed, 75 if it waits',
    )
    .requiredOption('--reason <text>', 'why; shown to whoever has to approve it')
    .option('--payload <json>', 'the payload, as a JSON object')
    .option('--file <file>', 'the payload, from a file')
    .option('--risk <level>', `${riskLevels.join(', ')}: it can only raise the level of the tool`, parseRisk)
    .option('--key <key>', 'idempotency key: the same key again is the same proposal')
    .addHelpText(
      'after',
      `
Examples:
  $ concord propose compensate_command --payload '{"command_id":"cmd_…"}' --reason "Half of the booking failed."
  $ concord propose publish_report --file letter.json --reason "Finance waits for it." --key run-17:step-3 --json
`,
    )
    .action(
      cli.handle(async (tool: string, input: string | undefined, options: ProposeOptions) => {
        const payload = await readJsonFlags(cli.terminal, options, input)
        if (!payload.ok) return payload
        const { reason, risk, key } = options
        const body = { tool_name: tool, payload: payload.value ?? {}, reason, risk_level: risk, idempotency_key: key }
        const proposed = await askServer<Proposed>(cli, 'POST', '/agent-actions', fieldsOf(body))
        if (!proposed.ok) return proposed
        // Without --json the id alone, so that a script can keep it.
        if (isJson(program)) cli.terminal.out(`${JSON.stringify(proposed.value)}\n`)
        else cli.terminal.out(`${proposed.value.command_id}\n`)
        const judged = judgeDecision(proposed.value)
        if (judged.ok && !isJson(program)) cli.terminal.err(sayAllowed(proposed.value))
        if (judged.ok || proposed.value.status !== 'waiting_for_approval') return judged
        return withWhoAnswers(cli, judged, proposed.value.command_id)
      }),
    )
}

function sayAllowed({ command_id: id, message, status }: Proposed): string {
  const next = status === 'succeeded' ? '' : `; \`concord commands show ${id}\` says where it stands`
  return `${showLine(message).replace(/\.$/, next === '' ? '.' : '')}${next}\n`
}

const endedInVain = ['failed', 'cancelled', 'expired', 'compensated']

/**
 * Zero only for what was allowed: a script must not go on while somebody is still to be asked. Where a key had made the proposal
 * before, it may be over by now, whoever had to be asked for it.
 */
export function judgeDecision({
  decision,
  command_id: id,
  approval_id,
  message,
  status,
}: Proposed): Decision<undefined> {
  const facts = { command_id: id, approval_id, decision, status }
  if (status === 'succeeded') return accept(undefined)
  if (decision !== 'deny' && endedInVain.includes(status))
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
        hint: `\`concord why ${id}\` says by whom: a rule, or the contract of the payload.`,
        facts,
      })
    case 'require_approval':
    case 'escalate': {
      const hint = `They answer with \`concord approve ${approval_id ?? '<id>'}\` or \`concord deny\`; \`concord commands show ${id}\` says where it stands.`
      return refuse('cli.command.waiting', message, { hint, facts })
    }
    case 'require_more_input': {
      const hint = `\`concord commands input ${id} --payload '{…}'\` gives what is missing.`
      return refuse('cli.command.waiting', message, { hint, facts })
    }
    case 'delay':
    case null:
      return refuse('cli.command.waiting', message, {
        hint: `\`concord commands show ${id}\` says where it stands.`,
        facts,
      })
  }
}

function parseRisk(text: string): RiskLevel {
  const level = riskLevels.find((known) => known === text)
  if (level) return level
  throw new InvalidArgumentError(`${quote(text)} is no level; one of ${riskLevels.join(', ')}`)
}
