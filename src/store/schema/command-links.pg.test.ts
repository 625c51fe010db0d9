/** Everything that a command sets going names its command; what does not is listed with its reason. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openTestDb } from '#test/database'

/** Tables of the schema that no single command owns. */
const others: Readonly<Record<string, string>> = {
  commands: 'is the command',
  command_dependencies: 'names two commands, child and parent',
  domain_event_seals: 'seals the events of a whole workspace',
  history_archives: 'names every command whose events it holds',
  signals: 'another system sends it, and any command may wait for it',
  notification_reads: 'part of a call, which has its command',
  connector_definitions: 'a person approves it, no command does',
  memory_consents: 'a person agrees, no command does',
  memory_holds: 'an administrator places it',
  memory_reads: 'anybody reads, commands and people alike',
  memory_derivations: 'between two memories, each with its command',
  budget_entries: 'part of an account, which has its command',
  agent_messages: 'part of a run, which has its command',
  envelope_calls: 'part of an envelope, which is a command',
  memory_embeddings: 'part of a memory, which has its command',
}

test('[PRM-04] [EFF-09] effects, artifacts, events, approvals and runs carry their command_id', async () => {
  const opened = await openTestDb()
  try {
    const tables = await opened.db.query<{ name: string; linked: boolean }>(
      `select c.relname as name, exists (select from pg_attribute a where a.attrelid = c.oid and a.attname = 'command_id' and not a.attisdropped) as linked
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where n.nspname = 'concord' and c.relkind in ('r', 'p') order by 1`,
    )
    for (const name of ['domain_effects', 'journal', 'approvals', 'artifacts', 'agent_runs', 'swarm_runs'])
      assert.ok(
        tables.some((table) => table.name === name && table.linked),
        name,
      )
    const unlinked = tables
      .filter(({ name, linked }) => !linked && !Object.hasOwn(others, name))
      .map(({ name }) => name)
    assert.deepEqual(unlinked, [], 'these name no command: link them, or say here why not')
  } finally {
    await opened.close()
  }
})
