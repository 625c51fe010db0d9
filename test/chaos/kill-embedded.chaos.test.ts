/** kill -9 of programs with Concord inside, around the commit of their own transaction. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { killEmbedded } from './kill-embedded.ts'

test('[CMD-20] kill -9 around the commit of the caller: row and command are both there or both not, and each command pays once', async (t) => {
  const seed = process.env['CONCORD_CHAOS_SEED'] ?? 'orders'
  const report = await killEmbedded({ kills: 24, seed })
  t.diagnostic(JSON.stringify({ seed, ...report }))
  const { survived, parted, wrong, unfinished, unpaid } = report
  assert.deepEqual(
    { survived, parted, wrong, unfinished, unpaid },
    { survived: [], parted: [], wrong: [], unfinished: [], unpaid: [] },
  )
  assert.ok(report.committed > 8 && report.committed < report.kills, 'some were written, and some were not')
})
