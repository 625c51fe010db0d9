/** The record of an operator who resumed a run or a swarm that got no more turns. */
import type { Actor } from '#kernel/actor'
import { cutText } from '#kernel/cut-text'
import type { NewId } from '#kernel/clock'
import { isUuid } from '#kernel/ids'
import { redactText } from '#kernel/secret-shapes'
import { statement, type Tx } from '#store'
import { RUN_KIND } from './deps.ts'
import { runTable, type StoredAgentRun } from './agent-run.ts'
import { type StoredSwarmRun, swarmTable } from './swarms/swarm-run.ts'

const REASON_CHARS_MAX = 500

const findRun = statement<StoredAgentRun>(
  'agents.find_resumed',
  'select t.* from concord.agent_runs as t where t.agent_run_id = $1::uuid',
)
const findSwarm = statement<StoredSwarmRun>(
  'agents.find_resumed_swarm',
  'select t.* from concord.swarm_runs as t where t.swarm_run_id = $1::uuid',
)

/** In the transaction of the operator. */
export async function recordResumedRun(
  tx: Tx,
  newId: NewId,
  by: Actor,
  {
    process,
    ...said
  }: {
    readonly process: { readonly kind: string; readonly id: string }
    readonly why: string
    readonly reason: string
    readonly at: Date
  },
): Promise<void> {
  if (!isUuid(process.id)) return
  const payload = { why: said.why, reason: cutText(redactText(said.reason), REASON_CHARS_MAX) }
  const more = { at: said.at, newId, payload }
  const [run] = process.kind === RUN_KIND ? await tx.run(findRun, [process.id]) : []
  if (run) await runTable.append(tx, run, by, { type: 'agent_run_resumed', ...more })
  const [swarm] = process.kind === RUN_KIND ? [] : await tx.run(findSwarm, [process.id])
  if (swarm) await swarmTable.append(tx, swarm, by, { type: 'swarm_resumed', ...more })
}
