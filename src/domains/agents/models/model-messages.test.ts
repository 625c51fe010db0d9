/** The messages of a conversation as a provider gets them: each call has an id of its own, and the result that followed it. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type GenerateInput, openNames, toModelMessages } from './model-messages.ts'

const names = openNames(['look'])
const call = (id: string) => ({ id, name: 'look', arguments: '{}' })
const asked = (...ids: readonly string[]) => ({ role: 'assistant' as const, text: null, calls: ids.map(call) })
const found = (call_id: string, text: string) => ({ role: 'tool' as const, call_id, text })

/** The id of each call and the result that is sent with it. */
function pairs(messages: GenerateInput['messages']) {
  return toModelMessages(messages, names).flatMap(({ role, content }) => {
    if (role !== 'tool') return []
    return content.flatMap((part) =>
      part.type === 'tool-result' && part.output.type === 'text' ? [[part.toolCallId, part.output.value]] : [],
    )
  })
}

test('two answers with the same id of a call: each has the result that followed it', () => {
  const sent = pairs([asked('a', 'b'), found('b', '2'), found('a', '1'), asked('a'), found('a', '3')])
  assert.deepEqual(
    sent.map(([, value]) => value),
    ['1', '2', '3'],
  )
  assert.equal(new Set(sent.map(([id]) => id)).size, 3, 'every call has an id of its own')
})

test('the result of an answer that was erased is not sent as that of another call', () => {
  assert.deepEqual(
    pairs([asked('a'), asked('c'), found('a', 'of an erased answer'), found('c', '1')]).map(([, value]) => value),
    ['There is no result.', '1'],
  )
})
