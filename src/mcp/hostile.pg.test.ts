/** Hostile and broken clients of the MCP server: stolen and edited states, foreign tasks, bad bodies, wrong credentials. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { type McpApi, MODERN, openMcpApi } from '#test/mcp-clients'
import { until } from '#test/until'

const OUTSIDE = { subject: 'May', destination: 'external:finance@example.com' }

describe('the MCP server against hostile clients', () => {
  let mcp: McpApi
  let key: string
  before(async () => {
    mcp = await openMcpApi({ holdMs: 20 })
    key = await mcp.keyOf(['publish_note', 'forbidden_note'])
  })
  after(() => mcp.close())

  let id = 0
  /** A request of revision 2026-07-28, as the stock client sends it. */
  const ask = (by: string, method: string, params: object, headers: Record<string, string> = {}) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': MODERN,
      'io.modelcontextprotocol/clientInfo': { name: 'hostile', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    }
    const { name, taskId } = params as { name?: string; taskId?: string }
    const named = name ?? taskId
    return mcp.rpc(
      by,
      { jsonrpc: '2.0', id: (id += 1), method, params: { ...params, _meta } },
      {
        'mcp-protocol-version': MODERN,
        'mcp-method': method,
        ...(named === undefined ? {} : { 'mcp-name': named }),
        ...headers,
      },
    )
  }
  const callNote = (by: string, more: object = {}, tool = 'publish_note') =>
    ask(by, 'tools/call', { name: tool, arguments: OUTSIDE, ...more })
  const stateOf = ({ body }: Awaited<ReturnType<typeof callNote>>) =>
    (body['result'] as { requestState?: string }).requestState ?? ''
  const errorOf = ({ body }: Awaited<ReturnType<typeof callNote>>) => body['error'] as { code: number } | undefined
  const rejections = async () => {
    const [row] = await mcp.room.rows<{ count: number }>(
      `select count(*)::integer as count from concord.domain_events
        where event_type = 'command_rejected' and payload->>'code' = 'mcp.state.invalid'`,
    )
    return row?.count ?? 0
  }

  test('a state of another key, person, workspace or tool, and an edited one, are −32602 and on record', async () => {
    const state = stateOf(await callNote(key))
    assert.notEqual(state, '')
    const again = stateOf(await callNote(key, { requestState: state }))
    assert.notEqual(again, '', 'the caller goes on with it')
    const { ours, theirs } = mcp.api
    const others = [
      await mcp.keyOf(['publish_note'], 'other'),
      await mcp.keyOf(['publish_note']),
      await mcp.keyOf(['publish_note'], 'planner', theirs.people.writer.key),
      ours.people.writer.key,
      ours.people.admin.key,
      theirs.people.admin.key,
    ]
    const [commands, before] = [await mcp.count('commands'), await rejections()]
    const stolen = await Promise.all(others.map((other) => callNote(other, { requestState: state })))
    const [version = '', body = '', mac = ''] = state.split('.')
    const claims = JSON.parse(Buffer.from(body, 'base64url').toString()) as { p: object; exp: number }
    const sealed = (changed: object) =>
      [version, Buffer.from(JSON.stringify(changed)).toString('base64url'), mac].join('.')
    const edits = [
      sealed({ ...claims, exp: claims.exp + 1 }),
      sealed({ ...claims, p: { ...claims.p, round: -100 } }),
      `${version}.${body}.`,
      `${version}.${body}`,
      state.slice(0, -2),
      'x',
      '',
    ]
    const edited = await Promise.all(edits.map((requestState) => callNote(key, { requestState })))
    const otherTool = await callNote(key, { requestState: state }, 'forbidden_note')
    const refused = [...stolen, ...edited, otherTool]
    assert.deepEqual(
      refused.map((answer) => errorOf(answer)?.code),
      refused.map(() => -32_602),
    )
    assert.equal(await rejections(), before + refused.length)
    assert.equal(await mcp.count('commands'), commands)
    assert.equal((await callNote(key, { requestState: 7 })).body['error'] === undefined, false)
  })

  test('after nine rounds the client gets a result that names get_command, and the command still waits', async () => {
    let answer = await callNote(key)
    let rounds = 0
    for (; stateOf(answer) !== ''; rounds += 1) answer = await callNote(key, { requestState: stateOf(answer) })
    assert.equal(rounds, 9)
    const { isError, structuredContent } = answer.body['result'] as { isError?: boolean; structuredContent: object }
    assert.equal(isError, undefined)
    assert.deepEqual(
      { ...structuredContent },
      { ...structuredContent, decision: 'require_approval', status: 'waiting_for_approval' },
    )
  })

  test('a task or a command of another agent, person or workspace looks like a missing one', async () => {
    const { ours, theirs } = mcp.api
    const mine = await mcp.propose(OUTSIDE, {}, key)
    const taskId = String(mine.body['command_id'])
    const other = await mcp.keyOf(['publish_note'], 'other')
    const before = await mcp.room.rows('select status, updated_at from concord.commands order by command_id')
    for (const by of [other, theirs.people.admin.key, theirs.people.writer.key]) {
      for (const method of ['tasks/get', 'tasks/cancel', 'tasks/update'])
        for (const asked of [taskId, 'cmd_0', 'x'.repeat(2_000)])
          assert.equal(errorOf(await ask(by, method, { taskId: asked }))?.code, -32_602, method)
      const read = await ask(by, 'tools/call', { name: 'get_command', arguments: { command_id: taskId } })
      assert.match(JSON.stringify(read.body['result']), /commands\.command\.not_found/)
    }
    assert.deepEqual(await mcp.room.rows('select status, updated_at from concord.commands order by command_id'), before)
    const own = await ask(key, 'tasks/get', { taskId })
    assert.equal((own.body['result'] as { status: string }).status, 'working')
    // A method of the extension: no task of ours asks for input, so it is acknowledged and changes nothing.
    const updated = await ask(key, 'tasks/update', { taskId, inputResponses: { a: { answer: 'b' } } })
    assert.equal(errorOf(updated), undefined)
    assert.deepEqual(await mcp.room.rows('select status, updated_at from concord.commands order by command_id'), before)
    const person = await ask(ours.people.writer.key, 'tasks/get', { taskId })
    assert.equal((person.body['result'] as { taskId: string }).taskId, taskId)
  })

  test('a broken body is refused before anything is read from it', async () => {
    const body = (given: string) =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"publish_note","arguments":${given}}}`
    const commands = await mcp.count('commands')
    for (const [sent, expected] of [
      [body('{"subject":1e309}'), '400 number_out_of_range'],
      [body('{"subject":"a","subject":"b"}'), '400 json_duplicate_key'],
      [body('{"subject":"\\u0000"}'), '400 nul_character'],
      [body('{"__proto__":{"subject":"a"}}'), '400 '],
      [body(`{"subject":"${'x'.repeat(1_100_000)}"}`), '413 body_too_large'],
      [`${'['.repeat(5_000)}${']'.repeat(5_000)}`, '400 '],
      ['[]', '400 '],
      ['{', '400 json_syntax'],
      ['{"jsonrpc":"2.0"}', '422 '],
      ['{"jsonrpc":"1.0","id":1,"method":"tools/list"}', '422 '],
    ] as const) {
      const { status, body: problem } = await mcp.rpc(key, sent)
      const said = `${status} ${String(problem['code'])}`
      assert.ok(said.startsWith(expected), `${sent.slice(0, 120)}: ${said}`)
    }
    const { status, body: problem } = await mcp.rpc(key, '{}', { 'content-type': 'text/plain' })
    assert.deepEqual([status, problem['code']], [415, 'media_type'])
    assert.equal(await mcp.count('commands'), commands)
  })

  test('a secret in an argument, a reason, a key or a name of a tool is refused or removed, and stored nowhere', async () => {
    const secret = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`
    const note = (more: object) => ({ name: 'publish_note', arguments: { subject: 's', ...more } })
    for (const params of [
      note({ subject: secret }),
      note({ _reason: `Use ${secret}.` }),
      note({ more: { deep: [secret] } }),
      { ...note({}), _meta: { 'concord/idempotency-key': secret } },
      { ...note({}), _meta: { 'concord/reason': secret } },
      { name: secret, arguments: {} },
      { name: 'get_command', arguments: { command_id: secret } },
    ])
      await mcp.rpc(key, { jsonrpc: '2.0', id: 1, method: 'tools/call', params })
    const tables = ['commands', 'domain_events', 'domain_effects', 'approvals']
    for (const table of tables) {
      const found = await mcp.room.rows(`select 1 from concord.${table} as t where t::text like '%${secret}%'`)
      assert.equal(found.length, 0, table)
    }
    assert.doesNotMatch(JSON.stringify(mcp.api.log), new RegExp(secret))
    const refused = await mcp.rpc(key, {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { ...note({}), _meta: { 'concord/idempotency-key': secret } },
    })
    assert.match(JSON.stringify(refused.body), /looks like a key/)
  })

  test('a caller without a valid credential learns where the identity provider is, and nothing else', async () => {
    for (const by of ['', 'ck_00000000_none', 'a.b.c']) {
      const { status, headers } = await ask(by, 'tools/list', {})
      assert.equal(status, 401)
      assert.equal(
        headers.get('www-authenticate'),
        'Bearer realm="concord", resource_metadata="https://concord.example.com/.well-known/oauth-protected-resource/mcp"',
      )
    }
    for (const path of ['', '/mcp']) {
      const answer = await fetch(new URL(`/.well-known/oauth-protected-resource${path}`, mcp.url))
      assert.deepEqual(await answer.json(), {
        resource: 'https://concord.example.com/mcp',
        authorization_servers: ['https://id.example.com/'],
        bearer_methods_supported: ['header'],
        resource_name: 'Concord',
      })
    }
    const reader = await ask(mcp.api.ours.people.reader.key, 'tools/list', {})
    assert.equal(reader.status, 403)
    const elsewhere = await ask(mcp.api.theirs.people.writer.key, 'tools/list', {}, { 'x-workspace': 'nowhere' })
    assert.equal(elsewhere.status, 404)
  })

  test('a token is taken only for the resource for which it was issued', async () => {
    const resource = 'https://concord.example.com/mcp'
    const statusOf = async (audience: string | string[], path = '/mcp') => {
      const token = await mcp.tokenFor(audience)
      if (path === '/mcp') return (await ask(token, 'tools/list', {})).status
      return (await fetch(new URL(path, mcp.url), { headers: mcp.headersOf(token) })).status
    }
    assert.deepEqual([await statusOf(resource), await statusOf([resource, 'x'])], [200, 200])
    assert.deepEqual([await statusOf(resource, '/approvals'), await statusOf('concord', '/approvals')], [401, 200])
    const others = [
      'concord',
      `${resource}/`,
      `${resource}x`,
      'https://concord.example.com',
      'https://evil.example.com/mcp',
    ]
    for (const other of others) assert.equal(await statusOf(other), 401, other)
  })

  test('pages of other origins, other methods, and headers that differ from the body are refused', async () => {
    const foreign = await ask(key, 'tools/list', {}, { origin: 'https://evil.example.com' })
    assert.deepEqual([foreign.status, foreign.body['code']], [403, 'api.origin.not_allowed'])
    for (const method of ['GET', 'DELETE'])
      assert.equal((await fetch(mcp.url, { method, headers: mcp.headersOf(key) })).status, 405)
    const differs = await ask(key, 'tools/list', {}, { 'mcp-method': 'tools/call' })
    assert.deepEqual([differs.status, errorOf(differs)?.code], [400, -32_020])
    const future = await mcp.rpc(
      key,
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/list',
        params: {
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2031-01-01',
            'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      },
      { 'mcp-protocol-version': '2031-01-01', 'mcp-method': 'tools/list' },
    )
    assert.deepEqual([future.status, errorOf(future)?.code], [400, -32_022])
    const listen = await ask(key, 'subscriptions/listen', { notifications: { toolsListChanged: true } })
    assert.notEqual(errorOf(listen), undefined, 'no stream stays open')
  })

  test('a key that is revoked while its client waits gets nothing more', async () => {
    const doomed = await mcp.keyOf(['publish_note'], 'doomed')
    const state = stateOf(await callNote(doomed))
    const { body } = await mcp.get('/keys?limit=500')
    const found = (body as { items: { key_id: string; agent: string | null }[] }).items.find(
      ({ agent }) => agent === 'doomed',
    )
    const gone = await fetch(new URL(`/keys/${found?.key_id}`, mcp.url), {
      method: 'DELETE',
      headers: mcp.headersOf(mcp.api.ours.people.writer.key),
    })
    assert.equal(gone.ok, true)
    await until(async () => (await callNote(doomed, { requestState: state })).status === 401, 'the refusal')
  })
})
