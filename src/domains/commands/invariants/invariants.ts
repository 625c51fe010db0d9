/**
 * What must be true of commands, effects and approvals at every moment, each as one query that finds nothing: its name, what a
 * row of it means, and what to do about it. They hold in any snapshot, so they may be asked of a system at work.
 */
import { commandMoves, effectMoves, type PlannedMoves } from './planned-moves.ts'

export type Invariant = {
  readonly code: string
  /** What holds. */
  readonly name: string
  /** What a row of the query means. */
  readonly meaning: string
  readonly next: string
  /** One column `id`: the command, effect, approval or event that breaks it. */
  readonly sql: string
  readonly values?: readonly unknown[]
}

/** Longer than the reconciler needs for anything that was lost. */
const OVERDUE_MINUTES = 5

const ended = `('succeeded', 'failed', 'cancelled', 'expired', 'compensated')`
const restore =
  'Compare with a backup: rows were changed by something else than Concord, or Concord has a fault worth reporting.'
const commandMove = `e.event_type = 'status_changed' and e.payload->>'target_type' = 'command'`
/** Approvals that gate a command and still count; a question about an effect is another matter. */
const gate = `a.domain_effect_id is null and a.superseded_by is null and a.status <> 'cancelled'`

/** What is archived is told by its files: `R01` reads those. Asked only of rows that do not fit. */
const inTable = (commandId: string) =>
  `not exists (select from concord.history_archives as h where h.command_ids @> array[${commandId}])`

const outside = (moves: PlannedMoves) => [moves.map(([from]) => from), moves.map(([, to]) => to)]

