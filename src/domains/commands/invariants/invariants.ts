/**
 * The invariants of commands, effects and approvals. Each is one query that returns nothing while it holds. They hold in every snapshot,
 * so they can be checked on a running system.
 */
import type { Machine } from '#kernel/machine'
import { commandMachine, effectMachine } from '#kernel/machines/command'

export type Invariant = {
  readonly code: string
  readonly name: string
  /** The meaning of a returned row. */
  readonly meaning: string
  /** What to do about it. */
  readonly next: string
  /** One column `id`: the command, effect, approval or event that violates it. */
  readonly sql: string
  readonly values?: readonly unknown[]
}

/** Longer than the reconciler needs to recover a lost turn. */
const OVERDUE_MINUTES = 5

export const RESTORE =
  'Compare with a backup: something other than Concord changed rows, or Concord has a bug that is worth a report.'

const ended = `('succeeded', 'failed', 'cancelled', 'expired', 'compensated')`
const commandMove = `e.event_type = 'status_changed' and e.payload->>'target_type' = 'command'`
/** The current approvals of a command itself, without questions about an effect. */
const gate = `a.domain_effect_id is null and a.superseded_by is null and a.status <> 'cancelled'`

/** Events of archived commands are in files, and `R01` reads those. Evaluated only for rows that differ. */
const inTable = (commandId: string) =>
  `not exists (select from concord.history_archives as h where h.command_ids @> array[${commandId}])`

const movesOf = ({ moves }: Pick<Machine, 'moves'>) => [moves.map(({ from }) => from), moves.map(({ to }) => to)]

