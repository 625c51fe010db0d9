/** Waits for a condition, however busy the machine is. Only a condition that never becomes true fails. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

// A loaded machine with two cores needed 12 s for what takes 20 ms alone. Below the 60 s of a test, so that the failure names the
// condition.
const LIMIT_MS = process.env['CONCORD_PROOF'] === 'long' ? 90_000 : 45_000

export async function until(condition: () => boolean | Promise<boolean>, what = 'a condition'): Promise<void> {
  const giveUpAt = performance.now() + LIMIT_MS
  while (!(await condition())) {
    if (performance.now() > giveUpAt) assert.fail(`Timed out waiting for ${what}.`)
    await sleep(10)
  }
}
