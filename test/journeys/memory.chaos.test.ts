/** Memory from the terminal on a running server: proposed, agreed to, found, and forgotten without a trace of its content. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { dumpDatabase } from '#test/memory'
import { until } from '#test/until'
import { withServer } from '#test/with-server'

describe('memory from the terminal', () => {
  let ownerKey: string
  const server = withServer({
    async ready({ hire }) {
      ownerKey = await hire('owner', 'data-owner')
    },
  })
  const concord = (...args: string[]) => server.concord('memory', ...args)
  const asOwner = (...args: string[]) => server.as(ownerKey, ...args)
  const json = async <T>(ended: Promise<{ out: string; err: string; code: number | null }>): Promise<T> => {
    const { out, err, code } = await ended
    assert.equal(code, 0, err)
    return JSON.parse(out) as T
  }
  type Candidate = { memory_candidate_id: string; status: string; memory_id: string | null }
  const candidate = (id: string) => json<Candidate>(concord('candidates', id, '--json'))
  const SUBJECT = 'customer:zzalicezz'
  const propose = (content: string, ...more: string[]) =>
    json<Candidate>(
      concord('propose', '--subject', SUBJECT, '--content', content, '--confidence', '0.9', ...more, '--json'),
    )

  test('[MEM-04] [MEM-13] [OQ-06] a proposal waits for the data owner, until there is consent; then it is written at once', async () => {
    const asked = await propose('{"note":"zzquietzz"}', '--key', 'room')
    await until(async () => (await candidate(asked.memory_candidate_id)).status === 'awaiting_approval')
    const shown = await concord('candidates', asked.memory_candidate_id)
    assert.match(shown.out, /consent +none/)
    assert.match(shown.out, /a person other than \S+ decides/)
    assert.match(shown.out, new RegExp(`concord memory approve ${asked.memory_candidate_id}`))
    const approved = await asOwner('memory', 'approve', asked.memory_candidate_id, '--reason', 'she said so')
    assert.equal(approved.code, 0, approved.err)
    await until(async () => (await candidate(asked.memory_candidate_id)).status === 'accepted')
    assert.equal((await concord('consent', 'grant', '--subject', SUBJECT)).code, 0)
    const direct = await propose('{"seat":"zzaislezz"}', '--key', 'seat')
    assert.equal(direct.status, 'accepted')
    const found = await concord('search', 'zzquietzz', '--subject', SUBJECT)
    assert.match(found.out, /zzquietzz/)
    assert.match((await concord('show', direct.memory_id ?? '')).out, /key +seat/)
    assert.match((await concord('consent', 'list', '--subject', SUBJECT)).out, /given/)
  })

  test('mistakes name the next step and exit with their code', async () => {
    const secret = await concord('propose', '--subject', SUBJECT, '--content', '{"password":"x1y2z3"}')
    assert.deepEqual([secret.code, /memory\.content\.secret/.test(secret.err)], [65, true])
    assert.equal((await concord('propose', '--subject', SUBJECT, '--content', '{oops')).code, 65)
    assert.equal((await concord('show', 'mem_1')).code, 65)
    const nobody = await concord('forget', '--subject', 'customer:nobody', '--yes')
    assert.match(nobody.err, /memory\.forget\.nothing_known/)
    assert.equal((await concord('forget')).code, 64)
  })

  test('forget shows what is known, waits for a yes, and leaves nothing but a certificate', async () => {
    const hold = await json<{ memory_hold_id: string }>(
      concord('hold', 'place', '--subject', SUBJECT, '--reason', 'case 7', '--json'),
    )
    const held = await concord('forget', '--subject', SUBJECT)
    assert.match(held.err, /a hold is active/)
    assert.match(held.out, /case 7/)
    assert.equal((await concord('hold', 'release', hold.memory_hold_id)).code, 0)
    const preview = await concord('forget', '--subject', SUBJECT)
    assert.match(preview.out, /2 {2}memory\n/)
    assert.match(preview.err, /nothing was changed/)
    type Erasure = { memory_erasure_id: string; outcome: string | null; command_id: string }
    const asked = await json<Erasure>(concord('forget', '--subject', SUBJECT, '--yes', '--json'))
    type Inbox = { items: { approval_id: string; command_id: string }[] }
    const approval = async () => {
      const { items } = await json<Inbox>(asOwner('inbox', '--json'))
      return items.find(({ command_id }) => command_id === asked.command_id)?.approval_id
    }
    await until(async () => (await approval()) !== undefined)
    assert.equal((await asOwner('approve', (await approval()) ?? '', '--reason', 'her right')).code, 0)
    await until(
      async () => (await json<Erasure>(concord('erasure', asked.memory_erasure_id, '--json'))).outcome === 'erased',
    )
    const certificate = await concord('erasure', asked.memory_erasure_id)
    assert.match(certificate.out, /2 {2}memory\n[\s\S]*certificate +[0-9a-f]{64}/)
    // Everything, the runtime's own tables included.
    const dump = await dumpDatabase(server.database.db)
    assert.match(dump, /memory_erased/)
    for (const word of ['zzquietzz', 'zzaislezz', 'zzalicezz'])
      assert.ok(!dump.includes(word), `${word}: ${dump.split('\n').find((line) => line.includes(word))}`)
    assert.match((await concord('search', '--subject', SUBJECT)).err, /No memory matches/)
  })

  test('[MEM-18] the review of stale memory is a command that anybody may fire', async () => {
    const run = await server.concord('submit', 'Review Stale Memory', '--payload', '{}', '--wait', '--timeout', '60s')
    assert.equal(run.code, 0, run.err)
    assert.match(run.out, /^ +expired +0$/m)
  })
})
