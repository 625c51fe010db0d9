/** A part of `npm run chaos -- stop`: stops of agents under load, with kill -9 of the server around each stop and lift. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { stopUnderLoad } from './stop-agents.ts'

/** About half a minute alone on two cores; a busy machine must not fail it. */
const PATIENT_MS = 900_000

test('under kill -9 of the server nothing of an agent begins between the commits of a stop and of its lift, and everything comes to rest within 30 s', {
  timeout: PATIENT_MS,
}, async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'stop'
  const report = await stopUnderLoad({ rounds: 4, seed })
  t.diagnostic(JSON.stringify({ replay: `npm run chaos -- stop --rounds 4 --seed ${seed}`, ...report }))
  const { begunLate, lateRest, lost, doubled, phantom, restless, broken } = report
  assert.deepEqual(
    { begunLate, lateRest, lost, doubled, phantom, restless, broken },
    { begunLate: [], lateRest: [], lost: [], doubled: [], phantom: [], restless: [], broken: [] },
  )
  assert.ok(report.runs > 0 && report.swarms > 0 && report.modelCalls > 0, 'runs and swarms asked their model')
  assert.ok(report.waited > 0 && report.turnedAway > 0, 'the stops met work under way')
})
