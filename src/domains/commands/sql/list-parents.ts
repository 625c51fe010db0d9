/** The commands that a command waits for, each with where it stands. */
import { statement } from '#store'
import type { ParentFact } from '../dependencies.ts'

/** $1 the waiting command. */
export const listParents = statement<ParentFact>(
  'commands_list_parents',
  `select d.parent_command_id, p.status, d.required_status, d.propagate_cancellation
from concord.command_dependencies as d join concord.commands as p on p.command_id = d.parent_command_id
where d.child_command_id = $1::uuid order by d.parent_command_id`,
)
