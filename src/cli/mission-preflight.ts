/** `concord missions preflight`: shows what a plan, or the rest of a mission, will need. */
import type { missionPreflightView } from '#domains/missions'
import { accept, type Decision, refuse } from '#kernel/refusal'
import { describeDuration } from '#kernel/duration'
import { askServer, pathOf } from './client.ts'
import { type Add, table, type TableColumns, verb, type ViewOf } from './noun.ts'
import { readConfigFlag, readPlanFile, withPlan } from './plan-file.ts'
import type { Cli, Terminal } from './terminal.ts'

type Preflight = ViewOf<typeof missionPreflightView>

export const missionPreflight = (cli: Cli, id: string): Add =>
  verb({
    description: 'show what a plan or a mission will need: approvals, cost, irreversible effects, what is missing',
    args: [['<plan>', 'a file with a plan: JSON, .yaml, or .ndjson; - for standard input; or the id of a mission']],
    options: [['--config <json>', 'settings for a plan, as a JSON object']],
    examples: ['concord missions preflight plan.json', `concord missions preflight ${id} --json`],
    async ask(source: string, { config }: { config?: string }) {
      if (source.startsWith('mission_'))
        return askServer<Preflight>(cli, 'POST', pathOf('mission', source, '/preflight'))
      const plan = await readPlanFile(cli.terminal, source)
      if (!plan.ok) return plan
      const settings = readConfigFlag(config)
      if (!settings.ok) return settings
      const body = withPlan({ config: settings.value ?? {} }, plan.value)
      return askServer<Preflight>(cli, 'POST', '/missions/preflight', body)
    },
    say: (found) => formatPreflight(cli.terminal, found),
    judge: judgeReady,
  })

/** A script that goes on after a pre-flight must not go on without what is missing. */
function judgeReady({ is_ready, missing }: Preflight): Decision<undefined> {
  return is_ready
    ? accept(undefined)
    : refuse('cli.preflight.not_ready', `The plan is not ready: ${missing.length} missing.`)
}

const SHOWN = 5
const sayTasks = ({ tasks }: { readonly tasks: readonly string[] }) => {
  const more = tasks.length > SHOWN ? [`${tasks.length - SHOWN} more`] : []
  return tasks.length === 0 ? 'the mission' : [...tasks.slice(0, SHOWN), ...more].join(', ')
}

const approvals: TableColumns<Preflight['approvals'][number]> = {
  'approval of': sayTasks,
  when: ({ when }) => (when === 'always' ? 'always' : 'for some results'),
  by: ({ approver, approvals_required: count }) => (count > 1 ? `${count} of ${approver}` : approver),
  'can decide today': ({ could_decide, blocked_by }) =>
    blocked_by ? `nobody: ${blocked_by.reason}` : could_decide.join(', '),
  'usual wait': ({ usual_wait_ms: ms }) => (ms === null ? 'not known' : describeDuration(ms)),
}
const effects: TableColumns<Preflight['irreversible'][number]> = {
  'irreversible effect': ({ effect_type }) => effect_type,
  of: sayTasks,
  reason: ({ reason }) => reason,
}
const missing: TableColumns<Preflight['missing'][number]> = {
  missing: ({ kind, name }) => `${kind} ${name}`,
  'needed by': sayTasks,
  reason: ({ reason }) => reason,
}
const unknown: TableColumns<Preflight['unknown'][number]> = {
  unknown: ({ what }) => what,
  of: sayTasks,
  until: ({ until }) => until,
}

function formatPreflight(terminal: Terminal, found: Preflight): string {
  const { is_ready, tasks, spend } = found
  const limit = spend.limit === null ? 'no hard limit' : `hard limit ${spend.limit}`
  const part = <Row>(columns: TableColumns<Row>, rows: readonly Row[]) =>
    rows.length === 0 ? [] : [table(terminal, columns, rows, { long: 'wrap' })]
  return [
    `${is_ready ? 'ready' : 'not ready'}; ${tasks} ${tasks === 1 ? 'task' : 'tasks'}\n`,
    `cost: at most ${spend.worst_case ?? 'unknown'}; ${limit}; first attempts ${spend.first_attempts}, with retries ${spend.all_attempts}\n`,
    ...part(approvals, found.approvals),
    ...part(effects, found.irreversible),
    ...part(missing, found.missing),
    ...part(unknown, found.unknown),
  ].join('\n')
}
