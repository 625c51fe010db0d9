/** Rewrites the hints of the server for the command line: routes become verbs, and some codes get the flag to add. */
import type { IdKind } from '#kernel/ids'
import type { Refusal, RefusalCode } from '#kernel/refusal'
import { hintOf } from '#refusals'

type Home = { readonly at: string; readonly one: string; readonly list: string }

/** The route of each kind of resource, and the verb that lists it. */
export const homes = {
  command: { at: '/commands', one: 'a command', list: '`concord commands list` shows the ids of commands.' },
  approval: { at: '/approvals', one: 'an approval', list: '`concord inbox --all` shows the ids of approvals.' },
  artifact: { at: '/artifacts', one: 'an artifact', list: '`concord artifacts list` shows the ids of artifacts.' },
  memory: { at: '/memory/records', one: 'a memory', list: '`concord memory search` shows the ids of memories.' },
  memory_candidate: {
    at: '/memory/candidates',
    one: 'a memory candidate',
    list: '`concord memory candidates` shows the ids of candidates.',
  },
  memory_consent: {
    at: '/memory/consents',
    one: 'a memory consent',
    list: '`concord memory consent list` shows the ids of consents.',
  },
  memory_hold: {
    at: '/memory/holds',
    one: 'a memory hold',
    list: '`concord memory hold list` shows the ids of holds.',
  },
  memory_erasure: {
    at: '/memory/erasures',
    one: 'a memory erasure',
    list: '`concord memory forget --yes` printed the id.',
  },
  connector_invocation: {
    at: '/notifications',
    one: 'a message',
    list: '`concord notifications list` shows the ids of messages.',
  },
  budget: {
    at: '/budgets',
    one: 'a budget',
    list: 'A run and its budget have the same digits in their ids.',
  },
  mission: { at: '/missions', one: 'a mission', list: '`concord missions list` shows the ids of missions.' },
  flow_task: { at: '/flow/tasks', one: 'a task of a job', list: '`concord flow tasks` shows the ids of tasks.' },
  swarm_run: { at: '/swarms', one: 'a swarm', list: '`concord swarms list` shows the ids of swarms.' },
  command_schedule: {
    at: '/schedules',
    one: 'a schedule',
    list: '`concord schedules list` shows the names and ids of schedules.',
  },
  agent_run: { at: '/agent-runs', one: 'an agent run', list: '`concord agents list` shows the ids of runs.' },
  stop: { at: '/stops', one: 'a stop', list: '`concord stop` shows the ids of stops.' },
} as const satisfies Partial<Record<IdKind, Home>>
export type ServerKind = keyof typeof homes

/** Longer routes first: the first match wins. */
const verbs: readonly (readonly [route: string, verb: string])[] = [
  ['GET /missions', 'concord missions list'],
  ['GET /recipes', 'concord recipes list'],
  ['GET /flow/dags', 'concord flow dags'],
  ['GET /flow/jobs', 'concord flow jobs'],
  ['GET /flow/tasks', 'concord flow tasks'],
  ['GET /board', 'concord board'],
  ['POST /memory', 'concord memory propose'],
  ['GET /memory/candidates/{id}', 'concord memory candidates'],
  ['GET /memory/candidates', 'concord memory candidates'],
  ['GET /memory/consents', 'concord memory consent list'],
  ['GET /memory/holds', 'concord memory hold list'],
  ['GET /memory', 'concord memory search'],
  ['GET /agent-runs', 'concord agents list'],
  ['GET /swarms', 'concord swarms list'],
  ['GET /task-types', 'concord task-types'],
  ['GET /schedules', 'concord schedules list'],
  ['GET /commands', 'concord commands list'],
  ['GET /model-quarantines', 'concord budgets quarantines'],
  ['GET /connectors', 'concord connectors list'],
  ['GET /notifications', 'concord notifications list'],
  ['GET /people', 'concord people list'],
  ['GET /keys', 'concord keys list'],
  ['GET /stops', 'concord stop'],
]

const MOVES = '`concord commands show <id>` shows what can happen now and who can do it.'
const MISSION = '`concord missions show <id>` shows what can happen now and who can do it.'
const INBOX = '`concord inbox` lists what is waiting for you.'
const USAGE = 'Add --help to see the arguments and options.'

