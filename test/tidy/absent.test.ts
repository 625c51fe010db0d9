import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { checkAbsent, checkUnspoken, tablesOf } from './absent.ts'
import { assertFindings, assertTidy } from './finding.ts'
import { plantTree, readTree } from './tree.ts'

const dump = `create table concord.commands (
  command_id uuid not null,
  claimed_by text,
  constraint commands_pk PRIMARY KEY (command_id)
);
create table concord.pf_audit_log (
  id uuid
);
create table flow.tasks (
  lease_until timestamp with time zone
);
`
const planted = plantTree({
  'src/store/schema.sql': dump,
  'src/domains/flow/a.ts': '// no Worker\nexport class Worker {}\n',
})

describe('absent', () => {
  test('tables and columns are read from the dump', () => {
    assert.deepEqual(
      [...tablesOf(dump)],
      [
        ['concord.commands', ['command_id', 'claimed_by']],
        ['concord.pf_audit_log', ['id']],
        ['flow.tasks', ['lease_until']],
      ],
    )
  })

  test('a forbidden table, column or word is found, in its own schema only', () => {
    assertFindings(checkAbsent(planted, ['claimed_by', 'lease_until', 'pf_*']), [
      'src/store/schema.sql: has the column concord.commands.claimed_by',
      'src/store/schema.sql: has the table concord.pf_audit_log',
    ])
    assertFindings(checkUnspoken(planted, ['Worker']), ['src/domains/flow/a.ts:2: says Worker, which the runtime owns'])
  })

  const tree = readTree()
  const without = (...names: string[]) => {
    assert.ok(tablesOf(tree.get('src/store/schema.sql') ?? '').size > 0, 'the dump shows no table at all')
    assertTidy(checkAbsent(tree, names))
  }

  test('no table of tasks to claim', () => without('task_queue', 'worker_claims', 'claimed_by', 'lease_until'))
  test('[SUP-04] effects have no outbox', () => without('effect_outbox'))
  test('[SUP-05] one table of events, not three', () => {
    without('command_events', 'domain_audit_log', 'agent_steps')
    const dumped = tree.get('src/store/schema.sql') ?? ''
    assert.doesNotMatch(dumped, /idx_agent_steps_/)
    const comment = /^comment on table concord\.domain_events is '([^;]*)';$/m.exec(dumped)?.[1] ?? ''
    for (const replaced of ['command_events', 'domain_audit_log', 'agent_steps'])
      assert.match(comment, new RegExp(replaced))
  })
  test('[SUP-08] tables carry no prefix', () => without('pf_*'))
  test('[SUP-16] there is no worker of our own', () => assertTidy(checkUnspoken(tree, ['Worker'])))
  test('[SUP-17] a task run is a view of an effect, not a table', () => without('task_runs', 'pf_task_runs'))
})
