/** Looks a command up by its id and its workspace, with its effects; a foreign id finds nothing. */
import { statement } from '#store'
import { columnsOf, type StoredCommand } from '../command-row.ts'
import type { EffectJson } from './take-turn.ts'

const effects = `coalesce((select jsonb_agg(to_jsonb(e) order by e.declaration_order, e.created_at)
  from concord.domain_effects as e where e.command_id = c.command_id), '[]') as effects`

/** $1 command, $2 workspace. */
export const findCase = statement<StoredCommand & { readonly effects: readonly EffectJson[] }>(
  'commands_find_case',
  `select ${columnsOf('c')}, ${effects} from concord.commands as c where c.command_id = $1::uuid and c.workspace_id = $2::uuid`,
)

/** The row alone, which nobody changes until the transaction ends; its effects are read after it (see `take-turn.ts`). */
export const lockCase = statement<StoredCommand>(
  'commands_lock_case',
  `select ${columnsOf('c')} from concord.commands as c where c.command_id = $1::uuid and c.workspace_id = $2::uuid for update of c`,
)
