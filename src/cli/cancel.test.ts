/** Cancel: sends the mode and the reason, and prints what changed. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { aCommandView, COMMAND_ID, Problem, runAgainst } from '#test/recorded-server'

const POST = `POST /commands/${COMMAND_ID}/cancel`
const cancel = ['cancel', COMMAND_ID]

test('sends only the given options, and prints the status', async () => {
  const answers = { [POST]: { ...aCommandView({ status: 'cancelled' }), changed: true } }
  const plain = await runAgainst(answers, cancel)
  assert.deepEqual([plain.code, plain.heard[0]?.body, plain.out], [0, {}, `${COMMAND_ID} is cancelled\n`])
  const full = await runAgainst(answers, [...cancel, '--mode', 'graceful', '--reason', 'wrong month', '--json'])
  assert.deepEqual(full.heard[0]?.body, { cancellation_mode: 'graceful', reason: 'wrong month' })
  assert.deepEqual(JSON.parse(full.out), answers[POST])
})

test('[L13] a command that is still stopping names the next command; a repeat reports no change; one that succeeded exits 75 and names undo', async () => {
  const stopping = { [POST]: { ...aCommandView({ status: 'cancelling' }), changed: true } }
  assert.match((await runAgainst(stopping, cancel)).err, /concord commands show cmd_/)
  const again = await runAgainst({ [POST]: { ...aCommandView({ status: 'cancelled' }), changed: false } }, cancel)
  assert.equal(again.code, 0)
  assert.match(again.out, /is cancelled already; nothing was changed/)
  const ended = await runAgainst({ [POST]: new Problem(409, 'commands.cancel.succeeded') }, cancel)
  assert.deepEqual([ended.code, ended.out], [75, ''])
  assert.match(ended.err, /`concord undo cmd_[0-9a-f]{32}` requests the undo of its effects/)
})

test('an unknown mode exits 65 and names the known modes', async () => {
  const { code, err } = await runAgainst({ [POST]: new Problem(422, 'mode_reserved') }, [
    ...cancel,
    '--mode',
    'immediate',
  ])
  assert.equal(code, 65)
  assert.match(err, /--mode graceful or --mode compensate_then_stop/)
})
