/** A worker stops for longer than its lease, another takes its rows over, and it comes back: none of its writes is accepted. */
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { aWorkspace, leasedCommand, newId, someCommands } from '#test/concord-rows'
import { openTestDb, type TestDb } from '#test/database'
import { faultEnv } from '#test/fault-plan'
import { proofSize } from '#test/proof-size'
import { claimLapsed } from './claim.ts'

const FREEZES = proofSize(2, 4)
const ROWS = 20
const LEASE_MS = 200
const askPs = async (pid: number) =>
  (await promisify(execFile)('ps', ['-o', 'stat=', '-p', String(pid)]).catch(() => ({ stdout: '' }))).stdout
const child = fileURLToPath(new URL('../../test/support/lease-child.ts', import.meta.url))

describe('a frozen holder', { skip: process.platform === 'win32' ? 'no process can be stopped there' : false }, () => {
  let opened: TestDb

  before(async () => {
    opened = await openTestDb({ role: 'concord_engine' })
  })
  after(() => opened.close())

  async function isFrozen(pid: number): Promise<boolean> {
    if (process.platform !== 'linux') return (await askPs(pid)).startsWith('T')
    const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('T')
  }

  /** Starts a worker that stops itself right after its claim; gives what it printed once it was thawed. */
  async function freezeAndThaw(whileFrozen: () => Promise<void>): Promise<Record<string, unknown>> {
    const worker = spawn(process.execPath, [child, opened.url, String(LEASE_MS), String(ROWS)], {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...faultEnv([{ point: 'claim.taken', hit: 1, act: 'freeze' }]) },
    })
    let printed = ''
    worker.stdout.on('data', (chunk) => {
      printed += String(chunk)
    })
    const ended = new Promise<number | null>((resolve) => worker.on('close', resolve))
    try {
      while (!(await isFrozen(worker.pid ?? 0))) {
        assert.equal(worker.exitCode, null, 'the worker ended without freezing')
        await sleep(10)
      }
      await whileFrozen()
    } finally {
      worker.kill('SIGCONT')
    }
    assert.equal(await ended, 0)
    return JSON.parse(printed) as Record<string, unknown>
  }

  for (let freeze = 1; freeze <= FREEZES; freeze++) {
    test(`freeze ${freeze}: of ${ROWS} completions, renewals and releases with a stale token 0 are accepted`, async () => {
      await opened.db.query(
        `update concord.commands set status = 'failed', completed_at = now() where completed_at is null`,
      )
      const commands = await someCommands(opened.db, await aWorkspace(opened.db), ROWS, 'running')
      const token = newId()
      const late = await freezeAndThaw(async () => {
        await opened.db.query('select pg_sleep($1)', [LEASE_MS / 1_000])
        const taken = await claimLapsed(opened.db, leasedCommand, {
          worker: 'second',
          token,
          leaseMs: 60_000,
          limit: ROWS,
        })
        assert.equal(taken.length, ROWS)
      })
      assert.deepEqual(late, {
        claimed: ROWS,
        codes: Array<string>(ROWS).fill('lease.lost'),
        renewed: 0,
        released: 0,
        // The control: without the fence every late write would have been taken.
        unfenced: ROWS,
      })
      const [kept] = await opened.db.query(
        `select count(*)::int as kept from concord.commands where command_id = any($1::uuid[]) and status = 'running' and turn_token = $2 and result is null`,
        [commands.map(({ command_id }) => command_id), token],
      )
      assert.deepEqual(kept, { kept: ROWS })
    })
  }
})
