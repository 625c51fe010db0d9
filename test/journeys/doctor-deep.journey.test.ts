/** `concord doctor --deep` reads everything on record: well when it is, and where it is not, what, which one, and what to do. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { openDb } from '#store'
import { openTestRoom } from '#test/commands'
import { runConcord } from '#test/concord-process'

type Finding = { readonly check: string; readonly state: string; readonly found: string; readonly next?: string }

test('doctor --deep says that all invariants hold, and names the one that somebody broke behind our back', async (t) => {
  const room = await openTestRoom()
  const home = await mkdtemp(join(tmpdir(), 'concord-doctor-'))
  const superuser = openDb({ url: room.db.config.url, poolMax: 1 })
  t.after(async () => {
    await superuser.close()
    await room.close()
    await rm(home, { recursive: true, force: true })
  })
  const env = { CONCORD_HOME: home, DATABASE_URL: room.db.config.url, CONCORD_UNSAFE_TEST: '1' }
  const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] })
  assert.equal(await room.settle(id), 'succeeded')
  const examine = async () => {
    const { out, code } = await runConcord(['--json', 'doctor', '--deep'], { env })
    return { code, findings: (JSON.parse(out.split('\n')[0] ?? '') as { findings: Finding[] }).findings }
  }
  const well = await examine()
  assert.deepEqual(
    well.findings.filter(({ check }) => check === 'records').map(({ state }) => state),
    ['well'],
  )
  assert.equal(well.code, 0)

  await superuser.query(`update concord.commands set status = 'failed' where command_id = $1`, [id])
  const ill = await examine()
  const broken = ill.findings.filter(({ state }) => state === 'broken')
  assert.deepEqual(
    broken.map(({ check }) => check.split(' ')[0]),
    ['C06', 'R01'],
  )
  assert.match(broken[0]?.found ?? '', new RegExp(`1 of them: ${id}`))
  assert.match(broken[0]?.next ?? '', /backup/)
  assert.equal(ill.code, 78)
  const shown = await runConcord(['doctor', '--deep'], { env })
  assert.match(shown.out, /broken {2}C06 the status is the last move: [\s\S]*next: /)
})
