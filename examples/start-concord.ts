/**
 * Concord as it runs in production, for an example: `concord up`, which serves, and `concord worker`, which works, as two processes on an embedded Postgres.
 * People get keys of their own.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import process from 'node:process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { connect } from '@concordhq/concord/client'

const program = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))

/** A port that was free a moment ago. */
async function freePort(): Promise<string> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return String(typeof address === 'object' ? address?.port : 0)
}

/** `project` is a folder with a `concord.config.ts`. The processes find it as their working folder. */
export async function startConcord(project: URL, more: Readonly<Record<string, string>> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'concord-example-'))
  const { PATH = '', NODE_COMPILE_CACHE = '' } = process.env
  const own = { PATH, NODE_COMPILE_CACHE, CONCORD_LOG_LEVEL: 'error', CONCORD_UNSAFE_TEST: '1' }
  const env = { ...own, CONCORD_HOME: join(folder, 'home'), CONCORD_PORT: await freePort(), ...more }
  const children: ChildProcess[] = []
  /** Resolves with the first line of its output, which says that it is ready. */
  const start = async (
    command: string,
    args: readonly string[],
    cwd: URL,
    added: Readonly<Record<string, string>> = {},
  ) => {
    const child = spawn(command, args, { cwd, env: { ...env, ...added }, stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    for await (const line of createInterface({ input: child.stdout })) {
      child.stdout.resume()
      return line
    }
    return assert.fail(`${args.join(' ')} ended.`)
  }
  const concord = (...args: string[]) => ['--conditions=concord-source', program, '--json', ...args]
  const ready = JSON.parse(await start(process.execPath, concord('up'), project, { CONCORD_WORK: '0' })) as {
    address: string
    key_file: string
  }
  await start(process.execPath, concord('worker'), project)
  const url = ready.address
  const admin = connect({ url, key: (await readFile(ready.key_file, 'utf8')).trim() })
  return {
    url,
    folder,
    /** Starts a process of the example, such as a worker. It ends with the example. */
    start: (command: string, args: readonly string[], added: Readonly<Record<string, string>>) =>
      start(command, args, new URL('.', import.meta.url), { CONCORD_URL: url, ...added }),
    /** Invites a person, who redeems the invitation for a key. */
    async person(name: string, role?: string) {
      const invited = await admin.api.POST('/people', { body: { external_id: `local:${name}`, role: 'writer' } })
      const { user_id, invitation } = invited.data ?? assert.fail(JSON.stringify(invited.error))
      assert.ok(invitation)
      if (role !== undefined) {
        await admin.api.POST('/org-roles', { body: { slug: role, name: role } })
        const params = { path: { user_id } }
        await admin.api.POST('/people/{user_id}/org-roles', { params, body: { org_role: role } })
      }
      const redeemed = await admin.api.POST('/invitations/redeem', { body: { invitation } })
      const { key } = redeemed.data ?? assert.fail(JSON.stringify(redeemed.error))
      return { ...connect({ url, key }), key }
    },
    async [Symbol.asyncDispose]() {
      for (const child of children.toReversed()) {
        const gone = new Promise((resolve) => child.once('exit', resolve))
        if (child.exitCode === null && child.kill('SIGTERM')) await gone
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}
