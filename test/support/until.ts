/** Waits for something that must come about, however busy the machine is: only a thing that never comes fails. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

// A loaded machine with two cores was seen to need 12 s for what takes 20 ms alone. Below the 60 s of a test, so that the failure
// says what did not come about.
const LIMIT_MS = process.env['CONCORD_PROOF'] === 'long' ? 90_000 : 45_000

export async function until(condition: () => boolean | Promise<boolean>, what = 'it'): Promise<void> {
  const giveUpAt = performance.now() + LIMIT_MS
  while (!(await condition())) {
    if (performance.now() > giveUpAt) assert.fail(`${what} did not come about`)
    await sleep(10)
  }
}
