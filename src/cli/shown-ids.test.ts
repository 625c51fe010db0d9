/** Ids inside JSON look as they do everywhere else, and everything that is no id stays. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { shortJson } from './command-view.ts'
import { shownId, withShownIds } from './shown-ids.ts'

const UUID = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170'
const HEX = UUID.replaceAll('-', '')

test('a UUID under the name of a kind gets its prefix, also deep inside', () => {
  assert.deepEqual(withShownIds({ artifact_id: UUID, list: [{ memory_erasure_id: UUID }], n: 1, none: null }), {
    artifact_id: `art_${HEX}`,
    list: [{ memory_erasure_id: `memerase_${HEX}` }],
    n: 1,
    none: null,
  })
  assert.equal(shortJson({ artifact_id: UUID }), `{"artifact_id":"art_${HEX}"}`)
})

test('what is prefixed already, is no UUID, or names no kind of ours stays as it is', () => {
  const same = { artifact_id: `art_${HEX}`, command_id: 'x', booking_draft_id: UUID, title: UUID }
  assert.deepEqual(withShownIds(same), same)
  assert.equal(shownId('memory', UUID), `mem_${HEX}`)
  assert.equal(shownId('stored_memory', UUID), UUID)
})
