/** Depend: the parent is named, and a refusal says what to do. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aCommandView, COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const POST = `POST /commands/${COMMAND_ID}/dependencies`
const PARENT_ID = 'cmd_0197f3b2c4d57a8e9b0c1d2e3f405171'

test('sends the parent, its status and what happens when it is out of reach', async () => {
  const answers = { [POST]: aCommandView({}) }
  const plain = await runAgainst(answers, ['depend', COMMAND_ID, '--on', PARENT_ID])
  assert.deepEqual([plain.code, plain.heard[0]?.body], [0, { command_id: PARENT_ID }])
  assert.equal(plain.out, `${COMMAND_ID} is queued and waits for ${PARENT_ID}\n`)
  const full = await runAgainst(answers, [
    'depend',
    COMMAND_ID,
    '--on',
    PARENT_ID,
    '--status',
    'cancelled',
    '--no-propagate',
  ])
  assert.deepEqual(full.heard[0]?.body, {
    command_id: PARENT_ID,
    required_status: 'cancelled',
    propagate_cancellation: false,
  })
})

test('without a parent it is a usage mistake', async () => {
  assert.equal((await runAgainst({}, ['depend', COMMAND_ID])).code, 64)
})

for (const [status, code, exit, said] of [
  [409, 'commands.command.moved', 75, /concord commands show/],
  [422, 'dag_cycle', 65, /A node cannot wait for itself/],
  [404, 'commands.dependency.not_found', 65, /Name each command once/],
] as const) {
  test(`${code} exits ${exit} and names the next step`, async () => {
    const answer = await runAgainst({ [POST]: new Problem(status, code) }, ['depend', COMMAND_ID, '--on', PARENT_ID])
    assert.equal(answer.code, exit)
    assert.match(answer.err, said)
  })
}
