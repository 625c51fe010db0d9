/** All that an agent ever holds: one function that proposes. No table, no connector, no catalog and no credential can be reached through it. */
import type { Refusal } from '#kernel/refusal'
import type { CommandDeps } from '../deps.ts'
import { type ActingFor, type ProposeAction, proposeAction } from './propose-action.ts'
import { type ActionView, toActionView } from './action-contract.ts'

type AgentAction = Pick<
  ProposeAction,
  'toolName' | 'payload' | 'reason' | 'actionType' | 'riskLevel' | 'idempotencyKey'
>

export type AgentGateway = { readonly propose: (action: AgentAction) => Promise<ActionView | Refusal> }

/** For whom, where and under which request is settled here and out of the agent's hands. */
export function agentGateway(
  deps: CommandDeps,
  by: ActingFor,
  within: Pick<ProposeAction, 'workspaceId' | 'requestId' | 'waitMs' | 'signal'>,
): AgentGateway {
  return Object.freeze({
    async propose({ toolName, payload, reason, actionType, riskLevel, idempotencyKey }: AgentAction) {
      const said = { toolName, payload, reason, actionType, riskLevel, idempotencyKey }
      const proposed = await proposeAction(deps, by, { ...said, ...within })
      return proposed.ok ? toActionView(proposed.value) : proposed
    },
  })
}
