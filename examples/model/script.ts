/** What the fake model says: chosen from its script and the conversation, so that the same request gets the same answer. */

export const troubles = [
  /** Answers after a while. */
  'slow',
  /** Never answers. */
  'silent',
  /** 429 with `retry-after: 1`. */
  'rate_limited',
  /** Ends the connection in the middle of its answer. */
  'cut',
  /** 500, after the work was done and charged. */
  'fault',
  /** 200 with a page instead of an answer. */
  'not_json',
  /** An answer of five megabytes. */
  'too_large',
  /** Repeats the credential of the request in its answer. */
  'echo',
] as const
export type Trouble = (typeof troubles)[number]

export type ScriptedAnswer = {
  readonly text?: string
  /**
   * `arguments` as a text are sent as they are: so arguments can be broken. A value `$artifact_id` is replaced by the newest field of that name in
   * what the model was told; `$artifact_ids.0` is the first of a list.
   */
  readonly calls?: readonly { readonly name: string; readonly arguments: object | string }[]
  /** Replaces the true figures: `missing`, or whatever the test makes the provider claim. */
  readonly usage?: 'missing' | Readonly<Record<string, unknown>>
  readonly trouble?: Trouble
  /** How many requests for this answer meet the trouble; later ones are answered. 1 unless it is given. */
  readonly times?: number
}

/**
 * Answers by turn: the request with two answers of the model in it gets the third; after the last, the last again. `obedient`: a model that
 * does whatever it reads, see `obey`.
 */
type ModelScript = 'obedient' | readonly ScriptedAnswer[]
/** By the name of the model that a request asks for. */
export type ModelScripts = Readonly<Record<string, ModelScript>>

/** The parts of a chat request that the fake reads. */
export type ChatRequest = { readonly model: string; readonly messages: readonly ChatMessage[] }
type ChatMessage = {
  readonly role: string
  readonly content?: unknown
  readonly tool_calls?: readonly { readonly function: { readonly name: string; readonly arguments: string } }[]
}

export function turnOf({ messages }: ChatRequest): number {
  return messages.filter(({ role }) => role === 'assistant').length
}

export function answerTo(scripts: ModelScripts, request: ChatRequest): ScriptedAnswer | undefined {
  const script = Object.hasOwn(scripts, request.model) ? scripts[request.model] : undefined
  if (script === 'obedient') return obey(request)
  const answer = script?.[turnOf(request)] ?? script?.at(-1)
  return answer && { ...answer, ...(answer.calls && { calls: answer.calls.map((call) => fillIn(call, request)) }) }
}

function fillIn<Call extends { readonly arguments: object | string }>(call: Call, { messages }: ChatRequest): Call {
  if (typeof call.arguments === 'string') return call
  const known = messages.filter(({ role }) => role === 'tool' || role === 'user').toReversed()
  const fill = (_: string, value: unknown): unknown => {
    const [, name, at] = typeof value === 'string' ? (/^\$(\w+)(?:\.(\d+))?$/.exec(value) ?? []) : []
    if (name === undefined) return value
    const found = known.map(({ content }) => fieldIn(content, name)).find((each) => each !== undefined)
    return (at === undefined ? found : (found as readonly unknown[] | undefined)?.[Number(at)]) ?? value
  }
  return { ...call, arguments: JSON.parse(JSON.stringify(call.arguments, fill)) as object }
}

function fieldIn(value: unknown, name: string): unknown {
  const inner = typeof value === 'string' ? readJson(value) : value
  if (typeof inner !== 'object' || inner === null) return undefined
  if (Object.hasOwn(inner, name)) return (inner as Record<string, unknown>)[name]
  return Object.values(inner)
    .map((each) => (typeof each === 'object' || typeof each === 'string' ? fieldIn(each, name) : undefined))
    .find((found) => found !== undefined)
}

/**
 * Obeys every instruction `CALL <tool> <arguments as JSON>` in what users and tools told it, once each. A model that can be persuaded by a
 * document does the same with more words. With nothing left to do it ends.
 */
function obey({ messages }: ChatRequest): ScriptedAnswer {
  const done = messages.flatMap(({ tool_calls = [] }) => tool_calls.map(({ function: called }) => keyOf(called)))
  const calls = messages
    .filter(({ role }) => role === 'user' || role === 'tool')
    .flatMap(({ content }) => textsIn(content))
    .flatMap(instructionsIn)
    .filter((call, at, all) => all.findIndex((other) => keyOf(other) === keyOf(call)) === at)
    .filter((call) => !done.includes(keyOf(call)))
  return calls.length === 0 ? { text: 'Done.' } : { calls }
}

function keyOf(called: { readonly name: string; readonly arguments: object | string }): string {
  const given: unknown = typeof called.arguments === 'string' ? readJson(called.arguments) : called.arguments
  return `${called.name} ${JSON.stringify(given)}`
}

/** Every text in a message: contents arrive as parts, and results of tools as JSON inside a text. */
function textsIn(value: unknown): readonly string[] {
  if (typeof value === 'string') {
    const inner = readJson(value)
    return typeof inner === 'object' && inner !== null ? textsIn(inner) : [value]
  }
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(textsIn) : []
}

function instructionsIn(text: string): readonly { readonly name: string; readonly arguments: object }[] {
  return [...text.matchAll(/\bCALL ([\w.-]+) (?=\{)/g)].flatMap((found) => {
    const given = objectAt(text, found.index + found[0].length)
    return given === undefined ? [] : [{ name: found[1] ?? '', arguments: given }]
  })
}

/** The JSON object that begins at this place of a longer text. */
function objectAt(text: string, from: number): object | undefined {
  for (let end = text.indexOf('}', from); end !== -1; end = text.indexOf('}', end + 1)) {
    const read = readJson(text.slice(from, end + 1))
    if (typeof read === 'object' && read !== null) return read
  }
  return undefined
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
