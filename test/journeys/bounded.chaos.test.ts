/** A server with a heap of 256 MB answers every list about rows of megabytes: pages end at 4 MiB, and the cursor continues. */
import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { encodeId } from '#kernel/ids'
import { withServer } from '#test/with-server'

const COMMANDS = 290
/** The server also runs commands of its own, by its schedules. The counts are those of this requester. */
const REQUESTER = '0197f3b2-c4d5-7a8e-9b0c-000000000000'
const EVENTS = 30
const PAGE_BYTES = 4 * 1024 * 1024
/** The answer repeats what the database measured, under other names. */
const ANSWER_BYTES_MAX = PAGE_BYTES * 1.1

type Page = { readonly items: readonly Record<string, unknown>[]; readonly next_cursor: string | null }

describe('lists of large rows', () => {
  const server = withServer({ env: () => ({ NODE_OPTIONS: '--max-old-space-size=256' }) })
  let key = ''
  let largest = ''

  before(async () => {
    key = await server.adminKey()
    const { db } = server.database
    const [workspace] = await db.query<{ id: string }>(`select id from identity.workspaces where slug = 'default'`)
    assert.ok(workspace)
    // A million characters compress to 12 KB in the table. Small arrays, in the newest commands, take the most memory when they are parsed.
    await db.query(
      `with made as materialized (select jsonb_build_object('note', repeat('x', 1000000)) as payload, jsonb_build_object('text', repeat('y', 1000000)) as text,
         jsonb_build_object('rows', ('[' || repeat('[],', 330000) || '[]]')::jsonb) as small)
       insert into concord.commands (command_id, workspace_id, command_type, requested_by, ingress, payload, context, status, payload_hash,
         result, plan, completed_at)
       select ('0197f3b2-c4d5-7a8e-9b0c-' || lpad(to_hex(n), 12, '0'))::uuid, $1, 'report', 'user:${REQUESTER}',
         'user_request', made.payload, jsonb_build_object('trace_id', 'trace_' || n), 'succeeded', 'h',
         case when n <= ${COMMANDS} - 12 then made.text else made.small end, made.payload, now()
       from generate_series(1, ${COMMANDS}) as n, made`,
      [workspace.id],
    )
    largest = 'cmd_0197f3b2c4d57a8e9b0c000000000001'
    await db.query(
      `insert into concord.journal (entry_id, workspace_id, command_id, trace_id, events)
       select gen_random_uuid(), $1, '0197f3b2-c4d5-7a8e-9b0c-000000000001', 'trace_x', json_build_array(json_build_object(
         'type', 'effect_executed', 'purpose', 'audit', 'actor', 'worker',
         'payload', json_build_object('outcome', 'done', 'result', repeat('z', case when n = 7 then 5000000 else 1000000 end))))
       from generate_series(1, ${EVENTS}) as n`,
      [workspace.id],
    )
    // What a provider answered when it was asked again.
    await db.query(
      `with made as materialized (select jsonb_build_object('outcome', 'done', 'result', repeat('r', 1000000)) as note)
       insert into concord.domain_effects (domain_effect_id, workspace_id, command_id, effect_type, effect_payload, status, declaration_order,
         read_back, completed_at)
       select gen_random_uuid(), c.workspace_id, c.command_id, 'report.make', '{}', 'succeeded', 0, made.note, now() from concord.commands as c, made
       where c.command_id <> '0197f3b2-c4d5-7a8e-9b0c-000000000001'`,
    )
    await db.query(
      `with made as materialized (select jsonb_build_object('text', repeat('y', 1000000)) as result)
       insert into concord.domain_effects (domain_effect_id, workspace_id, command_id, effect_type, effect_payload, status, declaration_order,
         result, completed_at)
       select gen_random_uuid(), $1, '0197f3b2-c4d5-7a8e-9b0c-000000000002', 'report.make', made.result, 'succeeded', n, made.result, now()
       from generate_series(1, 60) as n, made`,
      [workspace.id],
    )
    await db.query(
      `insert into concord.domain_effects (domain_effect_id, workspace_id, command_id, effect_type, effect_payload, status, declaration_order,
         result, completed_at)
       select gen_random_uuid(), $1, '0197f3b2-c4d5-7a8e-9b0c-000000000001', 'report.make', '{}', 'succeeded', n,
         jsonb_build_object('text', repeat('y', 1000000)), now() from generate_series(1, 12) as n`,
      [workspace.id],
    )
  })

  async function get(path: string): Promise<string> {
    const answer = await fetch(server.address + path, { headers: { authorization: `Bearer ${key}` } })
    const text = await answer.text()
    assert.equal(answer.status, 200, text.slice(0, 300))
    return text
  }
  async function collect(path: string, pagesMax = 100): Promise<Page[]> {
    const pages: Page[] = []
    for (let cursor: string | null = ''; cursor !== null && pages.length < pagesMax; ) {
      const text = await get(`${path}${cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`}`)
      const page = JSON.parse(text) as Page
      assert.ok(text.length <= ANSWER_BYTES_MAX || page.items.length === 1, `${path}: ${text.length} bytes`)
      pages.push(page)
      cursor = page.next_cursor
    }
    return pages
  }

  test('[H2] six pages of 500 at once, of commands, their content and the audit, leave the server running', async () => {
    for (const path of ['/commands?limit=500', '/commands?limit=500&include=payload,result', '/audit?limit=500']) {
      const answers = await Promise.all(Array.from({ length: 6 }, () => get(path)))
      for (const text of answers) assert.ok(text.length <= ANSWER_BYTES_MAX, `${path}: ${text.length} bytes`)
    }
    assert.equal((JSON.parse(await get('/health')) as { status: string }).status, 'ok')
  })

  test('[H2] an explanation, and one command, need none of the results of its effects', async () => {
    const command = '/commands/cmd_0197f3b2c4d57a8e9b0c000000000002'
    for (const path of [`${command}/explanation`, command]) {
      const answers = await Promise.all(Array.from({ length: 6 }, () => get(path)))
      for (const text of answers) assert.ok(text.length <= ANSWER_BYTES_MAX, `${path}: ${text.length} bytes`)
    }
    assert.equal((JSON.parse(await get('/health')) as { status: string }).status, 'ok')
  })

  test('[H2] a list has no payload and no result unless it is asked for them, and then every row has them', async () => {
    const own = `/commands?limit=500&requested_by=${encodeId('user', REQUESTER)}`
    const [plain, ...rest] = await collect(own)
    assert.equal(rest.length, 0)
    assert.equal(plain?.items.length, COMMANDS)
    assert.ok(plain.items.every((item) => !('payload' in item) && !('result' in item)))
    const pages = await collect(`${own}&include=payload,result`, 8)
    const items = pages.flatMap((page) => page.items)
    assert.deepEqual(
      items.map(({ command_id }) => command_id),
      plain.items.slice(0, items.length).map(({ command_id }) => command_id),
    )
    assert.ok(items.length >= 8)
    assert.ok(items.every((item) => (item['payload'] as { note: string }).note.length === 1_000_000 && item['result']))
    const one = JSON.parse(await get('/commands?limit=1&include=result')) as Page
    assert.deepEqual(['payload' in (one.items[0] ?? {}), 'result' in (one.items[0] ?? {})], [false, true])
  })

  test('[H2] pages of events and effects end at their size, miss nothing, and a row above it is a page alone', async () => {
    const audit = await collect(`/audit?limit=500&event_type=effect_executed&command_id=${largest}`)
    assert.equal(audit.flatMap(({ items }) => items).length, EVENTS)
    assert.ok(audit.length > 7)
    assert.ok(audit.some(({ items }) => items.length === 1 && JSON.stringify(items).length > PAGE_BYTES))
    const events = await collect(`/commands/${largest}/events?limit=500`)
    assert.equal(events.flatMap(({ items }) => items).length, EVENTS)
    const effects = await collect(`/commands/${largest}/effects?limit=500&include=result`)
    assert.equal(effects.flatMap(({ items }) => items).length, 12)
    const [short] = await collect(`/commands/${largest}/effects?limit=500`)
    assert.ok(short?.items.length === 12 && short.items.every((item) => !('result' in item)))
  })

  test('[H2] six streams that replay 30 MB each get every event once', async () => {
    const streams = await Promise.all(
      Array.from({ length: 6 }, () => get(`/events?after=start&until=now&command_id=${largest}`)),
    )
    for (const text of streams) {
      const ids = text.match(/^id: \d+\.\d+\nevent: effect_executed$/gm) ?? []
      assert.equal(new Set(ids).size, EVENTS)
      assert.equal(ids.length, EVENTS)
    }
  })

  test('[H2] the command line asks for what a list leaves out', async () => {
    const listed = await server.concord('--json', 'commands', 'list', '--limit', '1', '--include', 'payload')
    const [item] = (JSON.parse(listed.out) as Page).items
    assert.deepEqual([listed.code, 'payload' in (item ?? {}), 'result' in (item ?? {})], [0, true, false])
    const wrong = await server.concord('commands', 'list', '--include', 'context')
    assert.equal(wrong.code === 0, false)
    assert.match(wrong.err, /payload or result/)
  })
})
