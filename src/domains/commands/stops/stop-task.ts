/**
 * The shipped tasks Stop Agents and Lift Stop. Administrators and members of the org role `operator` stop at once, without an approval. An administrator lifts a
 * stop; an operator needs the approval of another one. Agents can do neither.
 */
import { z } from 'zod'
import { textField } from '#contract'
import type { Actor } from '#kernel/actor'
import { decodeId, encodeId } from '#kernel/ids'
import type { JsonObject } from '#kernel/json-value'
import type { Facts, PolicyAnswer, PolicyInput } from '#kernel/policy/policy'
import { didYouMean } from '#kernel/nearest'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { defineCommandType, defineFunction, definePolicy, defineTask, type Definition } from '../catalog/definitions.ts'
import { defineEffect, EffectFailure } from '../catalog/effect-definition.ts'
import type { CommandDeps } from '../deps.ts'
import { appendCommandEvent } from '../events.ts'
import { rejectRequest, type SubmittedCommand, submitCommand } from '../submit.ts'
import { insertStop, isTargetThere, liftStop, namesOfAgents, stopScopes } from './stop.ts'

const STOP_AGENTS = 'Stop Agents'
const LIFT_STOP = 'Lift Stop'
const OPERATOR = 'operator'

const reason = textField(500, { charsMin: 1, filled: true }).meta({
  example: 'It orders the same part again and again.',
})

const stopFields = {
  scope: z.enum(stopScopes).meta({ example: 'agent', description: 'all: every agent of the workspace.' }),
  target: textField(200, { charsMin: 1 })
    .optional()
    .meta({ example: 'inventory-bot', description: 'The name of the agent, or the id of the run or swarm.' }),
  ends_runs: z.boolean().default(false).meta({
    example: false,
    description: 'Runs under way end with `stopped`. Otherwise they wait and go on after the lift.',
  }),
  reason,
}

export const stopBody = z.strictObject(stopFields).meta({ id: 'StopAgents' })
export const liftBody = z.strictObject({ reason }).meta({ id: 'LiftStop' })

type StopTarget = Pick<z.infer<typeof stopBody>, 'scope' | 'target'>

/** The id of a run or swarm has several spellings; the row has one. */
function parseTarget({ scope, target }: StopTarget): Decision<string | null> {
  const path = 'target'
  if ((scope === 'all') !== (target === undefined))
    return refuse('commands.stop.target', scope === 'all' ? 'All agents have no target.' : 'The target is missing.', {
      path,
    })
  if (target === undefined || scope === 'agent' || scope === 'all') return { ok: true, value: target ?? null }
  const id = decodeId(scope === 'run' ? 'agent_run' : 'swarm_run', target)
  return id.ok ? id : { ...id, path }
}

const stopPayload = z
  .strictObject(stopFields)
  .refine((asked) => parseTarget(asked).ok, { path: ['target'], message: 'not a target of this scope' })
const liftPayload = z.strictObject({
  stop_id: z.string().refine((text) => decodeId('stop', text).ok, 'the id of a stop, stop_…'),
  reason,
})

type StopAgents = z.infer<typeof stopBody> & { readonly workspaceId: string; readonly requestId: string }

export async function stopAgents(
  deps: CommandDeps,
  by: Actor,
  { workspaceId, requestId, scope, target, ends_runs, reason: why }: StopAgents,
): Promise<Decision<SubmittedCommand>> {
  const parsed = parseTarget({ scope, target })
  if (!parsed.ok) return parsed
  const payload = { scope, ends_runs, reason: why, ...(target === undefined ? {} : { target }) }
  const request = { workspaceId, taskName: STOP_AGENTS, payload, ingress: 'user_request' as const, requestId }
  const there = await checkTarget(deps, workspaceId, scope, parsed.value)
  return there.ok ? submitCommand(deps, by, request) : rejectRequest(deps, by, request, there)
}

/** A stop with a mistyped name would look successful and stop nobody. */
async function checkTarget(
  deps: CommandDeps,
  workspaceId: string,
  scope: StopTarget['scope'],
  target: string | null,
): Promise<Decision<undefined>> {
  if (scope === 'all' || target === null) return accept(undefined)
  const names = scope === 'agent' ? await namesOfAgents(deps, workspaceId, target) : undefined
  const isThere = names
    ? names.has(target)
    : scope !== 'agent' && (await isTargetThere(deps.db, workspaceId, scope, target))
  if (isThere) return accept(undefined)
  const shown = scope === 'agent' ? target : encodeId(scope === 'run' ? 'agent_run' : 'swarm_run', target)
  return refuse('commands.stop.target_unknown', `There is no ${scope} ${quote(shown)}.`, {
    path: 'target',
    ...(names ? didYouMean(target, names) : {}),
  })
}

type LiftRequest = Readonly<Record<'workspaceId' | 'requestId' | 'stopId' | 'reason', string>>

export function requestLift(
  deps: CommandDeps,
  by: Actor,
  { workspaceId, requestId, stopId, reason: why }: LiftRequest,
): Promise<Decision<SubmittedCommand>> {
  const payload = { stop_id: encodeId('stop', stopId), reason: why }
  return submitCommand(deps, by, { workspaceId, taskName: LIFT_STOP, payload, ingress: 'user_request', requestId })
}

