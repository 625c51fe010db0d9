/** What carries each kind of work: the runtime, a step of a command, or a transaction. One process does all of them, then its rows are read. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { z } from 'zod'
import { type Concord, openInProcess } from '#app/open-concord'
import { defineAgent, defineSwarm } from '#domains/agents'
import { allow, ask, defineCommand, defineEffect, sleepFor } from '#domains/commands'
import { defineConnector, failed, succeeded } from '#domains/connectors'
import { type Db, openDb } from '#store'
import { openLog } from '#app/log'
import { openTestDb, type TestDb } from '#test/database'

let failures = 1
const desk = defineConnector({
  name: 'desk',
  connector_type: 'desk',
  description: 'Files papers.',
  operations: [
    {
      name: 'file',
      description: 'Files one paper.',
      input: z.strictObject({ paper: z.string() }),
      output: z.object({ filed: z.boolean() }),
      side_effect_class: 'keyed',
      risk_level: 'low',
      backoff_seconds: [0.05, 0.05],
    },
  ],
  open: () => ({
    name: 'desk',
    connector_type: 'desk',
    capabilities: () => ['file'],
    call() {
      failures -= 1
      const busy = { error_class: 'rate_limited', message: 'Not now.', happened: 'no', retry_after_ms: 1 } as const
      return Promise.resolve(failures >= 0 ? failed(busy) : succeeded({ filed: true }))
    },
  }),
})
const write = defineEffect('artifact.paper', {
  input: z.object({}),
  class: 'keyed',
  do: async ({ artifacts }) => ({
    artifact_id: (await artifacts.write({ type: 'report', content: { text: 'A paper.' } })).artifact_id,
  }),
})
const notify = defineEffect('notification.app', {
  input: z.object({ recipient: z.string(), task_name: z.string() }),
  class: 'read',
  bounded: true,
  do: () => Promise.resolve({}),
})
const add = defineEffect('math.add', {
  input: z.object({ n: z.number() }),
  class: 'read',
  bounded: true,
  do: ({ input: { n } }) => Promise.resolve({ sum: n + 1 }),
})
const addOne = defineCommand('add_one', { input: z.object({ n: z.number() }), policy: allow, steps: (n) => [add(n)] })
const filePaper = defineCommand('file_paper', {
  input: z.object({ paper: z.string() }),
  key: 'file_paper:{paper}',
  policy: () => ask(1, 'approver', 'Papers stay.'),
  steps: ({ paper }) => [write({}), desk.file({ paper })],
  uses: [notify],
})
const rest = defineCommand('rest', { input: z.object({}), policy: allow, steps: () => [sleepFor('30d')] })
const done = { name: 'scripted', transcript: [{ final: { text: 'Done.' } }] }
const agent = defineAgent('Think', {
  input: z.object({}),
  goal: () => 'Think.',
  role: 'analyst',
  tools: [],
  runtime: done,
})
const swarm = defineSwarm('think_together', {
  objective: 'Think.',
  execution_mode: 'parallel',
  join_strategy: 'all_success',
  runtime: done,
  coordinator: { agent_name: 'lead', agent_role: 'coordinator', allowed_tools: ['spawn_subagent'] },
  agents: [{ agent_name: 'one', agent_role: 'worker', delegated_goal: 'Think.', allowed_tools: [] }],
})
const style = {
  name: 'user.style',
  subject_type: 'user',
  memory_types: ['preference'],
  visibility: ['user'],
  consent: { required: true },
  confidence: { direct_from: 0.8 },
  expiration: { after_days: 365 },
  supersession: 'supersede',
  retrieval: ['subject'],
  write_policy: 'direct',
  sensitivity: 'internal',
} as const

/** Every turn that the runtime gave, since the book keeps only those that are open. */
const NOTE_TURNS = `
create table public.turns (kind text, id text, queue text, due_at timestamptz);
create function public.note_turn() returns trigger language plpgsql as $$
begin insert into public.turns values (new.kind, new.id, new.queue, new.due_at); return new; end $$;
create trigger note_turn after insert or update on runtime.processes for each row execute function public.note_turn();
grant insert on public.turns to public;`

