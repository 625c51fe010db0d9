/** The text of a refusal for a model. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { refuse, type RefusalCode } from '#kernel/refusal'
import { refusals } from '#refusals'
import { toErrorResult } from './tools.ts'

test('no refusal sends a model to the API or to a terminal: it has only its tools', () => {
  for (const code of Object.keys(refusals) as RefusalCode[]) {
    const { content, isError } = toErrorResult(refuse(code, 'It was refused.'))
    const [part] = content
    assert.ok(part?.type === 'text' && isError)
    assert.match(part.text, /^It was refused\. \([\w.]+\) \S/)
    assert.doesNotMatch(part.text, /(?:GET|POST|PUT|PATCH|DELETE) \/|concord [a-z]/, code)
  }
})
