/** A pin freezes a value that others rely on, as a literal in `test/tidy/pins/`. A failure asks for a decision. */
import type { Finding } from './finding.ts'

export type Pinned = Readonly<Record<string, string>>

const acceptCommand = 'node test/tidy/pins/accept.ts'

/** `what` is the pinned thing in the singular: "refusal code". */
export function checkPins(path: string, what: string, pinned: Pinned, actual: Pinned): Finding[] {
  const added = Object.keys(actual).filter((name) => !Object.hasOwn(pinned, name))
  const gone = Object.keys(pinned).filter((name) => !Object.hasOwn(actual, name))
  const changed = Object.keys(actual).filter((name) => Object.hasOwn(pinned, name) && pinned[name] !== actual[name])
  return [
    ...added.map(
      (name) => `decide: ${what} ${name} (${actual[name]}) is new, and users will rely on it; if so, ${acceptCommand}`,
    ),
    ...gone.map((name) => `decide: ${what} ${name} is gone and breaks its users; if so, ${acceptCommand}`),
    ...changed.map(
      (name) => `decide: ${what} ${name} was ${pinned[name]} and is now ${actual[name]}; if so, ${acceptCommand}`,
    ),
  ].map((problem) => ({ path, problem }))
}

/** Event names with their writers. */
export function pinsOfEvents(names: Readonly<Record<string, readonly string[]>>): Pinned {
  const writers = new Map<string, string[]>()
  for (const [writer, list] of Object.entries(names)) {
    for (const name of list) writers.set(name, [...(writers.get(name) ?? []), writer])
  }
  return Object.fromEntries(
    [...writers].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([name, by]) => [name, by.join(', ')]),
  )
}