const factsOf = (value: unknown): Facts => (typeof value === 'object' && value !== null ? (value as Facts) : {})

function rightOf({ context }: PolicyInput): 'admin' | 'operator' | undefined {
  const { role, org_roles: roles } = factsOf(context['metadata'])
  if (context['run_as'] === 'agent') return undefined
  if (role === 'admin') return 'admin'
  return Array.isArray(roles) && roles.includes(OPERATOR) ? 'operator' : undefined
}

const deny = (why: string): PolicyAnswer => ({ decision: 'deny', reasons: [why] })

const mayStop = {
  name: 'stop_rights',
  category: 'permission' as const,
  actions: '*' as const,
  decide: (input: PolicyInput): PolicyAnswer =>
    rightOf(input) ? { decision: 'allow' } : deny('Only administrators and operators stop agents.'),
}

const mayLift = {
  name: 'lift_rights',
  category: 'approval_requirement' as const,
  actions: '*' as const,
  decide(input: PolicyInput): PolicyAnswer {
    const right = rightOf(input)
    if (right === 'admin') return { decision: 'allow' }
    if (right === undefined) return deny('Only administrators and operators lift a stop.')
    return {
      decision: 'require_approval',
      reasons: ['Agents act again after the lift.'],
      required_approvals: [OPERATOR],
    }
  },
}

const contract = {
  error_classes: ['validation_error', 'policy_denied', 'approval_rejected', 'internal_error'] as const,
  cancellable_by: ['requester', 'admin'] as const,
  approval: { approver: `role:${OPERATOR}` },
}

/** Of low risk, so that it runs inside the request: when the answer comes, the stop is in force. */
const task = { ingress_types: ['user_request'] as const, sync_allowed: true }

/** `deps` is called at the first use, because the catalog is opened before the room. */
export function stopDefinitions(deps: () => CommandDeps): readonly Definition[] {
  return [
    definePolicy(mayStop),
    definePolicy(mayLift),
    defineEffect({
      effect_type: 'agents.stop',
      class: 'keyed',
      outward: false,
      bounded: true,
      async do({ payload, workspaceId, commandId, effectId, requestedBy, traceId, alongside }) {
        const { scope, target, ends_runs, reason: why } = stopPayload.parse(payload)
        const parsed = parseTarget({ scope, target })
        if (!parsed.ok) throw new EffectFailure('validation_error', parsed.reason, 'no')
        const row = {
          stop_id: effectId,
          workspace_id: workspaceId,
          command_id: commandId,
          scope,
          ends_runs,
          reason: why,
        }
        alongside(async (tx) => {
          const stop = { ...row, target: parsed.value, stopped_by: requestedBy, created_at: deps().now() }
          if (!(await insertStop(tx, deps(), stop))) return
          const about = { stop_id: effectId, scope, target: parsed.value, ends_runs }
          await appendCommandEvent(tx, deps(), { id: requestedBy, kind: 'user', traceId }, 'agents_stopped', row, about)
        })
        return { stop_id: encodeId('stop', effectId) }
      },
    }),
    defineEffect({
      effect_type: 'agents.lift_stop',
      class: 'keyed',
      outward: false,
      bounded: true,
      async do({ payload, workspaceId, commandId, requestedBy, traceId, alongside }) {
        const { stop_id, reason: why } = liftPayload.parse(payload)
        const decoded = decodeId('stop', stop_id)
        if (!decoded.ok) throw new EffectFailure('validation_error', decoded.reason, 'no')
        alongside(async (tx) => {
          const lift = { workspaceId, stopId: decoded.value, by: requestedBy, reason: why, commandId }
          const lifted = await liftStop(tx, deps(), lift)
          if (!lifted.ok) throw new EffectFailure('validation_error', lifted.reason, 'no')
          const by = { id: requestedBy, kind: 'user', traceId }
          const of = { workspace_id: workspaceId, command_id: commandId }
          await appendCommandEvent(tx, deps(), by, 'stop_lifted', of, { stop_id: decoded.value })
        })
        return { stop_id }
      },
    }),
    ...[
      {
        name: STOP_AGENTS,
        type: 'stop_agents',
        effect: 'agents.stop',
        rule: mayStop,
        payload: stopPayload,
        fields: ['scope', 'reason'],
        event: 'agents_stopped',
        description: 'Stops agents: nothing of theirs begins until the stop is lifted.',
      },
      {
        name: LIFT_STOP,
        type: 'lift_stop',
        effect: 'agents.lift_stop',
        rule: mayLift,
        payload: liftPayload,
        fields: ['stop_id', 'reason'],
        event: 'stop_lifted',
        description: 'Lifts a stop of agents: what waited goes on.',
      },
    ].flatMap(({ name, type, effect, rule, payload, fields, event, description }): readonly Definition[] => [
      defineFunction({ name: type, plan: (asked: JsonObject) => [{ effect_type: effect, payload: asked }] }),
      defineCommandType({
        ...contract,
        name: type,
        description,
        payload,
        side_effects: [effect],
        audit: ['command_created', event],
      }),
      defineTask({
        ...task,
        name,
        description,
        command_type: type,
        function_name: type,
        required_inputs: fields,
        policy_checks: ['permission', rule.name],
      }),
    ]),
  ]
}