export const commandInvariants: readonly Invariant[] = [
  {
    code: 'C03',
    name: 'one key, one command',
    meaning: 'Two commands of a workspace have the same idempotency key.',
    next: 'Cancel the later one if it still can be, and see whether its effects were done twice.',
    sql: `select min(c.command_id::text) as id from concord.commands as c where c.idempotency_key is not null
group by c.workspace_id, c.idempotency_key having count(*) > 1`,
  },
  {
    code: 'C04',
    name: 'what is due is being done',
    meaning: `A command has been due for over ${OVERDUE_MINUTES} minutes and nobody has its turn.`,
    next: 'See that a server or a worker runs on this database; its log says what stops it.',
    sql: `select c.command_id as id from concord.commands as c where c.completed_at is null
  and c.run_after < now() - interval '${OVERDUE_MINUTES} minutes' and coalesce(c.turn_until, '-infinity') < now() - interval '${OVERDUE_MINUTES} minutes'`,
  },
  {
    code: 'C06',
    name: 'the status is the last move',
    meaning: 'The status on the row is not the one that the last event about it tells.',
    next: restore,
    sql: `select c.command_id as id from concord.commands as c left join lateral (
  select e.payload->>'to' as status from concord.domain_events as e
  where e.command_id = c.command_id and ${commandMove} order by e.seq desc limit 1) as last on true
where coalesce(last.status, 'created') <> c.status and ${inTable('c.command_id')}`,
  },
  {
    code: 'C07',
    name: 'no hole in the history',
    meaning: 'A move of a command does not begin where the one before it ended.',
    next: restore,
    sql: `select x.event_id as id from (
  select e.event_id, e.command_id, e.payload->>'from' as origin, lag(e.payload->>'to', 1, 'created') over (partition by e.command_id order by e.seq) as before
  from concord.domain_events as e where ${commandMove}) as x
where x.origin is distinct from x.before and ${inTable('x.command_id')}`,
  },
  {
    code: 'C08',
    name: 'only moves of the machine',
    meaning: 'A command or an effect made a move that its machine does not have.',
    next: restore,
    sql: `select e.event_id as id from concord.domain_events as e
where e.event_type in ('status_changed', 'effect_executed', 'effect_failed') and case e.payload->>'target_type'
  when 'command' then (e.payload->>'from', e.payload->>'to') not in (select * from unnest($1::text[], $2::text[]))
  when 'effect' then (e.payload->>'from', e.payload->>'to') not in (select * from unnest($3::text[], $4::text[]))
  else false end`,
    values: [...outside(commandMoves), ...outside(effectMoves)],
  },
  {
    code: 'E01',
    name: 'one key, one deed',
    meaning: 'Two effects of a workspace that were begun have the same key.',
    next: 'Ask the provider about the key, and undo the second one.',
    sql: `select min(e.domain_effect_id::text) as id from concord.domain_effects as e
where e.idempotency_key is not null and e.status in ('executing', 'succeeded')
group by e.workspace_id, e.idempotency_key having count(*) > 1`,
  },
  {
    code: 'E05',
    name: 'nothing is under way where all has ended',
    meaning: 'An effect is still under way although its command has ended: nobody will find out what became of it.',
    next: 'Ask the provider about its key; `concord why` shows the command.',
    sql: `select e.domain_effect_id as id from concord.domain_effects as e join concord.commands as c on c.command_id = e.command_id
where e.status = 'executing' and c.status in ${ended}`,
  },
  {
    code: 'E06',
    name: 'undone once, and only what was done',
    meaning: 'An effect was undone twice, or was undone without having been done.',
    next: 'Ask the provider about the keys that begin with `undo:`.',
    sql: `select o.domain_effect_id as id from concord.domain_effects as o
join concord.domain_effects as k on k.compensates_effect_id = o.domain_effect_id
group by o.domain_effect_id, o.status having count(*) filter (where k.status = 'succeeded') > 1 or o.status <> 'succeeded'`,
  },
  {
    code: 'E07',
    name: 'undone in reverse',
    meaning: 'An effect was undone before a later one that had been done already.',
    next: 'See whether the later effect rested on the earlier one.',
    sql: `select k.domain_effect_id as id from concord.domain_effects as k
join concord.domain_effects as o on o.domain_effect_id = k.compensates_effect_id
join concord.domain_effects as later on later.command_id = k.command_id and later.compensates_effect_id is not null
  and later.status = 'succeeded' and later.declaration_order > k.declaration_order
join concord.domain_effects as first on first.domain_effect_id = later.compensates_effect_id
where k.status = 'succeeded' and first.declaration_order > o.declaration_order and first.completed_at <= k.created_at`,
  },
  {
    code: 'E08',
    name: 'finished means that every step is settled',
    meaning: 'A command has succeeded although it has no plan, or a step of its plan has no effect that succeeded.',
    next: 'See with `concord why` what was left out, and submit it again under a new key.',
    sql: `select c.command_id as id from concord.commands as c where c.status = 'succeeded' and (c.plan is null or exists (
  select from jsonb_path_query(c.plan, '$.steps[*].metadata.domain_effect_id') as step(id)
  left join concord.domain_effects as e on e.domain_effect_id = (step.id #>> '{}')::uuid and e.command_id = c.command_id
  where e.status is distinct from 'succeeded'))`,
  },
  {
    code: 'E09',
    name: 'what is blocked waits for somebody',
    meaning: 'A command is blocked, and neither a question to a person nor a command that it waits for is open.',
    next: 'Cancel it, or ask for its turn: `concord why` shows what it waited for.',
    sql: `select c.command_id as id from concord.commands as c where c.status = 'blocked'
  and (c.run_after is null or c.run_after < now() - interval '${OVERDUE_MINUTES} minutes')
  and not exists (select from concord.approvals as a where a.command_id = c.command_id and a.status = 'pending')
  and not exists (select from concord.domain_effects as e join concord.commands as w on w.command_id = (e.read_back->>'command_id')::uuid
    where e.command_id = c.command_id and e.status = 'executing' and w.completed_at is null)`,
  },
  {
    code: 'A01',
    name: 'nothing is done before every yes',
    meaning: 'An effect was begun although an approval of its command was missing, or came later.',
    next: 'Undo it if it can be undone, and find out who began it: `concord why`.',
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
    meaning: 'Two decisions about one approval are on record.',
    next: restore,
    sql: `select e.payload->>'target_id' as id from concord.domain_events as e
where e.event_type = 'approval_decided' and e.payload->>'target_type' = 'approval' group by 1 having count(*) > 1`,
  },
  {
    code: 'A03',
    name: 'decided in time',
    meaning: 'An approval was decided at or after its deadline.',
    next: restore,
    sql: `select a.approval_id as id from concord.approvals as a where a.status in ('approved', 'rejected') and a.decided_at >= a.expires_at`,
  },
  {
    code: 'A04',
    name: 'decided by somebody else',
    meaning: 'The one who asked has decided, which this approval does not allow.',
    next: 'Have the right person look at what was done.',
    sql: `select a.approval_id as id from concord.approvals as a where not a.self_decision_allowed
  and (a.decided_by = a.requested_by or a.requested_by = any(a.approved_by))`,
  },
  {
    code: 'A05',
    name: 'decided by a person',
    meaning: 'An agent has decided.',
    next: 'Have a person look at what was done.',
    sql: `select a.approval_id as id from concord.approvals as a where a.decided_by like 'agent:%'`,
  },
  {
    code: 'A06',
    name: 'what was approved is what runs',
    meaning: 'The content that was approved is not the one that was planned.',
    next: 'Cancel the command, and have what it did looked at.',
    sql: `select a.approval_id as id from concord.approvals as a join concord.commands as c on c.command_id = a.command_id
where a.status = 'approved' and ${gate} and c.plan is not null and a.payload_hash <> c.payload_hash`,
  },
]
