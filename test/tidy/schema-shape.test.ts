import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkSchemaShape } from './schema-shape.ts'
import { readTree, type Tree } from './tree.ts'

const tree = readTree()
const dumpPath = 'src/store/schema.sql'
const readmePath = 'src/store/README.md'

/** The real picture with one mistake. */
function found(path: string, from: string | RegExp, to: string) {
  const text = tree.get(path) ?? ''
  const planted: Tree = new Map([...tree, [path, text.replace(from, to)]])
  return checkSchemaShape(planted)
}

describe('the shape of the schema', () => {
  test('[PER-01] a blob in a row is found', () =>
    assertFindings(
      found(dumpPath, 'create table concord.artifacts (\n', 'create table concord.artifacts (\n  content bytea,\n'),
      [`${dumpPath}: concord.artifacts.content is bytea: content lies outside, a row says where`],
    ))

  test('[PER-01] a row that does not say where its content lies is found', () =>
    assertFindings(found(dumpPath, /^ {2}location /m, '  place '), [`${dumpPath}: concord.artifacts has no location`]))

  test('[PER-01] a log that a role may change is found', () =>
    assertFindings(
      found(
        dumpPath,
        'grant insert, select on concord.memory_reads to concord_app',
        'grant insert, select, update on concord.memory_reads to concord_app',
      ),
      [`${dumpPath}: concord.memory_reads is append-only, and concord_app may change it`],
    ))

  test('[PER-01] a thing that cannot grow without a migration is found', () =>
    assertFindings(
      found(
        dumpPath,
        /(create table concord\.swarm_runs \([\s\S]*?\n\))/,
        'create table concord.swarm_runs (\n  swarm_run_id uuid\n)',
      ),
      [`${dumpPath}: concord.swarm_runs has no JSON column: what differs by type needs a migration each time`],
    ))

  test('[PER-01] an undocumented table, and a documented one that does not exist, are found', () => {
    assertFindings(
      found(
        dumpPath,
        'create table concord.commands (',
        'create table concord.command_notes (\n  id uuid\n);\ncreate table concord.commands (',
      ),
      [`${readmePath}: does not tell of concord.command_notes`],
    )
    assertFindings(found(readmePath, 'swarm_runs, agent_runs,', 'swarm_runs, agent_notes, agent_runs,'), [
      `${readmePath}: documents concord.agent_notes, which does not exist`,
    ])
  })

  test('[PER-01] few tables, logs that only grow, types that grow in JSONB, blobs outside', () =>
    assertTidy(checkSchemaShape(tree)))
})
