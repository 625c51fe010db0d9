/** Ids inside JSON look as they do everywhere else, and values that are not ids stay unchanged. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { handedOnIds, shownId, withShownIds, withShownTarget } from './ids.ts'

const UUID = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405170'
const HEX = UUID.replaceAll('-', '')

test('a UUID under the name of a kind gets its prefix, also deep inside', () => {
  assert.deepEqual(withShownIds({ artifact_id: UUID, list: [{ memory_erasure_id: UUID }], n: 1, none: null }), {
    artifact_id: `art_${HEX}`,
    list: [{ memory_erasure_id: `memerase_${HEX}` }],
    n: 1,
    none: null,
  })
})

test('a prefixed id, a value that is not a UUID, and an unknown kind stay unchanged', () => {
  const same = { artifact_id: `art_${HEX}`, command_id: 'x', booking_draft_id: UUID, title: UUID }
  assert.deepEqual(withShownIds(same), same)
  assert.equal(shownId('memory', UUID), `mem_${HEX}`)
  assert.equal(shownId('stored_memory', UUID), UUID)
})

test('in a result only what effects have from Concord is ours', () => {
  const result = { artifact_id: UUID, nested: [{ domain_effect_id: UUID }], user_id: UUID, job_id: UUID }
  assert.deepEqual(withShownIds(result, handedOnIds), {
    artifact_id: `art_${HEX}`,
    nested: [{ domain_effect_id: `eff_${HEX}` }],
    user_id: UUID,
    job_id: UUID,
  })
})

test('the target of an event is shown by its type', () => {
  const shown = withShownTarget({ target_type: 'approval', target_id: UUID, command_id: UUID, n: 1 })
  assert.deepEqual(shown, { target_type: 'approval', target_id: `appr_${HEX}`, command_id: `cmd_${HEX}`, n: 1 })
  assert.deepEqual(withShownTarget({ target_type: 'schedule', target_id: UUID })['target_id'], `csched_${HEX}`)
  const none = { target_type: 'request', target_id: null }
  assert.deepEqual(withShownTarget(none), none)
})
