/** Every invariant finds nothing after normal work, and finds the violation that is planted for it. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { decideApproval } from '#domains/approvals'
import { type Db, openDb, type Tx } from '#store'
import { decider, openTestRoom, pendingOf, type TestRoom } from '#test/commands'
import { TRACE } from '#test/tenant'
import { cancelCommand } from '../cancel-command.ts'
import { actingFor } from '../deps.ts'
import { findBrokenInvariants, invariantCount, listBroken } from './find-broken-invariants.ts'
import { commandInvariants } from './invariants.ts'
import { byPerson } from '#kernel/actor'

class TakeBack extends Error {}

describe('the invariants of commands', () => {
  let room: TestRoom
  let superuser: Db
  const ids = { done: '', approved: '', cancelled: '', blocked: '' }

  before(async () => {
    room = await openTestRoom()
    // The login of the test server is a superuser; only the connections of the room take a role.
    superuser = openDb({ url: room.db.config.url, poolMax: 1 })
    await runCommands()
  })
  after(async () => {
    await superuser.close()
    await room.close()
  })

  async function runCommands(): Promise<void> {
    const two = ['connector.hotel.book_a', 'connector.hotel.book_b']
    ids.done = await room.submit({ subject: 'done', steps: two })
    assert.equal(await room.settle(ids.done), 'succeeded')
    ids.approved = await room.submit({ subject: 'approved', decide: 'require_approval', steps: two })
    await room.settle(ids.approved)
    await decideApproval({ ...room.approvals, db: room.db }, byPerson(decider(room), TRACE), {
      workspaceId: room.tenant.workspace.id,
      approvalId: await pendingOf(room, ids.approved),
      decision: 'approved',
    })
    assert.equal(await room.settle(ids.approved), 'succeeded')
    room.provider.modes.push('ok', 'ok', 'fail_before')
    ids.cancelled = await room.submit(
      { subject: 'cancelled', steps: [...two, 'connector.ticket.open'] },
      { taskName: 'Booking' },
    )
    assert.equal(await room.settle(ids.cancelled), 'running')
    await cancelCommand(room.world, actingFor(room.tenant.people.admin.principal, TRACE), {
      workspaceId: room.tenant.workspace.id,
      commandId: ids.cancelled,
    })
    assert.equal(await room.settle(ids.cancelled), 'cancelled')
    room.provider.modes.push('fail_after')
    ids.blocked = await room.submit({ subject: 'blocked', steps: ['connector.mail.send'] })
    assert.equal(await room.settle(ids.blocked), 'blocked')
  }

  /** Plants a violation, checks, and rolls everything back, dropped constraints included. */
  async function codesAfter(plant: (tx: Tx) => Promise<unknown>): Promise<readonly string[]> {
    let codes: readonly string[] = []
    await superuser
      .transaction(async (tx) => {
        await tx.query('set local session_replication_role = replica')
        await plant(tx)
        codes = (await listBroken(tx)).map(({ code }) => code)
        throw new TakeBack()
      })
      .catch((error: unknown) => {
        if (!(error instanceof TakeBack)) throw error
      })
    return codes
  }

  test('[EVT-11] [EVT-12] normal work violates none of them: the state rebuilt from the events is the state on the rows', async () => {
    assert.deepEqual(await findBrokenInvariants(room.db), [])
    assert.equal(invariantCount, commandInvariants.length + 2)
    assert.equal(new Set(commandInvariants.map(({ code }) => code)).size, commandInvariants.length)
    for (const { meaning, next } of commandInvariants) assert.match(`${meaning} ${next}`, /^[A-Z].*\. [A-Z].*\.$/)
  })

  const move = (from: string, to: string) =>
    `insert into concord.journal (entry_id, workspace_id, command_id, trace_id, events)
     select gen_random_uuid(), c.workspace_id, c.command_id, 'trace', json_build_array(json_build_object('type', 'status_changed', 'actor', 'worker',
       'payload', json_build_object('target_type', 'command', 'target_id', c.command_id, 'from', '${from}', 'to', '${to}')))
     from concord.commands as c where c.command_id = $done`

  /** `$name` is the id of the command of that name. The first code is the planted violation; the others follow from it. */
  const plants: readonly (readonly [codes: readonly string[], ...sql: readonly string[]])[] = [
    [
      ['C03'],
      'drop index concord.commands_idempotency_key_uq',
      `update concord.commands set idempotency_key = 'twice', request_fingerprint = 'f' where command_id in ($done, $approved)`,
    ],
    [['C04'], `update concord.commands set run_after = now() - interval '1 hour' where command_id = $blocked`],
    [['C06', 'R01'], `update concord.commands set status = 'failed' where command_id = $done`],
    [['C07', 'R01'], move('running', 'succeeded')],
    [['C08'], move('succeeded', 'succeeded')],
    [
      ['E01', 'R01'],
      'drop index concord.idx_domain_effects_idem',
      `update concord.domain_effects set idempotency_key = 'twice' where command_id = $done`,
    ],
    [
      ['E05', 'E08', 'R01'],
      `update concord.domain_effects set status = 'executing', completed_at = null where command_id = $done and declaration_order = 1`,
    ],
    [
      ['E06', 'R01'],
      `update concord.domain_effects set status = 'failed' where command_id = $cancelled and declaration_order = 0`,
    ],
    [
      ['E07', 'R01'],
      `update concord.domain_effects as k set compensates_effect_id = (select o.compensates_effect_id from concord.domain_effects as o
         where o.command_id = k.command_id and o.compensates_effect_id is not null and o.domain_effect_id <> k.domain_effect_id)
       where k.command_id = $cancelled and k.compensates_effect_id is not null`,
    ],
    [
      ['E08'],
      `update concord.commands set plan = jsonb_set(plan, '{steps,1,metadata,domain_effect_id}', to_jsonb(gen_random_uuid())) where command_id = $done`,
    ],
    [['E08', 'R01'], `update concord.commands set plan = null where command_id = $done`],
    [['E09'], `delete from concord.approvals where command_id = $blocked`],
    [
      ['A01'],
      `update concord.approvals set status = 'pending', decided_at = null, decided_by = null where command_id = $approved`,
    ],
    [
      ['A02', 'A01'],
      `insert into concord.journal (entry_id, workspace_id, command_id, trace_id, events)
       select gen_random_uuid(), workspace_id, command_id, trace_id,
         json_build_array(json_build_object('type', event_type, 'purpose', purpose, 'actor', actor, 'payload', payload))
       from concord.domain_events where command_id = $approved and event_type = 'approval_decided'`,
    ],
    [
      ['A03'],
      'alter table concord.approvals drop constraint approvals_in_time_ck',
      `update concord.approvals set expires_at = decided_at where command_id = $approved`,
    ],
    [
      ['A04'],
      'alter table concord.approvals drop constraint approvals_self_decision_ck',
      `update concord.approvals set decided_by = requested_by where command_id = $approved`,
    ],
    [
      ['A05'],
      'alter table concord.approvals alter column decided_by type text',
      `update concord.approvals set decided_by = 'agent:7' where command_id = $approved`,
    ],
    [['A06'], `update concord.approvals set payload_hash = 'another' where command_id = $approved`],
    [['R01'], `update concord.commands set cancellation_requested = true where command_id = $done`],
    [
      ['R01'],
      'alter table concord.journal disable trigger journal_append_only',
      `update concord.journal as j set events = (select json_agg(json_build_object('type', e.event_type, 'purpose', e.purpose, 'actor', e.actor,
         'payload', e.payload) order by e.seq) from concord.domain_events as e where e.entry_id = j.entry_id and e.event_type <> 'effect_planned')
       where j.command_id = $done`,
    ],
  ]
  for (const [codes, ...sql] of plants) {
    test(`${codes[0]} finds its planted violation: ${sql.at(-1)?.replaceAll(/\s+/g, ' ').slice(0, 70)}`, async () => {
      const found = await codesAfter(async (tx) => {
        for (const text of sql) {
          await tx.query(text.replaceAll(/\$([a-z]+)/g, (_, name: keyof typeof ids) => `'${ids[name]}'`))
        }
      })
      assert.deepEqual(found.toSorted(), [...codes].toSorted())
    })
  }

  test('every invariant has a planted violation', () => {
    const planted = new Set(plants.flatMap(([codes]) => codes.slice(0, 1)))
    assert.deepEqual(
      [...commandInvariants.map(({ code }) => code), 'R01'].filter((code) => !planted.has(code)),
      [],
    )
  })
})