export const commandInvariants: readonly Invariant[] = [
  {
    code: 'C03',
    name: 'one key, one command',
    meaning: 'Two commands of a workspace have the same key of a caller, or the same key of a contract.',
    next: 'Cancel the later one if that is still possible, and check whether its effects ran twice.',
    sql: `select min(c.command_id::text) as id from concord.commands as c
cross join lateral (values ('caller', c.idempotency_key), ('contract', c.contract_key)) as k(kind, key)
where k.key is not null group by c.workspace_id, k.kind, k.key having count(*) > 1`,
  },
  {
    code: 'C04',
    name: 'due commands are driven',
    meaning: `A command has been due for over ${OVERDUE_MINUTES} minutes and no worker holds its turn.`,
    next: 'Check that a server or a worker runs on this database; its log shows why the command does not run.',
    sql: `select c.command_id as id from concord.commands as c where c.completed_at is null
  and c.run_after < now() - interval '${OVERDUE_MINUTES} minutes' and coalesce(c.turn_until, '-infinity') < now() - interval '${OVERDUE_MINUTES} minutes'`,
  },
  {
    code: 'C06',
    name: 'the status is the last move',
    meaning: 'The status on the row is not the status in its last event.',
    next: RESTORE,
    sql: `select c.command_id as id from concord.commands as c left join lateral (
  select e.payload->>'to' as status from concord.domain_events as e
  where e.command_id = c.command_id and ${commandMove} order by e.seq desc limit 1) as last on true
where coalesce(last.status, 'created') <> c.status and ${inTable('c.command_id')}`,
  },
  {
    code: 'C07',
    name: 'no gap in the history',
    meaning: 'A transition of a command does not begin where the previous one ended.',
    next: RESTORE,
    sql: `select x.event_id as id from (
  select e.event_id, e.command_id, e.payload->>'from' as origin, lag(e.payload->>'to', 1, 'created') over (partition by e.command_id order by e.seq) as before
  from concord.domain_events as e where ${commandMove}) as x
where x.origin is distinct from x.before and ${inTable('x.command_id')}`,
  },
  {
    code: 'C08',
    name: 'only transitions of the machine',
    meaning: 'A command or an effect made a transition that its machine does not have.',
    next: RESTORE,
    sql: `select e.event_id as id from concord.domain_events as e
where e.event_type in ('status_changed', 'effect_executed', 'effect_failed') and case e.payload->>'target_type'
  when 'command' then (e.payload->>'from', e.payload->>'to') not in (select * from unnest($1::text[], $2::text[]))
  when 'effect' then (e.payload->>'from', e.payload->>'to') not in (select * from unnest($3::text[], $4::text[]))
  else false end`,
    values: [...movesOf(commandMachine), ...movesOf(effectMachine)],
  },
  {
    code: 'E01',
    name: 'one key, one effect',
    meaning: 'Two started effects of a workspace have the same idempotency key.',
    next: 'Look up the key at the provider, and undo the second effect.',
    sql: `select min(e.domain_effect_id::text) as id from concord.domain_effects as e
where e.idempotency_key is not null and e.status in ('executing', 'succeeded')
group by e.workspace_id, e.idempotency_key having count(*) > 1`,
  },
  {
    code: 'E05',
    name: 'an ended command has no running effect',
    meaning: 'An effect is still executing although its command has ended, so its outcome will never be settled.',
    next: 'Look up its key at the provider; `concord why` shows the command.',
    sql: `select e.domain_effect_id as id from concord.domain_effects as e join concord.commands as c on c.command_id = e.command_id
where e.status = 'executing' and c.status in ${ended}`,
  },
  {
    code: 'E06',
    name: 'compensated once, and only if it succeeded',
    meaning: 'An effect was undone twice, or was undone although it had not succeeded.',
    next: 'Look up the keys that begin with `undo:` at the provider.',
    sql: `select o.domain_effect_id as id from concord.domain_effects as o
join concord.domain_effects as k on k.compensates_effect_id = o.domain_effect_id
group by o.domain_effect_id, o.status having count(*) filter (where k.status = 'succeeded') > 1 or o.status <> 'succeeded'`,
  },
  {
    code: 'E07',
    name: 'compensated in reverse order',
    meaning: 'An effect was undone before a later effect that had already succeeded.',
    next: 'Check whether the later effect depended on the earlier one.',
    sql: `select k.domain_effect_id as id from concord.domain_effects as k
join concord.domain_effects as o on o.domain_effect_id = k.compensates_effect_id
join concord.domain_effects as later on later.command_id = k.command_id and later.compensates_effect_id is not null
  and later.status = 'succeeded' and later.declaration_order > k.declaration_order
join concord.domain_effects as first on first.domain_effect_id = later.compensates_effect_id
where k.status = 'succeeded' and first.declaration_order > o.declaration_order and first.completed_at <= k.created_at`,
  },
  {
    code: 'E08',
    name: 'a succeeded command has settled every step',
    meaning: 'A command has succeeded although it has no plan, or although a step of its plan has no succeeded effect.',
    next: 'See what is missing with `concord why`, and submit it again under a new key.',
    sql: `select c.command_id as id from concord.commands as c where c.status = 'succeeded' and (c.plan is null or exists (
  select from jsonb_path_query(c.plan, '$.steps[*].metadata.domain_effect_id') as step(id)
  left join concord.domain_effects as e on e.domain_effect_id = (step.id #>> '{}')::uuid and e.command_id = c.command_id
  where e.status is distinct from 'succeeded'))`,
  },
  {
    code: 'E09',
    name: 'a blocked command waits for something',
    meaning: 'A command is blocked, but no question to a person is open and no awaited command is running.',
    next: 'Cancel it, or resume it; `concord why` shows what it waited for.',
    sql: `select c.command_id as id from concord.commands as c where c.status = 'blocked'
  and (c.run_after is null or c.run_after < now() - interval '${OVERDUE_MINUTES} minutes')
  and not exists (select from concord.approvals as a where a.command_id = c.command_id and a.status = 'pending')
  and not exists (select from concord.domain_effects as e join concord.commands as w on w.command_id = (e.read_back->>'command_id')::uuid
    where e.command_id = c.command_id and e.status = 'executing' and w.completed_at is null)`,
  },
  {
    code: 'A01',
    name: 'no effect before every approval',
    meaning: 'An effect was started before an approval of its command was given.',
    next: 'Undo it if possible; `concord why` shows who started it.',
    sql: `select e.domain_effect_id as id from concord.domain_effects as e
where e.status <> 'planned' and e.effect_type not in ('approval.request', 'user.request_input') and e.compensates_effect_id is null
  and exists (select from concord.approvals as a where a.command_id = e.command_id and ${gate} and (a.status <> 'approved'
    or (select max(d.seq) from concord.domain_events as d where d.command_id = e.command_id and d.event_type = 'approval_decided'
         and d.payload->>'target_type' = 'approval' and (d.payload->>'target_id')::uuid = a.approval_id)
     > (select min(b.seq) from concord.domain_events as b where b.command_id = e.command_id and b.event_type = 'status_changed'
         and b.payload->>'target_type' = 'effect' and (b.payload->>'target_id')::uuid = e.domain_effect_id)))`,
  },
  {
    code: 'A02',
    name: 'an approval is decided once',
    meaning: 'Two decisions about one approval are recorded.',
    next: RESTORE,
    sql: `select e.payload->>'target_id' as id from concord.domain_events as e
where e.event_type = 'approval_decided' and e.payload->>'target_type' = 'approval' group by 1 having count(*) > 1`,
  },
  {
    code: 'A03',
    name: 'decided in time',
    meaning: 'An approval was decided at or after its deadline.',
    next: RESTORE,
    sql: `select a.approval_id as id from concord.approvals as a where a.status in ('approved', 'rejected') and a.decided_at >= a.expires_at`,
  },
  {
    code: 'A04',
    name: 'the requester does not decide',
    meaning: 'The requester decided an approval that does not allow it.',
    next: 'Have an eligible approver review what was done.',
    sql: `select a.approval_id as id from concord.approvals as a where not a.self_decision_allowed
  and (a.decided_by = a.requested_by or a.requested_by = any(a.approved_by))`,
  },
  {
    code: 'A05',
    name: 'decided by a person',
    meaning: 'An agent decided an approval.',
    next: 'Have a person review what was done.',
    sql: `select a.approval_id as id from concord.approvals as a where a.decided_by like 'agent:%'`,
  },
  {
    code: 'A06',
    name: 'the approved content is the planned content',
    meaning: 'The approved content differs from the planned content.',
    next: 'Cancel the command, and review what it did.',
    sql: `select a.approval_id as id from concord.approvals as a join concord.commands as c on c.command_id = a.command_id
where a.status = 'approved' and ${gate} and c.plan is not null and a.payload_hash <> c.payload_hash`,
  },
]
