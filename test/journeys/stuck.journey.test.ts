/** Work that took down its worker ten times waits for an operator, who sees it, and gives it another chance. */
import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { runConcord } from '#test/concord-process'
import { openTestDb } from '#test/database'

type Listed = { readonly items: readonly { readonly id: string; readonly why: string; readonly detail: string }[] }

test('concord stuck lists what waits for a person, doctor says so, and resume takes it back', async (t) => {
  const database = await openTestDb()
  const home = await mkdtemp(join(tmpdir(), 'concord-stuck-'))
  t.after(async () => {
    await database.close()
    await rm(home, { recursive: true, force: true })
  })
  const env = { CONCORD_HOME: home, DATABASE_URL: database.url, CONCORD_UNSAFE_TEST: '1', CONCORD_LOG_LEVEL: 'error' }
  const concord = (...args: string[]) => runConcord(args, { env })
  const list = async () => JSON.parse((await concord('--json', 'stuck')).out) as Listed
  assert.deepEqual(await list(), { items: [] })

  const commandId = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405166'
  for (const [kind, id] of [
    ['command', commandId],
    ['schedule', 'nightly'],
  ]) {
    await database.db.query('select runtime.abort($1, $2, $3)', [kind, id, 'a test'])
  }
  const { items } = await list()
  assert.deepEqual(Object.fromEntries(items.map(({ id, why }) => [id, why])), {
    [`cmd_${commandId.replaceAll('-', '')}`]: 'aborted',
    nightly: 'aborted',
  })
  const doctor = await concord('--json', 'doctor')
  assert.match(
    doctor.out,
    /"check":"work","state":"broken","found":"2 stuck","next":"`concord stuck` says what and why"/,
  )

  assert.equal((await concord('stuck', 'resume')).code, 64)
  assert.equal((await concord('stuck', 'resume', 'nobody')).code, 75)
  assert.match((await concord('stuck', 'resume', 'nightly')).out, /nightly +schedule +aborted/)
  assert.deepEqual(
    (await list()).items.map(({ id }) => id),
    [`cmd_${commandId.replaceAll('-', '')}`],
  )
  // By the id of the row as well, and it says what it took back.
  assert.match(
    (await concord('stuck', 'resume', commandId)).out,
    /cmd_0197f3b2c4d57a8e9b0c1d2e3f405166 +command +aborted/,
  )
  await database.db.query('select runtime.abort($1, $2, $3)', ['command', commandId, 'a test'])
  assert.equal((await concord('stuck', 'resume', '--all')).code, 0)
  assert.match((await concord('stuck')).err, /Nothing is stuck\./)
})
