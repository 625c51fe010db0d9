/**
 * A worker in a process of its own: claims commands, freezes right after the claim (by the plan in `CONCORD_FAULTS`), and when
 * it is thawed tries every write that a holder may make. Prints what was accepted, with the fence and without.
 *
 * node test/support/lease-child.ts <url> <lease ms> <limit>
 */
import { claimNext, releaseLeases, renewLeases } from '../../src/store/claim.ts'
import { openDb } from '../../src/store/db.ts'
import { transition } from '../../src/store/transition/transition.ts'
import { by, leasedCommand, newId, storedCommand } from './concord-rows.ts'

const [url = '', leaseMs = '0', limit = '0'] = process.argv.slice(2)
const db = openDb({ url, role: 'concord_engine', poolMax: 2 })
const token = newId()
const claimed = await claimNext(db, leasedCommand, {
  ...by('worker'),
  worker: 'frozen',
  token,
  leaseMs: Number(leaseMs),
  limit: Number(limit),
})
if (!claimed.ok) throw new Error(claimed.reason)

const held = claimed.value.map(({ command_id }) => ({ id: command_id, token }))
const { renewed } = await renewLeases(db, leasedCommand, held, 60_000)
const codes: string[] = []
for (const row of claimed.value) {
  const moved = await transition(db, storedCommand, row, 'succeeded', {
    ...by('worker'),
    fence: { turn_token: token },
    set: { result: 'late' },
  })
  codes.push(moved.ok ? 'accepted' : moved.code)
}
const released = await releaseLeases(db, leasedCommand, held)
const unfenced = await db.query(
  `update concord.commands set error = 'late' where command_id = any($1::uuid[]) returning 1`,
  [held.map(({ id }) => id)],
)
await db.close()
process.stdout.write(
  JSON.stringify({
    claimed: held.length,
    codes,
    renewed: renewed.length,
    released: released.length,
    unfenced: unfenced.length,
  }),
)
