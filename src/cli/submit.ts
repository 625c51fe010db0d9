/** `concord submit`: asks for one governed thing, with a payload that is checked before it is sent, and waits for it if told to. */
import { type Command, InvalidArgumentError } from 'commander'
import { MAX_TIMER_MS, parseDuration } from '#kernel/duration'
import { accept } from '#kernel/refusal'
import { askServer, fieldsOf, isJson } from './ask-server.ts'
import { type CommandView, shortJson, wordsOf } from './command-view.ts'
import { followCommand, judgeRest } from './follow-command.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { type Cli, colorsOf, type Outcome } from './terminal.ts'
import { withWhoAnswers } from './who-answers.ts'

type Submitted = { readonly command_id: string; readonly status: string }
type SubmitOptions = JsonFlags & { key?: string; wait?: boolean; timeout?: number }

const WAIT_DEFAULT_MS = 600_000

export function addSubmit(program: Command, cli: Cli): void {
  program
    .command('submit')
    .argument('<task>', 'its name, or its command type; `concord task-types` lists them')
    .argument('[-]', 'read the payload from standard input')
    .description('ask for a task')
    .option('--payload <json>', 'the payload, as a JSON object')
    .option('--file <file>', 'the payload, from a file')
    .option('--key <key>', 'idempotency key: the same key again is the same request')
    .option('--wait', 'wait until it rests; exits 0 if it succeeded, 65 if not, 75 if somebody is to be asked first')
    .option('--timeout <duration>', 'how long to wait, like 30s or 2h (default: 10m)', parseTimeout)
    .addHelpText(
      'after',
      `
Examples:
  $ concord submit "Generate Report" --payload '{"report_type":"monthly_revenue","date_range":"2026-05"}' --wait
  $ concord submit "Generate Report" --file report.json --key report:2026-05
  $ jq .report plan.json | concord submit "Generate Report" -
`,
    )
    .action(
      cli.handle(async (task: string, input: string | undefined, options: SubmitOptions) => {
        const payload = await readJsonFlags(cli.terminal, options, input)
        if (!payload.ok) return payload
        const body = fieldsOf({ task_name: task, payload: payload.value ?? {}, idempotency_key: options.key })
        const submitted = await askServer<Submitted>(cli, 'POST', '/commands', body)
        if (!submitted.ok) return submitted
        if (options.wait === true) return waitFor(cli, program, submitted.value, options.timeout ?? WAIT_DEFAULT_MS)
        if (isJson(program)) cli.terminal.out(`${JSON.stringify(submitted.value)}\n`)
        else say(cli, submitted.value)
        return accept(undefined)
      }),
    )
}

/** The id alone on standard output, so that a script can keep it. */
function say({ terminal }: Cli, { command_id: id, status }: Submitted): void {
  terminal.out(`${id}\n`)
  terminal.err(`${wordsOf(status)}; \`concord commands show ${id}\` says where it stands, \`concord why ${id}\` why\n`)
}

async function waitFor(
  cli: Cli,
  program: Command,
  { command_id: commandId }: Submitted,
  timeoutMs: number,
): Promise<Outcome> {
  const { terminal } = cli
  const json = isJson(program)
  const color = colorsOf(terminal)
  if (!json) terminal.out(`${commandId}\n`)
  const onStatus = ({ status, updated_at }: CommandView) => {
    if (!json) terminal.out(`${color.dim(updated_at)}  ${color.bold(wordsOf(status))}\n`)
  }
  const rested = await followCommand(terminal, { commandId, timeoutMs, onStatus })
  if (!rested.ok) return rested
  if (json) terminal.out(`${JSON.stringify(rested.value)}\n`)
  else if (rested.value.result !== null) terminal.out(`result  ${shortJson(rested.value.result, 2_000)}\n`)
  const judged = judgeRest(rested.value)
  if (judged.ok || rested.value.status !== 'waiting_for_approval') return judged
  return withWhoAnswers(cli, judged, commandId)
}

function parseTimeout(text: string): number {
  const duration = parseDuration(text)
  if (!duration.ok) throw new InvalidArgumentError(duration.reason)
  if (duration.value > MAX_TIMER_MS) throw new InvalidArgumentError('it waits at most 24d')
  return duration.value
}
