/** The whole of `npm run chaos -- postmaster`. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killPostmaster } from './kill-postmaster.ts'

const KILLS = 20
/** About a minute alone on two cores; a busy machine must not fail it. */
const PATIENT_MS = 900_000

test('[RUN-08] twenty times kill -9 of Postgres under commands: it is started again, nothing acknowledged is lost, nothing is done twice', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'postmaster'
  const report = await killPostmaster({ kills: KILLS, seed })
  t.diagnostic(JSON.stringify({ replay: `npm run chaos -- postmaster --rounds ${KILLS} --seed ${seed}`, ...report }))
  const { lost, doubled, phantom, restless, broken } = report
  assert.deepEqual(
    { lost, doubled, phantom, restless, broken },
    { lost: [], doubled: [], phantom: [], restless: [], broken: [] },
  )
  assert.equal(report.kills, KILLS)
  assert.ok(report.acknowledged >= 200, 'commands were at stake')
})
