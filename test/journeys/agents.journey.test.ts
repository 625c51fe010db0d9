/** An agent at a real server: it proposes by HTTP and from the terminal, a person decides, and the letter leaves once. */
import assert from 'node:assert/strict'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { withServer } from '#test/with-server'

type Answer = { decision: string; command_id: string; approval_id: string | null; status: string; message: string }

describe('an agent', () => {
  let ownerKey: string
  let agentKey: string
  let report: { artifact_id: string; checksum: string }
  const server = withServer({
    config(folder) {
      const examples = new URL('../../examples/catalog/index.ts', import.meta.url).href
      const options = JSON.stringify({ vendorUrl: 'http://127.0.0.1:1', folder: join(folder, 'examples') })
      return `import { exampleCatalog } from ${JSON.stringify(examples)}\nexport default { catalog: exampleCatalog(${options}) }\n`
    },
    async ready() {
      const hire = async (name: string) => {
        const invited = await concord('people', 'invite', name, '--role', 'writer')
        return (await concord('people', 'redeem', invited.out.trim())).out.trim()
      }
      const tools = 'publish_report,undo_command'
      const ana = await hire('ana')
      agentKey = (await server.as(ana, 'keys', 'create', '--agent', 'planner', '--tools', tools)).out.trim()
      assert.match(agentKey, /^ck_/)
      ownerKey = await hire('dora')
      assert.equal((await concord('people', 'grant', 'dora', 'data-owner', '--create')).code, 0)
      const payload = '{"report_type":"monthly_revenue","date_range":"2026-05"}'
      const made = await concord(
        'submit',
        'Generate Report',
        '--payload',
        payload,
        '--wait',
        '--json',
        '--timeout',
        '60s',
      )
      assert.equal(made.code, 0, made.err)
      report = (JSON.parse(made.out) as { result: typeof report }).result
    },
  })
  const { concord } = server
  const letters = async () => {
    const names = await readdir(join(server.folder, 'examples', 'outbox')).catch(() => [])
    return names.filter((name) => !name.includes('draft'))
  }
  const propose = async (body: object) => {
    const response = await fetch(`${server.address}/agent-actions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${agentKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return { status: response.status, body: (await response.json()) as Answer & { code?: string } }
  }

  test('[API-04] it proposes to publish outside the organisation; the owner of the data is asked, agrees, and it is done', async () => {
    const { artifact_id, checksum } = report
    assert.match(artifact_id, /^art_[0-9a-f]{32}$/)
    const payload = { artifact_id, checksum, destination: 'external:finance@example.com' }
    const reason = 'Finance asked for the revenue of May.'
    const { status, body } = await propose({ tool_name: 'publish_report', payload, reason })
    assert.deepEqual([status, body.decision, body.status], [202, 'require_approval', 'waiting_for_approval'])
    assert.match(body.message, /role:data-owner must agree\. .*External sharing requires approval\./)
    assert.deepEqual(await letters(), [])
    const own = await concord('approve', body.approval_id ?? '', '--reason', 'me')
    assert.equal(own.code, 77, 'not by the one for whom it acts')

    const inbox = await server.as(ownerKey, 'inbox', '--json')
    assert.match(inbox.out, /Proposed by the agent planner, which says: .*Finance asked for the revenue of May\./)
    const approved = await server.as(ownerKey, 'approve', body.approval_id ?? '', '--reason', 'They may have it.')
    assert.equal(approved.code, 0, approved.err)

    // The same proposal again, from the terminal: the same command, which by now may have been carried out.
    const again = ['propose', 'publish_report', '--payload', JSON.stringify(payload), '--reason', reason, '--json']
    assert.equal((JSON.parse((await concord(...again)).out) as Answer).command_id, body.command_id)
    const shown = await concord(
      'submit',
      'Publish Report',
      '--payload',
      JSON.stringify(payload),
      '--wait',
      '--timeout',
      '60s',
    )
    assert.equal(shown.code, 0, shown.err)
    assert.equal(
      shown.out.split('\n')[0],
      body.command_id,
      'a person who asks for the same deed meets the same command',
    )
    assert.equal((await letters()).length, 1)
    const why = await concord('why', body.command_id)
    assert.match(
      why.out,
      /The agent planner of local:ana proposed Publish Report, because: Finance asked for the revenue of May\./,
    )
    assert.match(why.out, /They may have it/)
  })

  test('what is not a tool is refused, on record; what lacks something is asked for it', async () => {
    const forbidden = await propose({ tool_name: 'Generate Report', payload: {}, reason: 'r' })
    assert.deepEqual([forbidden.status, forbidden.body.code], [403, 'commands.tool.forbidden'])
    const rejected = await server.database.db.query<{ payload: { task_name: string } }>(
      `select payload from concord.domain_events where event_type = 'command_rejected' and payload->>'code' = 'commands.tool.forbidden'`,
    )
    assert.deepEqual(
      rejected.map(({ payload }) => payload.task_name),
      ['Generate Report'],
    )
    const missing = await propose({ tool_name: 'undo_command', payload: {}, reason: 'r' })
    assert.deepEqual([missing.body.decision, missing.body.status], ['require_more_input', 'waiting_for_input'])
    assert.match(missing.body.message, /command_id/)
  })
})
