/** An MCP server is mounted, looked at, approved and called through commands; then it changes what it says about itself. */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { withServer } from '#test/with-server'

describe('an MCP server from the terminal', () => {
  let otherKey: string
  const server = withServer({
    project: 'connectors',
    async env(folder) {
      await writeFile(join(folder, 'script.json'), '{}')
      await writeFile(join(folder, 'writes.jsonl'), '')
      return { MCP_FOLDER: folder }
    },
    async ready({ hire }) {
      otherKey = await hire('other', 'approver')
    },
  })
  const { concord } = server
  const script = (what: object) => writeFile(join(server.folder, 'script.json'), JSON.stringify(what))
  const asOther = (...args: string[]) => server.as(otherKey, ...args)
  const writes = async () =>
    (await readFile(join(server.folder, 'writes.jsonl'), 'utf8')).split('\n').filter((line) => line.includes('"write"'))

  /** Submits, lets another person agree, and waits for the end. */
  async function say(key: string, to: string, text: string) {
    const submit = () =>
      concord('submit', 'Say', '--payload', JSON.stringify({ to, text }), '--key', key, '--wait', '--timeout', '80s')
    const asked = await submit()
    assert.equal(asked.code, 75, asked.out + asked.err)
    const commandId = asked.out.split('\n')[0] ?? ''
    const { items } = JSON.parse((await asOther('inbox', '--json')).out) as {
      items: { approval_id: string; command_id: string }[]
    }
    const approvalId = items.find((item) => item.command_id === commandId)?.approval_id ?? ''
    const approved = await asOther('approve', approvalId, '--reason', 'seen')
    assert.equal(approved.code, 0, approved.err)
    return { ended: await submit(), commandId }
  }

  /** Looks at a connector and approves what it shows, as the terminal says how. */
  async function approveShown(id: string) {
    const checked = await concord('connectors', 'check', id)
    assert.equal(checked.code, 0, checked.err)
    const command = /concord (connectors approve .*)/.exec(checked.err)?.[1] ?? ''
    const approved = await concord(...command.split(' '))
    assert.equal(approved.code, 0, approved.err)
    assert.match(approved.out, /is approved as sha256:/)
    return checked
  }

  test('a tool of a real server is called through a command that a person agreed to', async () => {
    const early = await say('early', 'everything', 'hello')
    assert.equal(early.ended.code, 65, early.ended.out)
    assert.match((await concord('why', early.commandId)).out, /The definition of everything\.echo is not approved yet/)
    const shown = await approveShown('everything')
    assert.match(shown.out, /echo +quarantined +sha256:[\s\S]*Echoes back the input string/)
    assert.match((await concord('connectors', 'show', 'everything')).out, /echo .*Echoes back the input string/)
    const { ended, commandId } = await say('first', 'everything', 'hello')
    assert.equal(ended.code, 0, ended.err)
    assert.match(ended.out, /Echo: hello/)
    assert.match((await concord('commands', 'show', commandId)).out, /connector\.everything\.echo +succeeded/)
  })

  test('a definition that changed is refused with what differs; approved again it works, and who did it is on record', async () => {
    await approveShown('lines')
    assert.equal((await say('one', 'lines', 'one')).ended.code, 0)
    const before = (await writes()).length
    assert.equal(before, 1)

    await script({ description: 'Writes a line down and sends it to everybody.' })
    const { ended, commandId } = await say('two', 'lines', 'two')
    assert.equal(ended.code, 65, ended.out)
    const why = (await concord('why', commandId)).out
    assert.match(
      why,
      /The definition of lines\.write_line is not the approved one: description was "Writes a line down\." and is "Writes a line down and sends it to everybody\."/,
    )
    assert.equal((await writes()).length, before, 'the tool was not called')
    const listed = await concord('connectors', 'definitions', 'lines')
    assert.match(listed.out, /write_line +quarantined/)
    assert.match(listed.out, /- description: "Writes a line down\."\n {2}\+ description: "Writes a line down and sends/)
    assert.match((await concord('connectors', 'calls', 'lines', '--status', 'failed')).out, /not the approved one/)

    const old = /sha256:[0-9a-f]{64}/.exec((await concord('connectors', 'definitions', 'everything')).out)?.[0] ?? ''
    assert.equal((await concord('connectors', 'approve', 'lines', 'write_line', old)).code, 75, 'only what was shown')
    await approveShown('lines')
    const again = await say('three', 'lines', 'three')
    assert.equal(again.ended.code, 0, again.ended.err)
    assert.equal((await writes()).length, before + 1)
    const audited = await server.database.db.query<{ actor: string; payload: { was_hash: string | null } }>(
      `select actor, payload from concord.domain_events where event_type = 'connector_definition_approved'
        and payload ->> 'connector' = 'lines' order by created_at`,
    )
    assert.equal(audited.length, 2)
    assert.ok(audited.every(({ actor }) => actor.startsWith('user:')))
    assert.match(audited[1]?.payload.was_hash ?? '', /^sha256:/)
  })
})
