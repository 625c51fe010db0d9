/** Time zones by their IANA name; whatever the engine's own table does not know is refused. */
import { accept, type Decision, quote, refuse } from './refusal.ts'

/** Names only: the engine would also take offsets such as +02:00, which know no summer time. */
const NAME = /^[A-Za-z][A-Za-z0-9_+-]*(?:\/[A-Za-z0-9_+-]+){0,2}$/

/** Takes `UTC` or `Europe/Berlin` and gives the name back as it was sent. */
export function parseTimeZone(name: string): Decision<string> {
  if (name.length <= 64 && NAME.test(name) && isKnown(name)) return accept(name)
  return refuse('timezone_unknown', `${quote(name)} is not a time zone`, {
    hint: 'Send an IANA name such as "Europe/Berlin" or "UTC".',
  })
}

function isKnown(name: string): boolean {
  try {
    // The constructor is the only question an engine answers about one zone; it throws for an unknown one.
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
