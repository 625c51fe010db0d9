import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { allMachines } from '#kernel/machines/index'
import { assertFindings, assertTidy } from './finding.ts'
import { checkLists, checkMachines } from './machines.ts'
import { plantTree, readTree } from './tree.ts'

const effect = {
  name: 'effect',
  states: { planned: 'pending', executing: 'running', succeeded: 'terminal' },
  moves: [
    { from: 'planned', to: 'executing' },
    { from: 'executing', to: 'succeeded' },
  ],
}
const dump = `create table concord.domain_effects (
  status text not null default 'planned'::text,
  constraint domain_effects_status_ck CHECK ((status = ANY (ARRAY['planned'::text, 'executing'::text, 'succeeded'::text]))),
  constraint domain_effects_ended_ck CHECK (((status = ANY (ARRAY['succeeded'::text])) = (completed_at IS NOT NULL)))
);
`
const page = `# effect

## States

| State | Type |
|---|---|
| \`planned\` | pending |
| \`executing\` | running |
| \`succeeded\` | terminal |

## Moves

| From | To | By |
|---|---|---|
| (new) | \`planned\` | system |
| \`planned\` | \`executing\` | system |
| \`executing\` | \`succeeded\` | system |
`
const found = (changes: { dump?: string; page?: string; extra?: string } = {}, waiting: string[] = []) =>
  checkMachines(
    plantTree({
      'src/store/schema.sql': changes.dump ?? dump,
      'docs/machines/effect.md': changes.page ?? page,
      'docs/machines/README.md': '',
      ...(changes.extra === undefined ? {} : { [changes.extra]: '' }),
    }),
    [effect],
    waiting,
  )

describe('machines', () => {
  test('three places that agree', () => assertFindings(found(), []))

  test('a state that the database does not know', () => {
    assertFindings(found({ dump: dump.replace(", 'succeeded'::text]))),", ']))),') }), [
      'src/store/schema.sql: concord.domain_effects.status: succeeded is in the kernel only',
    ])
  })

  test('a state that only the database knows', () => {
    assertFindings(found({ dump: dump.replace("ARRAY['planned'::text", "ARRAY['skipped'::text, 'planned'::text") }), [
      'src/store/schema.sql: concord.domain_effects.status: skipped is not in the kernel',
    ])
  })

  test('a column without a closed list', () => {
    assertFindings(found({ dump: dump.replace('status_ck CHECK ((status = ANY', 'status_ck CHECK ((kind = ANY') }), [
      'src/store/schema.sql: concord.domain_effects.status has no closed list for effect',
    ])
  })

  test('a drawing with another type, a move too many and a move too few', () => {
    const wrong = page
      .replace('| running |', '| paused |')
      .replace('| `executing` | `succeeded` |', '| `planned` | `succeeded` |')
    assertFindings(found({ page: wrong }), [
      'docs/machines/effect.md: executing (running) is in the kernel only',
      'docs/machines/effect.md: executing (paused) is not in the kernel',
      'docs/machines/effect.md: executing → succeeded is in the kernel only',
      'docs/machines/effect.md: planned → succeeded is not in the kernel',
    ])
  })

  test('a drawing without a machine', () => {
    assertFindings(found({ extra: 'docs/machines/ghost.md' }), [
      'docs/machines/ghost.md: draws a machine that the kernel does not have',
    ])
  })

  test('a machine that waits for a table which has come', () => {
    assertFindings(found({}, ['effect']), ['test/tidy/machines.ts: effect has its table now; take it off the list'])
  })

  test('lists are read as Postgres prints them for text and for varchar', () => {
    const varchar = `create table missions.runs (
  constraint a CHECK (((state)::text = ANY ((ARRAY['pending'::character varying, 'running'::character varying])::text[]))),
  constraint b CHECK ((kind = ANY (ARRAY['x'::text])))
);`
    assert.deepEqual(
      [...checkLists(varchar)],
      [
        ['missions.runs.state', ['pending', 'running']],
        ['missions.runs.kind', ['x']],
      ],
    )
  })

  test('lists are read from the domain of a column, and a domain without one is no list', () => {
    const drawn = `create domain concord.effect_status as text constraint effect_status_ck CHECK ((VALUE = ANY (ARRAY['planned'::text, 'failed'::text])));
create domain concord.filled_text as text constraint filled_text_ck CHECK ((VALUE <> ''::text));
create table concord.domain_effects (
  effect_type concord.filled_text   not null,
  status      concord.effect_status not null default 'planned'::text,
  constraint domain_effects_completed_at_ck CHECK ((((status)::text = ANY ('{failed}'::text[])) = (completed_at IS NOT NULL)))
);`
    assert.deepEqual([...checkLists(drawn)], [['concord.domain_effects.status', ['planned', 'failed']]])
  })

  test('kernel, database and drawings agree on every state and move', () => {
    assert.ok(allMachines.length > 0)
    assertTidy(checkMachines(readTree(), allMachines))
  })
})
