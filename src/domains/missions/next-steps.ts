/** What people can do next with a mission, and who. Pure, but for the read of the people who are asked. */
import { showActor } from '#domains/approvals'
import { type Sql, statement } from '#store'
import type { StoredMission } from './mission.ts'

export const missionActions = ['approve', 'reject', 'pause', 'resume', 'raise_budget', 'cancel', 'fork'] as const
type Action = (typeof missionActions)[number]
type NextStep = { readonly do: Action; readonly who: string; readonly words: string }

/** For people. */
const wordsOf: Readonly<Record<Action, string>> = {
  approve: 'approve the plan, so that it starts',
  reject: 'reject the plan, which ends the mission',
  pause: 'start nothing new until it is resumed',
  resume: 'go on',
  raise_budget: 'raise its limit, and go on',
  cancel: 'end it and cancel what runs',
  fork: 'run it again from one of its tasks',
}
const step = (action: Action, who: string): NextStep => ({ do: action, who, words: wordsOf[action] })

/** Who ends a pause, as the end of a sentence. Empty: nothing holds the mission. */
export function sayHeld({ state, created_by }: Pick<StoredMission, 'state' | 'created_by'>): string {
  const who = `${showActor(created_by)} or an administrator`
  if (state === 'paused') return ` It starts nothing until ${who} resumes it.`
  return state === 'budget_exceeded' ? ` It starts nothing until ${who} raises its limit.` : ''
}

/** `approvers`: whom the gate asks now. Administrators can do everything that the requester can, but decide for nobody else. */
export function nextOfMission(
  { state, state_type, created_by, config }: Pick<StoredMission, 'state' | 'state_type' | 'created_by' | 'config'>,
  approvers: readonly string[] = [],
): readonly NextStep[] {
  const requester = showActor(created_by)
  const own = (...actions: readonly Action[]) => actions.map((action) => step(action, requester))
  if (state_type === 'terminal') return state === 'failed' ? own('fork') : []
  const asked = approvers.map(showActor)
  const decisions = (who: string): readonly NextStep[] => [step('approve', who), step('reject', who)]
  switch (state) {
    case 'awaiting_approval':
      return [...asked.flatMap(decisions), ...own('cancel')]
    case 'running':
      return own('pause', 'cancel')
    case 'paused':
      return own('resume', 'cancel')
    case 'budget_exceeded':
      return own('raise_budget', 'cancel')
    default: {
      // The gate does not exist yet, and the settings say already who will be asked.
      const { autonomy, approver_role: role } = config
      const later: readonly NextStep[] =
        autonomy === 'approve' ? [step('approve', typeof role === 'string' ? `role:${role}` : requester)] : []
      return [...later, ...own('cancel')]
    }
  }
}

type Asked = { readonly command_id: string; readonly approval_id: string; readonly approver: string }

/** $1 commands. */
const listAsked = statement<Asked>(
  'missions.list_asked',
  `select a.command_id, a.approval_id, a.approver from concord.approvals as a
where a.command_id = any($1::uuid[]) and a.status = 'pending' and a.superseded_by is null order by a.approval_id`,
)

/** Who is asked about these commands now. */
export const findAsked = async (sql: Sql, commandIds: readonly string[]): Promise<readonly Asked[]> =>
  commandIds.length === 0 ? [] : sql.run(listAsked, [commandIds])

/** Whom the gate of each mission asks now. */
export async function findApprovers(
  sql: Sql,
  runs: readonly Pick<StoredMission, 'gate_command_id' | 'state'>[],
): Promise<(run: Pick<StoredMission, 'gate_command_id'>) => readonly string[]> {
  const gates = runs.flatMap(({ gate_command_id: id, state }) =>
    id !== null && state === 'awaiting_approval' ? id : [],
  )
  const asked = Map.groupBy(await findAsked(sql, gates), ({ command_id }) => command_id)
  return ({ gate_command_id: id }) => (asked.get(id ?? '') ?? []).map(({ approver }) => approver)
}
