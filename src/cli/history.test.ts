/** What a check of the archive exits with: well only when every file was looked at. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { judgeFindings } from './history.ts'

const finding = (status: 'whole' | 'missing' | 'damaged' | 'surplus') => ({
  file: `${status}.gz`,
  status,
  events: 1,
  found: null,
})
const codeOf = (states: Parameters<typeof finding>[0][], isStopped = false) => {
  const judged = judgeFindings(states.map(finding), isStopped)
  return judged.ok ? 'well' : judged.code
}

test('files that are gone or damaged are not well, and neither is a check that was stopped before its end', () => {
  assert.equal(codeOf(['whole', 'surplus']), 'well')
  assert.equal(codeOf(['whole', 'missing']), 'history.unwell')
  assert.equal(codeOf(['damaged'], true), 'history.unwell')
  assert.equal(codeOf(['whole'], true), 'cli.wait.ended')
  assert.equal(codeOf([], true), 'cli.wait.ended')
})
