/** A quarantine of a model: no call of it begins in the workspace until an administrator lifts it. */
import type { Actor } from '#kernel/actor'
import type { NewId } from '#kernel/clock'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { type Db, defineTable, eventIdOf, scoped, type Sql, statement } from '#store'
import type { Rows } from '#store/rows'
import { budgetLog } from './events.ts'

export type StoredQuarantine = Rows['concord.model_quarantines']

const TABLE = 'concord.model_quarantines'

const quarantines = defineTable<StoredQuarantine>()({
  name: TABLE,
  noun: 'model',
  id: 'quarantine_id',
  tenant: 'workspace_id',
  log: budgetLog,
  links: ['workspace_id', 'command_id'],
  about: ({ model }) => ({ model }),
})

/** True of a model that a reservation names: `$n` of the workspace and of the model. */
export const isQuarantined = (workspace: string, model: string) =>
  `exists (select from ${TABLE} q where q.workspace_id = ${workspace} and q.model = ${model} and q.lifted_at is null)`

/** $1 id, $2 workspace, $3 model, $4 command, $5 account, $6 key, $7 excess, $8 at. No row: it is in quarantine already. */
const begin = statement<StoredQuarantine>(
  'budgets.quarantine',
  `insert into ${TABLE} (quarantine_id, workspace_id, model, command_id, account_id, key, excess_units, created_at)
   values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (workspace_id, model) where lifted_at is null do nothing returning *`,
)

/** $1 workspace, $2 model, $3 at, $4 by, $5 reason. */
const end = statement<StoredQuarantine>(
  'budgets.lift_quarantine',
  `update ${TABLE} set lifted_at = $3, lifted_by = $4, lift_reason = $5
    where workspace_id = $1 and model = $2 and lifted_at is null returning *`,
)

const listOpen = statement<StoredQuarantine>(
  'budgets.list_quarantines',
  `select * from ${TABLE} where workspace_id = $1 and lifted_at is null order by created_at, quarantine_id limit 500`,
)

type Breach = Omit<StoredQuarantine, 'quarantine_id' | 'lifted_at' | 'lifted_by' | 'lift_reason'>

/** In the transaction of the settlement. */
export async function quarantineModel(tx: Sql, actor: Actor<string>, breach: Breach): Promise<void> {
  const { workspace_id, model, command_id, account_id, key, excess_units, created_at: at } = breach
  const id = eventIdOf('model_quarantined', account_id, key)
  const [begun] = await tx.run(begin, [id, workspace_id, model, command_id, account_id, key, excess_units, at])
  if (begun)
    await quarantines.append(tx, begun, actor, { type: 'model_quarantined', at, payload: { excess_units }, round: key })
}

export function listQuarantines(db: Db, workspaceId: string): Promise<readonly StoredQuarantine[]> {
  return scoped(db, workspaceId).read((tx) => tx.run(listOpen, [workspaceId]))
}

export function liftQuarantine(
  { db, now, newId }: { readonly db: Db; readonly now: () => Date; readonly newId: NewId },
  actor: Actor<'user'>,
  { workspaceId, model, reason }: { readonly workspaceId: string; readonly model: string; readonly reason: string },
): Promise<Decision<StoredQuarantine>> {
  return scoped(db, workspaceId).transaction(async (tx) => {
    const [lifted] = await tx.run(end, [workspaceId, model, now(), actor.id, reason])
    if (!lifted) return refuse('budgets.quarantine.not_found', `${quote(model)} is not in quarantine.`)
    await quarantines.append(tx, lifted, actor, {
      type: 'model_quarantine_lifted',
      at: now(),
      payload: { reason },
      newId,
    })
    return accept(lifted)
  })
}
