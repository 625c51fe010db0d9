/** `concord doctor --deep` reads every record. It reports each broken invariant with the row and the next step. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openOperatedRoom } from '#test/operated-room'

type Finding = { readonly check: string; readonly status: string; readonly found: string; readonly next?: string }

test('doctor --deep reports that all invariants hold, and names one that was broken behind Concord’s back', async (t) => {
  const { room, owner, concord } = await openOperatedRoom(t)
  const id = await room.submit({ subject: 's', steps: ['connector.hotel.book_a'] })
  assert.equal(await room.settle(id), 'succeeded')
  const examine = async () => {
    const { out, code } = await concord('--json', 'doctor', '--deep')
    return { code, findings: (JSON.parse(out.split('\n')[0] ?? '') as { findings: Finding[] }).findings }
  }
  const well = await examine()
  assert.deepEqual(
    well.findings.filter(({ check }) => check === 'records').map(({ status }) => status),
    ['well'],
  )
  assert.equal(well.code, 0)

  await owner.query(`update concord.commands set status = 'failed' where command_id = $1`, [id])
  const ill = await examine()
  const broken = ill.findings.filter(({ status }) => status === 'broken')
  assert.deepEqual(
    broken.map(({ check }) => check.split(' ')[0]),
    ['C06', 'R01'],
  )
  assert.match(broken[0]?.found ?? '', new RegExp(`1 of them: ${id}`))
  assert.match(broken[0]?.next ?? '', /backup/)
  assert.equal(ill.code, 78)
  const shown = await concord('doctor', '--deep')
  assert.match(shown.out, /broken {2}C06 the status is the last move: [\s\S]*next: /)
})
