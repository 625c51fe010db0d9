/** What the server refuses ends in words of the command line: verbs and ids, never routes. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type RefusalCode, refuse } from '#kernel/refusal'
import { refusals } from '#refusals'
import { pathOf } from './client.ts'
import { withHint } from './next-hint.ts'

const ROUTE = /\b(?:GET|POST|PATCH|DELETE) \//
const ID = 'cmd_0197f3b2c4d57a8e9b0c1d2e3f405170'

test('no route reaches the terminal: every hint that names one has a verb in its place', () => {
  const codes = (Object.keys(refusals) as RefusalCode[]).filter((code) => ROUTE.test(refusals[code][1]))
  assert.ok(codes.length > 10)
  const left = codes.filter((code) => {
    // As it comes from the server, which never leaves the hint out.
    const { hint = '' } = withHint(refuse(code, 'No.', { hint: refusals[code][1] }), '/elsewhere')
    return hint === '' || ROUTE.test(hint)
  })
  assert.deepEqual(left, [])
})

test('the suggested command contains the given id', () => {
  const refusal = refuse('commands.command.not_failed', 'Only a failed command runs again.')
  assert.match(withHint(refusal, `/commands/${ID}/retry`).hint ?? '', new RegExp(`concord commands show ${ID}\``))
  assert.match(withHint(refusal, '/commands').hint ?? '', /concord commands show <id>/)
})

test('a mistyped id of memory names the list that has it', () => {
  for (const [kind, verb] of [
    ['memory', 'concord memory search'],
    ['memory_consent', 'concord memory consent list'],
    ['memory_erasure', 'concord memory forget'],
  ] as const) {
    const path = pathOf(kind, 'foo')
    assert.ok(!path.ok && path.hint?.includes(verb))
  }
})

test('the specific hint of the server comes before the hint of the command line', () => {
  const near = refuse('task_unknown', 'There is no task.', { hint: 'Did you mean `Generate Report`?' })
  assert.match(withHint(near, '/commands').hint ?? '', /^Did you mean `Generate Report`\? `concord task-types`/)
})
