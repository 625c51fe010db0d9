/** Retry: the run is named; what cannot be run again says why and what to do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aCommandView, COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const POST = `POST /commands/${COMMAND_ID}/retry`

test('sends the reason and names the run', async () => {
  const { code, out, heard } = await runAgainst({ [POST]: aCommandView({ attempt: 2 }) }, [
    'retry',
    COMMAND_ID,
    '--reason',
    'the provider is back',
  ])
  assert.deepEqual([code, heard[0]?.body], [0, { reason: 'the provider is back' }])
  assert.equal(out, `${COMMAND_ID} is queued, run 2\n`)
})

for (const [code, said] of [
  ['commands.command.not_failed', /concord commands show/],
  ['commands.retry.exhausted', /concord why/],
] as const) {
  test(`${code} exits 75 and names the next step`, async () => {
    const { code: exit, err } = await runAgainst({ [POST]: new Problem(409, code) }, ['retry', COMMAND_ID])
    assert.equal(exit, 75)
    assert.match(err, said)
  })
}
