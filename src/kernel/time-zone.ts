/** Time zones by their IANA name; a name that the engine's table does not contain is refused. */
import { accept, type Decision, quote, refuse } from './refusal.ts'

/** Names only: the engine would also accept offsets such as +02:00, which have no daylight saving time. */
const NAME = /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+){0,2}$/

/** Accepts `UTC` or `Europe/Berlin` and returns the name unchanged. */
export function parseTimeZone(name: string): Decision<string> {
  if (name.length <= 64 && NAME.test(name) && isKnown(name)) return accept(name)
  return refuse('timezone_unknown', `${quote(name)} is not a time zone.`, {
    hint: 'Send an IANA name such as "Europe/Berlin" or "UTC".',
  })
}

function isKnown(name: string): boolean {
  try {
    // Only the constructor can check a single zone; it throws for an unknown one.
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
