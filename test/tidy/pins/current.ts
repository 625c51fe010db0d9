/** The current values of everything that is pinned. */
import { allMachines } from '#kernel/machines/index'
import { refusals } from '#refusals'
import { gatherEventNames } from '../event-names.ts'
import { type Pinned, pinsOfEvents } from '../pins.ts'
import type { Tree } from '../tree.ts'

export type Pin = { readonly path: string; readonly what: string; readonly actual: Pinned }

export function currentPins(tree: Tree): Pin[] {
  const codes = Object.entries(refusals)
    .map(([code, [kind]]): [string, string] => [code, kind])
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
  return [
    { path: 'test/tidy/pins/refusal-codes.json', what: 'refusal code', actual: Object.fromEntries(codes) },
    {
      path: 'test/tidy/pins/event-names.json',
      what: 'event name',
      actual: pinsOfEvents(gatherEventNames(tree, allMachines)),
    },
  ]
}