describe('what carries each kind of work', () => {
  let database: TestDb
  let home: string
  let owner: Db
  let concord: Concord
  const ids = { inline: '', filed: '', again: '', rest: '', agent: '', swarm: '', memory: '' }
  let waitedWithoutTurn = false

  before(async () => {
    database = await openTestDb()
    home = await mkdtemp(join(tmpdir(), 'concord-mapping-'))
    owner = openDb({ url: database.url, poolMax: 2 })
    const opened = await openInProcess({
      project: {
        catalog: [addOne, filePaper, rest],
        agents: [agent],
        swarms: [swarm],
        connectors: [desk],
        memory: { schemas: [style] },
      },
      databaseUrl: database.url,
      home,
      settings: { CONCORD_UNSAFE_TEST: '1', CONCORD_COUNT_INVITED_APPROVERS: '1' },
      log: openLog('silent'),
    })
    concord = opened.concord
    await owner.query(NOTE_TURNS)
    await work()
  })
  after(async () => {
    await concord.close()
    await owner.close()
    await database.close()
    await rm(home, { recursive: true, force: true })
  })

  async function work(): Promise<void> {
    const ben = await hireApprover()
    const idOf = async (handle: Promise<{ readonly command_id: string }>) => rawId((await handle).command_id)
    ids.inline = await idOf(concord.submit(addOne, { n: 1 }))
    const filed = await concord.submit(filePaper, { paper: 'a' })
    ids.filed = rawId(filed.command_id)
    ids.rest = await idOf(concord.submit(rest, {}))
    const thinking = [await concord.submit(agent, {}), await concord.submit(swarm, {})] as const
    ids.agent = rawId(thinking[0].command_id)
    ids.swarm = rawId(thinking[1].command_id)
    const body = { name: 'yearly', command_type: 'add_one', cron: '0 0 1 1 *', payload: { n: 1 } }
    assert.equal((await concord.api.POST('/schedules', { body })).response.status, 201)
    const { data: me } = await concord.api.GET('/me')
    const about = { subject: `user:${me?.user_id}`, memory_type: 'preference', scope: 'user' } as const
    await concord.api.POST('/memory/consents', { body: about })
    const wish = { ...about, schema_name: style.name, confidence: 1, content: { style: 'short' } }
    const memory = await concord.api.POST('/memory', { body: wish })
    const remembered = memory.data ?? assert.fail(JSON.stringify(memory.error))
    ids.memory = rawId(remembered.command_id)
    await concord.wait(remembered.command_id)
    for (const each of thinking) assert.equal((await concord.wait(each)).status, 'succeeded')
    assert.equal((await concord.wait(filed)).status, 'waiting_for_approval')
    const [open] = await owner.query('select from runtime.processes where kind = $1 and id = $2', [
      'command',
      ids.filed,
    ])
    waitedWithoutTurn = open === undefined
    const [card] = await ben.inbox(filed.command_id)
    await ben.approve(card ?? assert.fail('nobody was asked'))
    const ended = await concord.wait(filed)
    assert.equal(ended.status, 'succeeded', ended.error ?? '')
    ids.again = await idOf(concord.submit(filePaper, { paper: 'a' }))
  }

  async function hireApprover(): Promise<Concord> {
    const { api } = concord
    const { data: ben } = await api.POST('/people', { body: { external_id: 'local:ben', role: 'writer' } })
    const { data: redeemed } = await api.POST('/invitations/redeem', { body: { invitation: ben?.invitation ?? '' } })
    await api.POST('/org-roles', { body: { slug: 'approver', name: 'approver' } })
    const params = { path: { user_id: ben?.user_id ?? '' } }
    await api.POST('/people/{user_id}/org-roles', { params, body: { org_role: 'approver' } })
    return concord.as(redeemed?.key ?? '')
  }

  /** A row and the journal entry that was written in the same transaction. */
  const inOneCommit = (table: string) =>
    `select from concord.${table} r join concord.journal j on j.command_id = r.command_id and j.xmin = r.xmin where r.command_id = $1`
  const turnOf = (kind: string, id: string) =>
    `exists (select from public.turns t where t.kind = '${kind}' and t.id = ${id})`
  const effect = `select from concord.domain_effects e where e.command_id = $1 and e.status = 'succeeded'`
  const proofs: readonly (readonly [name: string, of: keyof typeof ids, sql: string])[] = [
    [
      'command submission',
      'rest',
      `select from concord.commands c where c.command_id = $1 and ${turnOf('command', 'c.command_id::text')}`,
    ],
    [
      'idempotency key',
      'again',
      `select from concord.commands where command_id = $1 and command_type = 'file_paper' and (select count(*) from concord.commands where command_type = 'file_paper') = 1`,
    ],
    [
      'sync primitive',
      'inline',
      `select from concord.commands c where c.command_id = $1 and c.status = 'succeeded' and not ${turnOf('command', 'c.command_id::text')}`,
    ],
    [
      'async primitive',
      'filed',
      `select from concord.domain_events where command_id = $1 and event_type = 'status_changed' and payload->>'to' = 'queued'`,
    ],
    [
      'queue',
      'agent',
      `select from concord.agent_runs r join public.turns t on t.id = r.agent_run_id::text where r.command_id = $1 and t.queue = 'agent_runs'`,
    ],
    ['retry', 'filed', `${effect} and e.effect_type = 'connector.desk.file' and e.attempt = 2`],
    [
      'schedule',
      'inline',
      `select from runtime.schedules s join schedules.command_schedules c on s.name = 'csched_' || replace(c.schedule_id::text, '-', '') where c.name = 'yearly' and $1::uuid is not null`,
    ],
    [
      'timer',
      'rest',
      `select from public.turns t join concord.commands c on t.id = c.command_id::text where c.command_id = $1 and t.due_at > now() + interval '29 days'`,
    ],
    [
      'external side effect',
      'filed',
      `${effect} and e.effect_type = 'connector.desk.file' and e.idempotency_key is not null`,
    ],
    ['Postgres write', 'filed', inOneCommit('commands')],
    [
      'agent run',
      'agent',
      `select from concord.agent_runs r where r.command_id = $1 and ${turnOf('agent_run', 'r.agent_run_id::text')}`,
    ],
    [
      'spawn',
      'swarm',
      `select from concord.swarm_runs s join concord.agent_invocations i using (swarm_run_id) join concord.commands c on c.command_id = i.command_id
      where s.command_id = $1 and c.command_type = 'spawn_subagent' and ${turnOf('agent_run', 'i.child_agent_run_id::text')} and ${turnOf('command', 'c.command_id::text')}`,
    ],
    [
      'swarm',
      'swarm',
      `select from concord.swarm_runs s join concord.agent_runs r using (swarm_run_id) where s.command_id = $1 and r.parent_agent_run_id is not null
      and ${turnOf('swarm_run', 's.swarm_run_id::text')} and ${turnOf('agent_run', 'r.agent_run_id::text')}`,
    ],
    [
      'approval wait',
      'filed',
      `select from concord.approvals a where a.command_id = $1 and a.status = 'approved' and ${turnOf('approval', 'a.approval_id::text')}`,
    ],
    [
      'connector call',
      'filed',
      `${effect} and (select count(*) from concord.connector_invocations i where i.domain_effect_id = e.domain_effect_id) = 2`,
    ],
    ['artifact write', 'filed', inOneCommit('artifacts')],
    [
      'memory write',
      'memory',
      `select from concord.memory_records m join concord.journal j on j.xmin = m.xmin join concord.domain_events e on e.command_id = j.command_id
      where j.command_id = $1 and e.event_type = 'policy_evaluated' and e.created_at <= m.created_at`,
    ],
    [
      'audit',
      'filed',
      `select from concord.approvals a join concord.journal j on j.command_id = a.command_id and j.xmin = a.xmin where a.command_id = $1 and j.audit_type is not null`,
    ],
  ]

  test('[RUN-09] each of the eighteen is carried by what the README says', async () => {
    const missing: string[] = []
    for (const [name, of, sql] of proofs) if ((await owner.query(sql, [ids[of]])).length === 0) missing.push(name)
    assert.deepEqual(missing, [])
    assert.ok(waitedWithoutTurn, 'a command that waits for a person has no turn')
    const readme = await readFile(new URL('../../src/runtime/README.md', import.meta.url), 'utf8')
    const [, table = ''] = readme.split('## What carries what')
    const named = [...(table.split('\n## ')[0]?.matchAll(/^\| ([^|]+) \|/gm) ?? [])].map(([, name]) => name)
    assert.deepEqual(
      named.slice(1),
      proofs.map(([name]) => name),
    )
  })

  test('[RUN-15] commands, agent runs and swarms have turns of their own; connector calls, artifacts, memories, approvals and notices are steps', async () => {
    const kinds = await owner.query<{ name: string }>('select distinct kind as name from public.turns')
    const steps = await owner.query<{ name: string }>(
      `select distinct effect_type as name from concord.domain_effects where status = 'succeeded'`,
    )
    const names = [...kinds, ...steps].map(({ name }) => name)
    const workflows = ['command', 'agent_run', 'swarm_run']
    const required = ['connector.desk.file', 'artifact.paper', 'memory.write', 'approval.request', 'notification.app']
    assert.deepEqual(
      [...workflows, ...required].filter((name) => !names.includes(name)),
      [],
    )
  })
})

const rawId = (shown: string) => shown.slice('cmd_'.length)
