/** `concord preflight`: shows what a task will need before it starts. */
import type { preflightView } from '#domains/agents'
import type { submittedView } from '#domains/commands'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { showLine } from '#kernel/visible-text'
import { askServer } from './client.ts'
import { type JsonFlags, parseNamed, readJsonFlags } from './json-source.ts'
import { action, type Add, showAnswer, table, type TableColumns, type ViewOf } from './noun.ts'
import { saySubmitted } from './submit.ts'
import type { Cli, Terminal } from './terminal.ts'

type Preflight = ViewOf<typeof preflightView>
type Submitted = ViewOf<typeof submittedView>
type Options = JsonFlags & { readonly envelope?: string }
type Approval = Preflight['approvals'][number]

export const preflight = (cli: Cli): Add =>
  action({
    description: 'show what a task will need before it starts: approvals, cost, irreversible effects, what is missing',
    args: [
      ['<task>', 'its name, or its command type; `concord task-types` lists them'],
      ['[-]', 'read the payload from standard input'],
    ],
    options: [
      ['--payload <json>', 'the payload, as a JSON object'],
      ['--file <file>', 'the payload, from a file'],
      ['--envelope <json>', 'start it: ask once for the approval of these calls, which then ask no more'],
    ],
    examples: [
      `concord preflight "Investigate Revenue" --payload '{"month":"2026-05"}'`,
      'concord preflight "Pay Supplier" --file payment.json --json',
      `concord preflight "Investigate Revenue" --payload '{"month":"2026-05"}' --envelope '{"calls":[{"tool":"publish_report","calls_max":1,"arguments":{"text":"any"}}]}'`,
    ],
    async run(task: string, input: string | undefined, options: Options) {
      const payload = await readJsonFlags(cli.terminal, options, input)
      if (!payload.ok) return payload
      const body = { task_name: task, payload: payload.value ?? {} }
      if (options.envelope !== undefined) {
        const envelope = parseNamed('--envelope', options.envelope)
        if (!envelope.ok) return envelope
        const asked = await askServer<Submitted>(cli, 'POST', '/preflights', { ...body, envelope: envelope.value })
        return showAnswer(cli, asked, saySubmitted)
      }
      const answer = await askServer<Preflight>(cli, 'POST', '/preflights', body)
      const shown = await showAnswer(cli, answer, (found) => formatPreflight(cli.terminal, found))
      return shown.ok && answer.ok ? judgeReady(answer.value) : shown
    },
  })

/** A script that goes on after a pre-flight must not go on without what is missing. */
function judgeReady({ is_ready, task_name, error }: Preflight): Decision<undefined> {
  return is_ready
    ? accept(undefined)
    : refuse('cli.preflight.not_ready', `${showLine(task_name)} is not ready${error === null ? '' : `: ${error}`}.`)
}

const conditions: Readonly<Record<Approval['when'], string>> = {
  always: 'always',
  arguments: 'for some arguments',
  untrusted_content: 'after untrusted content',
}

const approvalColumns: TableColumns<Approval> = {
  approval: ({ needed_by }) => needed_by,
  when: ({ when }) => conditions[when],
  by: ({ approver, approvals_required: count }) => (count > 1 ? `${count} of ${approver}` : approver),
  'can decide today': ({ could_decide, blocked_by }) =>
    blocked_by ? `nobody: ${blocked_by.reason}` : could_decide.join(', '),
}

const effectColumns: TableColumns<Preflight['irreversible'][number]> = {
  'irreversible effect': ({ effect_type }) => effect_type,
  of: ({ needed_by }) => needed_by,
  reason: ({ reason }) => reason,
}

const missingColumns: TableColumns<Preflight['missing'][number]> = {
  missing: ({ kind, name }) => `${kind} ${name}`,
  'needed by': ({ needed_by }) => needed_by,
  reason: ({ reason }) => reason,
}

const unknownColumns: TableColumns<Preflight['unknown'][number]> = {
  unknown: ({ what }) => what,
  until: ({ until }) => until,
}

function formatPreflight(terminal: Terminal, found: Preflight): string {
  const { task_name, is_ready, error, missing_fields, spend } = found
  const why = [error, missing_fields.length > 0 ? `missing: ${missing_fields.join(', ')}` : null].filter(Boolean)
  const head = `${showLine(task_name)}: ${is_ready ? 'ready' : 'not ready'}${why.length > 0 ? `; ${showLine(why.join('; '))}` : ''}\n`
  const part = <Row>(columns: TableColumns<Row>, rows: readonly Row[]) =>
    rows.length === 0 ? [] : [table(terminal, columns, rows, { long: 'wrap' })]
  return [
    head,
    ...(spend ? [`cost: ${saySpend(spend)}\n`] : []),
    ...part(approvalColumns, found.approvals),
    ...part(effectColumns, found.irreversible),
    ...part(missingColumns, found.missing),
    ...part(unknownColumns, found.unknown),
  ].join('\n')
}

function saySpend({ limit_units, call_units, calls_max, worst_case_units }: NonNullable<Preflight['spend']>): string {
  const limit = limit_units === null ? 'no limit' : `limit ${limit_units}`
  const calls = call_units === null ? [] : [`up to ${call_units} a call, ${calls_max} steps`]
  const isShort = limit_units !== null && call_units !== null && Number(call_units) > Number(limit_units)
  const short = isShort ? ['the limit does not pay for one call, so the first asks for more'] : []
  return [`at most ${worst_case_units ?? 'unknown'} units`, limit, ...calls, ...short].join('; ')
}