/** Hints that name a flag, a setting or a verb; the server's hints cannot name them. */
const own: Partial<Record<RefusalCode, string>> = {
  'idempotency.key.required': 'Add --key <text>; requests with the same key count as one.',
  'idempotency.field.missing': '`concord task-types` lists the tasks and their payloads.',
  key_in_progress: 'The first request with this --key is still being written. Try again in a second.',
  key_reused: 'Use another --key, or send what the first request sent.',
  'commands.command.not_waiting': MOVES,
  'commands.command.not_failed': MOVES,
  'commands.command.moved': MOVES,
  'commands.action.not_allowed': MOVES,
  'commands.undo.not_ended': MOVES,
  'commands.undo.nothing_left': '`concord undo <id> --preview` says of each effect why it stays.',
  'commands.cancel.succeeded':
    '`concord undo <id>` requests the undo of its effects; `concord undo <id> --preview` shows what would be undone.',
  'commands.retry.exhausted': '`concord why <id>` shows what went wrong. Fix the cause and submit the command again.',
  'flow.dag.not_found': '`concord flow dags` lists the DAGs that serve.',
  'flow.dag.version_unknown': '`concord flow versions <dag>` lists the versions of a DAG.',
  'flow.task.wrong_state': '`concord flow why <id>` shows why the task has its status.',
  'missions.mission.wrong_state': MISSION,
  'missions.budget.fixed': MISSION,
  'missions.budget.too_low': `${MISSION} Give a limit above the cost and above the old limit.`,
  'missions.task.wrong_state': '`concord missions why <id> <task>` shows where the task stands.',
  'missions.plan.invalid': 'Correct every finding, then give the plan again.',
  'missions.plan.stale':
    'Read the plan again with `concord missions show <id> --json`, change it, and give it with the next version.',
  'missions.fork.effects_stand': 'Name their tasks with --refire, or undo the effects first.',
  'missions.recipe.variables': 'Give a value for each with --var name=value, and no others.',
  mode_reserved: 'Use --mode graceful or --mode compensate_then_stop.',
  approval_decided: INBOX,
  approval_expired: INBOX,
  payload_changed: INBOX,
  'approvals.approval.cancelled': INBOX,
  'approvals.vote.repeated': INBOX,
  decision_value: INBOX,
  'approvals.approver.not_asked': '`concord inbox --all` shows who was asked.',
  self_approval: 'Another eligible person decides with their own key. `concord inbox --all` shows who.',
  agents_cannot_decide: 'Use the key of a person.',
  'approvals.reason.missing': 'Add --reason "<why>".',
  'approvals.edits.not_allowed': 'Leave --edits out, or use `concord deny <id> --ask-changes --reason "<which>"`.',
  cursor_archived:
    'Add --skip-archived to read the remaining events. `concord history show <id>` shows the history of a command from the archive.',
  'memory.erasure.not_found': '`concord memory forget --yes` printed the id.',
  'identity.user.external_id_taken':
    '`concord people list` shows who is already here; --again creates a new invitation for them.',
  'identity.org_role.not_found': 'Add --create to create the role, or use one that `concord people list` shows.',
  'api.field.missing': USAGE,
  'api.field.value': USAGE,
  unknown_field: USAGE,
  'api.route.closed_to_agents':
    '`concord propose <tool>` proposes an action; everything else needs the key of a person.',
  'api.route.not_found':
    'Install the command line with the same version as the server; `concord doctor` shows that version.',
  unauthenticated: 'Set CONCORD_KEY to a key of this server.',
  workspace_unknown: 'Set CONCORD_WORKSPACE to the id or short name of one of your workspaces, or leave it out.',
  'identity.role.insufficient':
    '`concord keys create --role <role>` creates a key with that role; run it with such a key.',
}

/** Keeps the specific hint of the server and adds the next step for the command line. `path` is the requested route. */
export function withHint(refusal: Refusal, path: string): Refusal {
  const { code, hint } = refusal
  const home = Object.values(homes).find(({ at }) => path.startsWith(at))
  const general = hintOf({ code })
  const next = code === 'row.not_found' ? home?.list : (own[code] ?? translate(general))
  const parts = [
    hint === undefined || hint === general ? undefined : translate(hint),
    next?.replaceAll('<id>', idIn(path) ?? '<id>'),
    /(^|\.)not_found$/.test(code) && home ? 'CONCORD_WORKSPACE chooses the workspace.' : undefined,
  ]
  const said = [...new Set(parts)].flatMap((part) => part?.replace(/[^.?!]$/, '$&.') ?? [])
  return said.length === 0 ? refusal : { ...refusal, hint: said.join(' ') }
}

/** Returns undefined for a hint about HTTP that has no matching verb. */
function translate(hint: string): string | undefined {
  let text = hint.replace(/^Send /, 'Give ')
  for (const [route, verb] of verbs) text = text.replaceAll(`\`${route}\``, route).replaceAll(route, `\`${verb}\``)
  return /\b(GET|POST|PATCH|DELETE) \/|X-Workspace/.test(text) ? undefined : text
}

function idIn(path: string): string | undefined {
  return /^\/(?:commands|approvals|missions)\/([a-z]+_[0-9a-f]{32})(?:\/|$)/.exec(path)?.[1]
}
