/** `concord submit`: submits one task and, with --wait, follows it until it ends or waits for people. */
import type { submittedView } from '#domains/commands'
import { formatAnswer } from './agents.ts'
import { askServer, fieldsOf } from './client.ts'
import { type CommandView, formatResult, withWhoAnswers } from './command-view.ts'
import { followCommand, judgeRest } from './follow-command.ts'
import { type JsonFlags, readJsonFlags } from './json-source.ts'
import { action, type Add, parseTime, type Said, type ViewOf, showAnswer } from './noun.ts'
import { type Cli, colorsOf, tint, type VerbResult, wordsOf } from './terminal.ts'
import { sayClock } from './times.ts'

type Submitted = ViewOf<typeof submittedView>
type SubmitOptions = JsonFlags & { key?: string; wait?: boolean; timeout?: number }

const WAIT_DEFAULT_MS = 600_000

export const submit = (cli: Cli): Add =>
  action({
    description: 'submit a task',
    args: [
      ['<task>', 'its name, or its command type; `concord task-types` lists them'],
      ['[-]', 'read the payload from standard input'],
    ],
    options: [
      ['--payload <json>', 'the payload, as a JSON object'],
      ['--file <file>', 'the payload, from a file'],
      ['--key <key>', 'idempotency key: requests with the same key count as one'],
      ['--wait', 'wait for the outcome; exits 0 if it succeeded, 65 if not, 75 if it waits for people'],
      ['--timeout <duration>', 'how long to wait, like 30s or 2h (default: 10m)', parseTime],
    ],
    examples: [
      `concord submit "Generate Report" --payload '{"report_type":"monthly_revenue","date_range":"2026-05"}' --wait`,
      'concord submit "Generate Report" --file report.json --key report:2026-05',
      'jq .report plan.json | concord submit "Generate Report" -',
    ],
    async run(task: string, input: string | undefined, options: SubmitOptions) {
      const payload = await readJsonFlags(cli.terminal, options, input)
      if (!payload.ok) return payload
      const body = fieldsOf({ task_name: task, payload: payload.value ?? {}, idempotency_key: options.key })
      const submitted = await askServer<Submitted>(cli, 'POST', '/commands', body)
      if (submitted.ok && options.wait === true)
        return awaitOutcome(cli, submitted.value, options.timeout ?? WAIT_DEFAULT_MS)
      const shown = await showAnswer(cli, submitted, saySubmitted)
      if (!shown.ok || !submitted.ok || submitted.value.status !== 'failed') return shown
      // The request was refused at once: what it says is its answer.
      const failed = await askServer<CommandView>(cli, 'GET', `/commands/${submitted.value.command_id}`)
      return failed.ok ? judgeRest(failed.value) : failed
    },
  })

/** The id alone on standard output, so that a script can keep it. */
export function saySubmitted({ command_id: id, status }: Submitted): Said {
  const next = `\`concord commands show ${id}\` shows its status, \`concord why ${id}\` the reasons`
  return [`${id}\n`, `${wordsOf(status)}; ${next}\n`]
}

export async function awaitOutcome(
  cli: Cli,
  { command_id: commandId }: Submitted,
  timeoutMs: number,
): Promise<VerbResult> {
  const { terminal } = cli
  const json = cli.isJson()
  const color = colorsOf(terminal)
  if (!json) terminal.out(`${commandId}\n`)
  const onStatus = ({ status, updated_at }: CommandView) => {
    if (!json) terminal.out(`${color.dim(sayClock(terminal, updated_at))}  ${tint(terminal, wordsOf(status))}\n`)
  }
  const rested = await followCommand(terminal, { commandId, timeoutMs, onStatus })
  if (!rested.ok) return rested
  if (json) terminal.out(`${JSON.stringify(rested.value)}\n`)
  else if (rested.value.result !== null)
    terminal.out(`${formatResult(terminal, rested.value.result)}${await formatAnswer(cli, rested.value.result)}`)
  const judged = judgeRest(rested.value)
  if (judged.ok || rested.value.status !== 'waiting_for_approval') return judged
  return withWhoAnswers(cli, judged, commandId)
}
