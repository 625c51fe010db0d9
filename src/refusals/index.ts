/** Collects every refusal code of Concord, with its kind and its hint, from the `refusals.ts` of each room. */
import type { Refusal, RefusalCode, RefusalKind, RefusalTables } from '#kernel/refusal'
import { kernelRefusals } from '#kernel/refusals'
import { storeRefusals } from '../store/refusals.ts'
import { runtimeRefusals } from '../runtime/refusals.ts'
import { schedulerRefusals } from '../domains/scheduler/refusals.ts'
import { identityRefusals } from '../domains/identity/refusals.ts'
import { artifactRefusals } from '../domains/artifacts/refusals.ts'
import { approvalRefusals } from '../domains/approvals/refusals.ts'
import { memoryRefusals } from '../domains/memory/refusals.ts'
import { connectorRefusals } from '../domains/connectors/refusals.ts'
import { budgetRefusals } from '../domains/budgets/refusals.ts'
import { commandRefusals } from '../domains/commands/refusals.ts'
import { scheduleRefusals } from '../domains/command-schedules/refusals.ts'
import { agentRefusals } from '../domains/agents/refusals.ts'
import { missionRefusals } from '../domains/missions/refusals.ts'
import { flowRefusals } from '../domains/flow/refusals.ts'
import { apiRefusals } from '../api/refusals.ts'
import { mcpRefusals } from '../mcp/refusals.ts'
import { appRefusals } from '../app/refusals.ts'
import { cliRefusals } from '../cli/refusals.ts'

/** The type makes it complete: a room that declares a table and is missing here does not compile. */
export const refusalTables: RefusalTables = {
  kernel: kernelRefusals,
  store: storeRefusals,
  runtime: runtimeRefusals,
  scheduler: schedulerRefusals,
  identity: identityRefusals,
  artifacts: artifactRefusals,
  approvals: approvalRefusals,
  memory: memoryRefusals,
  connectors: connectorRefusals,
  budgets: budgetRefusals,
  commands: commandRefusals,
  schedules: scheduleRefusals,
  agents: agentRefusals,
  missions: missionRefusals,
  flow: flowRefusals,
  api: apiRefusals,
  mcp: mcpRefusals,
  app: appRefusals,
  cli: cliRefusals,
}

export const refusals = Object.assign({}, ...Object.values(refusalTables)) as Readonly<
  Record<RefusalCode, readonly [RefusalKind, string]>
>

/** The API turns a kind into an HTTP status, the CLI into an exit code. */
export function kindOf(code: RefusalCode): RefusalKind {
  return refusals[code][0]
}

/** Returns the hint of this refusal, or else the hint of its code. */
export function hintOf(refusal: Pick<Refusal, 'code' | 'hint'>): string {
  return refusal.hint ?? refusals[refusal.code][1]
}

/** For codes that come from outside, such as another server's response. */
export function isRefusalCode(code: string): code is RefusalCode {
  return Object.hasOwn(refusals, code)
}
