/** `concord connect`: the entry of each agent, what stays as it was, and what is never written. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { runAgainst } from '#test/recorded-server'

const SECRET = 'ck_abcdefgh_0123456789abcdef0123456789abcdef'
const made = { 'POST /keys': { key: SECRET, name: 'x', role: 'writer', agent: 'x' } }
const environment = { CONCORD_URL: 'https://concord.example.com' }

describe('connect', () => {
  let root: string
  let count = 0
  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'concord-connect-'))
  })
  after(() => rm(root, { recursive: true, force: true }))

  /** A new folder with these files. */
  async function aFolder(files: Readonly<Record<string, string>> = {}): Promise<string> {
    const folder = join(root, String((count += 1)))
    await mkdir(folder)
    for (const [name, text] of Object.entries(files)) {
      await mkdir(dirname(join(folder, name)), { recursive: true })
      await writeFile(join(folder, name), text)
    }
    return folder
  }
  const run = (folder: string, ...args: string[]) =>
    runAgainst(made, ['connect', ...args], args.includes('--tools') ? { folder } : { folder, environment })
  const read = (folder: string, name: string) => readFile(join(folder, name), 'utf8')

  test('writes the entry of each agent with a reference to the key', async () => {
    const folder = await aFolder()
    for (const agent of ['claude-code', 'cursor', 'codex']) {
      const { code, err } = await run(folder, agent)
      assert.equal(code, 0, err)
      assert.match(err, /^\+ /m)
    }
    const url = 'https://concord.example.com/mcp'
    const headers = (key: string) => ({ Authorization: `Bearer ${key}` })
    assert.deepEqual(JSON.parse(await read(folder, '.mcp.json')), {
      mcpServers: { concord: { type: 'http', url, headers: headers('${CONCORD_AGENT_KEY}') } },
    })
    assert.deepEqual(JSON.parse(await read(folder, '.cursor/mcp.json')), {
      mcpServers: { concord: { url, headers: headers('${env:CONCORD_AGENT_KEY}') } },
    })
    assert.equal(
      await read(folder, '.codex/config.toml'),
      `[mcp_servers.concord]\nurl = "${url}"\nbearer_token_env_var = "CONCORD_AGENT_KEY"\n`,
    )
    for (const agent of ['claude-code', 'cursor', 'codex']) {
      const again = await run(folder, agent)
      assert.match(again.err, /already has this entry/)
    }
  })

  test('creates the key of the agent, prints it once and writes it nowhere', async () => {
    const folder = await aFolder()
    for (const [agent, file] of [
      ['claude-code', '.mcp.json'],
      ['codex', '.codex/config.toml'],
    ] as const) {
      const { code, out, heard } = await run(folder, agent, '--tools', 'publish_report, undo_command')
      assert.equal(code, 0)
      assert.equal(out, `export CONCORD_AGENT_KEY=${SECRET}\n`)
      const tools = ['publish_report', 'undo_command']
      assert.deepEqual(heard[0]?.body, { name: agent, role: 'writer', agent, tools })
      assert.doesNotMatch(await read(folder, file), /ck_/)
    }
  })

  test('--dry-run shows the change, writes nothing and creates no key', async () => {
    const folder = await aFolder()
    const { code, out, err, heard } = await run(folder, 'codex', '--tools', 'a', '--dry-run')
    assert.deepEqual([code, out, heard.length], [0, '', 0])
    assert.match(err, /^\+ \[mcp_servers\.concord\]$/m)
    await assert.rejects(read(folder, '.codex/config.toml'), { code: 'ENOENT' })
  })

  test('keeps the other entries and their text', async () => {
    const toml =
      '# mine\nmodel = "x"\n\n[mcp_servers.other]\ncommand = "y" # why\n\n# after\n[profiles.z]\na = [\n  1,\n]\n'
    const folder = await aFolder({
      '.mcp.json': '{\n    "mcpServers": {\n        "other": { "command": "x" }\n    },\n    "more": [1]\n}\n',
      '.codex/config.toml': toml,
    })
    assert.equal((await run(folder, 'claude-code')).code, 0)
    const json = await read(folder, '.mcp.json')
    const parsed = JSON.parse(json) as { mcpServers: Record<string, object>; more: number[] }
    assert.deepEqual(Object.keys(parsed), ['mcpServers', 'more'])
    assert.deepEqual([parsed.mcpServers['other'], parsed.more], [{ command: 'x' }, [1]])
    assert.match(json, /^ {4}"mcpServers"/m)
    assert.equal((await run(folder, 'codex')).code, 0)
    assert.ok((await read(folder, '.codex/config.toml')).startsWith(toml.trimEnd()))
  })

  test('replaces another entry of this name only with --yes, and takes no comment of the next table', async () => {
    const old =
      '[mcp_servers.concord]\nurl = "http://127.0.0.1:1/mcp"\n# inside\nenabled = true\n\n# of the next\n[mcp_servers.other]\ncommand = "y"\n'
    const folder = await aFolder({
      '.codex/config.toml': old,
      '.mcp.json': '{"mcpServers":{"concord":{"command":"mine"}}}',
    })
    for (const [agent, file] of [
      ['codex', '.codex/config.toml'],
      ['claude-code', '.mcp.json'],
    ] as const) {
      const before = await read(folder, file)
      const refused = await run(folder, agent, '--tools', 'a')
      assert.deepEqual([refused.code, refused.heard.length], [64, 0])
      assert.match(refused.err, /cli\.confirmation_missing/)
      assert.equal(await read(folder, file), before)
      assert.equal((await run(folder, agent, '--yes')).code, 0)
    }
    assert.equal(
      await read(folder, '.codex/config.toml'),
      '\n# of the next\n[mcp_servers.other]\ncommand = "y"\n\n[mcp_servers.concord]\nurl = "https://concord.example.com/mcp"\nbearer_token_env_var = "CONCORD_AGENT_KEY"\n',
    )
  })

  test('keeps an array of tables after our entry, and finds our entry with spaces', async () => {
    const old =
      '  [ mcp_servers.concord ]\n  url = "http://127.0.0.1:1/mcp"\n[[mcp_servers.concord.more]]\na = 1\n[[jobs]] # mine\nname = "x"\n\n[[jobs]]\nname = "y"\n'
    const folder = await aFolder({ '.codex/config.toml': old })
    assert.equal((await run(folder, 'codex', '--yes')).code, 0)
    assert.equal(
      await read(folder, '.codex/config.toml'),
      '[[jobs]] # mine\nname = "x"\n\n[[jobs]]\nname = "y"\n\n[mcp_servers.concord]\nurl = "https://concord.example.com/mcp"\nbearer_token_env_var = "CONCORD_AGENT_KEY"\n',
    )
  })

  test('refuses a file that it cannot edit without a risk, and an unknown agent', async () => {
    const bad: [string, string, string][] = [
      ['claude-code', '.mcp.json', '{ // comment\n}'],
      ['claude-code', '.mcp.json', '{"mcpServers":[]}'],
      ['cursor', '.cursor/mcp.json', '[]'],
      ['codex', '.codex/config.toml', 'mcp_servers = { concord = { url = "x" } }\n'],
      ['codex', '.codex/config.toml', 'mcp_servers.concord.url = "x"\n'],
      ['codex', '.codex/config.toml', '[mcp_servers]\nconcord = { url = "x" }\n'],
      ['codex', '.codex/config.toml', '[mcp_servers."concord"]\nurl = "x"\n'],
    ]
    for (const [agent, name, text] of bad) {
      const folder = await aFolder({ [name]: text })
      const { code, err } = await run(folder, agent, '--yes')
      assert.equal(code, 65, `${text}: ${err}`)
      assert.equal(await read(folder, name), text)
    }
    assert.equal((await run(await aFolder(), 'emacs')).code, 64)
  })
})
