/**
 * The step of a call that only reads, in the statement that inserts its command: the count of the steps, the event of the step and the observation. One
 * statement is one commit and one round trip; a transaction would take three.
 */
import type { JoinedInsert } from '#domains/commands'
import type { EventDraft, PgType } from '#store'
import { insertMessagesOf, type StoredAgentMessage } from './agent-message.ts'
import { runLog } from './events.ts'
import { type HeldRun, lockRunIf } from './read-run.ts'

/** The run before the step, and the observation. */
export type JoinedStep = HeldRun & { readonly message: StoredAgentMessage }

type StepInsert = {
  readonly agentRunId: string
  readonly token: string
  readonly stepCount: number
  readonly erasures: number
  /** As `toMessageRows` makes them. */
  readonly messages: string
  readonly event: EventDraft
}

const links = Object.entries(runLog.links)
const eventNames = [...runLog.columns.map(({ name }) => name), ...links.map(([name]) => name)].join(', ')
const eventTypes: readonly PgType[] = [...runLog.columns.map(({ type }) => type), ...links.map(([, type]) => type)]

/**
 * Nothing is written unless the turn of the token holds the run at work, with this number of steps and of erasures. The event of the step comes after those of the command. `is true`:
 * Postgres would look for the run among all that are running.
 */
function textOf([run, token, stepCount, erasures, messages, ...event]: readonly string[]) {
  return {
    before: `held as materialized (${lockRunIf(`t.turn_token = ${token} and (t.status = 'running') is true and t.step_count = ${stepCount} and t.erasures = ${erasures}`, run)})`,
    after: `counted as (
  update concord.agent_runs as t set step_count = t.step_count + 1 where t.agent_run_id = ${run} and exists (select from logged)
), stepped as (
  insert into ${runLog.table} (${eventNames}) select ${event.join(', ')} where exists (select from logged)
), observed as (${insertMessagesOf('held', run, `(${messages})::jsonb`)} and exists (select from logged) returning *)`,
    select: 'select h.*, to_jsonb(m) as message from opened as o, held as h, observed as m',
  }
}

export function joinStep({
  agentRunId,
  token,
  stepCount,
  erasures,
  messages,
  event,
}: StepInsert): JoinedInsert<JoinedStep> {
  return {
    name: 'agent_step',
    types: ['uuid', 'uuid', 'integer', 'integer', 'text', ...eventTypes],
    text: textOf,
    values: [
      agentRunId,
      token,
      stepCount,
      erasures,
      messages,
      ...runLog.columns.map(({ valueOf }) => valueOf(event)),
      ...links.map(([name]) => event.links?.[name]),
    ],
  }
}
