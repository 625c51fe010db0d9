/**
 * Hooks: tasks of the catalog that run before and after each attempt. A hook is a command of the mission. An attempt whose `before_run` fails does not start.
 * An `after_run` that fails is recorded, and changes nothing.
 */
import type { Catalog } from '#domains/commands'
import { encodeId } from '#kernel/ids'
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { statement } from '#store'
import { findAttempt } from './accept-output.ts'
import { dropAuxiliary, hookKey, listUnaskedHooks } from './auxiliary-rows.ts'
import { isUnpaid, submitAuxiliary } from './auxiliary.ts'
import { type MissionConfig, sayUnknown } from './config.ts'
import type { MissionDeps } from './deps.ts'
import type { StoredTask } from './mission.ts'
import { checkPayload } from './plan.ts'
import { fillReferences, referencesIn, type ResultReference } from './references.ts'
import { payloadsOf, runnableTasks } from './start-plan.ts'
import { exceedBudget } from './spending.ts'
import { type Found, write } from './turn.ts'

const ATTEMPT = 'attempt'
const names = ['before_run', 'after_run'] as const
type HookName = (typeof names)[number]
/** Hooks that one step submits. */
const AT_ONCE = 32

/** Checked with the request: a wrong hook would stop every attempt. */
export function checkHooks({ hooks }: Pick<MissionConfig, 'hooks'>, catalog: Pick<Catalog, 'tasks'>): Decision<null> {
  const { tasks } = runnableTasks(catalog)
  for (const name of names) {
    const hook = hooks[name]
    const path = `config.hooks.${name}`
    if (hook && !tasks.has(hook.task))
      return refuse('missions.config.invalid', sayUnknown('task of the catalog', hook.task, tasks), {
        path: `${path}.task`,
      })
    const [wrong] = hook ? checkPayload(hook.payload, payloadsOf(catalog)(hook.task), `${path}.payload`) : []
    if (wrong) return refuse('missions.config.invalid', `${wrong.path}: ${wrong.message}`, { path: wrong.path })
    for (const { at, ...reference } of hook ? referencesIn(hook.payload, ['payload']) : []) {
      const fault = findFault(reference)
      if (fault !== undefined) return refuse('missions.config.invalid', fault, { path: `${path}.${at}` })
    }
  }
  return accept(null)
}

/** What a hook can refer to: the fields of `attempt`. */
const paths = ['mission_id', 'mission_task_id', 'attempt', 'temp_id', 'title', 'state', 'error'].map(
  (name) => `/${name}`,
)

function findFault({ from, path, fault }: ResultReference): string | undefined {
  if (fault !== undefined) return fault
  if (from !== ATTEMPT) return `$from names ${quote(from)}, and a hook knows ${quote(ATTEMPT)} alone.`
  return path === '' || paths.includes(path) ? undefined : sayUnknown('path of the attempt', path, paths)
}

/** $1 workspace, $2 keys. */
const findHooks = statement<{
  readonly idempotency_key: string
  readonly status: string
  readonly error: string | null
  readonly completed_at: Date | null
}>(
  'missions.find_hooks',
  `select c.idempotency_key, c.status, c.error, c.completed_at from concord.commands as c
where c.workspace_id = $1::uuid and c.idempotency_key = any($2::text[])`,
)

type Attempt = { readonly task: StoredTask; readonly attempt: number }

/** By task: `passed`, `waits` for its hook, or why the attempt does not start. */
export async function passHooks(
  deps: MissionDeps,
  found: Found,
  attempts: readonly Attempt[],
): Promise<ReadonlyMap<string, Decision<'passed' | 'waits'>>> {
  const { before_run: hook } = found.config.hooks
  if (!hook) return new Map()
  const keys = attempts.map(({ task, attempt }) => hookKey(task.id, attempt, 'before_run'))
  const known = await deps.commands.db.run(findHooks, [found.run.workspace_id, keys])
  const byKey = new Map(known.map((each) => [each.idempotency_key, each]))
  const passed = new Map<string, Decision<'passed' | 'waits'>>()
  for (const { task, attempt } of attempts) {
    const asked = byKey.get(hookKey(task.id, attempt, 'before_run'))
    if (!asked) {
      const submitted = await submitHook(deps, found, { task, attempt }, 'before_run')
      passed.set(task.id, submitted.ok || isUnderWay(submitted) ? accept('waits') : submitted)
    } else if (asked.completed_at === null) passed.set(task.id, accept('waits'))
    else if (asked.status === 'succeeded') passed.set(task.id, accept('passed'))
    else {
      const why = `The hook before_run is ${asked.status}: ${asked.error ?? 'no reason given'}`
      passed.set(task.id, refuse('missions.hook.failed', why))
    }
  }
  return passed
}

/** Another turn has the key, and has not committed: the next turn finds its command. */
const isUnderWay = (submitted: Decision<string>) => !submitted.ok && submitted.code === 'key_in_progress'

/** Every attempt that has ended gets its hook, also if the process that settled it died. True: there may be more, or one does not fit into the limit of the mission. */
export async function runAfter(deps: MissionDeps, found: Found): Promise<boolean> {
  const { run, origin } = found
  const { db, now } = deps.commands
  if (!found.config.hooks.after_run) return false
  let isMore = false
  for (const { attempt, ...task } of await listUnaskedHooks(db, run.id, AT_ONCE)) {
    const asked = await submitHook(deps, found, { task, attempt }, 'after_run')
    if (isUnpaid(asked)) {
      await write(deps, run, (batch, at) => exceedBudget(batch, { at, traceId: origin.context.trace_id }))
      return run.state === 'running'
    }
    if (isUnderWay(asked)) continue
    if (!asked.ok) await dropAuxiliary(db, hookKey(task.id, attempt, 'after_run'), now(), asked.reason)
    isMore = true
  }
  return isMore
}

async function submitHook(
  deps: MissionDeps,
  found: Found,
  { task, attempt }: Attempt,
  name: HookName,
): Promise<Decision<string>> {
  const hook = found.config.hooks[name]
  const about: JsonObject = {
    mission_id: encodeId('mission', found.run.id),
    mission_task_id: encodeId('mission_task', task.id),
    attempt,
  }
  const { temp_id } = task.spec
  const seen = { ...about, temp_id, title: task.title, state: task.state, error: task.error_message }
  const payload = fillReferences(hook?.payload ?? {}, new Map<string, JsonValue>([[ATTEMPT, seen]]))
  if (!payload.ok) return payload
  // The hook gets the error of this attempt, or of the one before.
  const told = await findAttempt(deps.commands.db, task, name === 'after_run' ? attempt : attempt - 1)
  return submitAuxiliary(deps, found, {
    kind: name,
    key: hookKey(task.id, attempt, name),
    task,
    attempt,
    maxCost: hook?.max_cost,
    taskName: hook?.task ?? '',
    payload: payload.value as JsonObject,
    metadata: about,
    labelled: [found.origin.labelled_plan_id, told, task.command_id],
  })
}
