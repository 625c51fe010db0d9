/** Where the code of a project makes its definitions, so that an error in the catalog names the file and the line; and the fields they may have. */
import { nearest } from '#kernel/nearest'

/** The folder of Concord itself: `src` in a checkout, `dist` in the package. */
const OWN = new URL('../../../', import.meta.url).href
const FRAME = /(file:\/\/[^\s()]+):(\d+):\d+\)?$/
/** Enough to get from here out of Concord. */
const FRAMES_MAX = 20

const places = new WeakMap<object, string>()

/** Remembers the first caller outside Concord. */
export function placed<T extends object>(definition: T): T {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = FRAMES_MAX
  const { stack = '' } = new Error()
  Error.stackTraceLimit = stackTraceLimit
  for (const frame of stack.split('\n')) {
    const [, url = OWN, line = ''] = FRAME.exec(frame) ?? []
    if (url.startsWith(OWN)) continue
    places.set(definition, `${decodeURIComponent(url.slice('file://'.length))}:${line}`)
    break
  }
  return definition
}

export function placeOf(definition: object): string | undefined {
  return places.get(definition)
}

/** A program that runs without a check of types would ignore a misspelt field, and with it an undo or a key. */
export function checkFields(of: string, spec: object, known: readonly string[]): void {
  const strange = Object.keys(spec).find((name) => !known.includes(name))
  if (strange === undefined) return
  const near = nearest(strange, known)
  throw new TypeError(`${of} has no field ${strange}${near === undefined ? '' : `; did you mean ${near}?`}`)
}
