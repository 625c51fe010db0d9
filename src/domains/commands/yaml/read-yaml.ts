/** Reads one YAML 1.2 document into plain JSON. Strict: warnings are errors, and every error has its place. Pure. */
import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseAllDocuments,
  type YAMLError,
} from 'yaml'
import type { JsonObject } from '#kernel/json-value'
import { guardValue } from '#kernel/json-guard'
import { accept, type Decision, type Refusal, refuse } from '#kernel/refusal'

/** The parser recurses on every level: ten thousand brackets overflow its stack. */
const DEPTH_MAX = 64
const ALIASES_MAX = 50
const BYTES_MAX = 1_048_576

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export type YamlFile = {
  readonly file: string
  readonly value: JsonObject
  /** The line of a field, or of the closest enclosing field in the file. */
  lineOf(steps: readonly (string | number)[]): number
  /** The same with its column. */
  placeOf(steps: readonly (string | number)[]): { readonly line: number; readonly column: number }
}

export function readYaml(file: string, bytes: Uint8Array): Decision<YamlFile> {
  if (bytes.length > BYTES_MAX) return refuse('body_too_large', `${file} is larger than ${BYTES_MAX} bytes.`)
  const text = decode(file, bytes)
  if (!text.ok) return text
  const wrong = checkText(file, text.value)
  if (wrong) return wrong
  try {
    return parse(file, text.value)
  } catch (error) {
    // Deep block collections have no brackets to count.
    if (error instanceof RangeError)
      return refuse('yaml_too_deep', `${file} is nested too deeply.`, { facts: { depthMax: DEPTH_MAX } })
    if (error instanceof ReferenceError)
      return refuse('yaml_aliases', `${file} expands too many aliases.`, { facts: { aliasesMax: ALIASES_MAX } })
    throw error
  }
}

function decode(file: string, bytes: Uint8Array): Decision<string> {
  const bad = refuse('encoding', `${file} is not UTF-8 without a byte order mark.`)
  try {
    const text = strictUtf8.decode(bytes)
    return text.startsWith('\uFEFF') || text.includes('\0') ? bad : accept(text)
  } catch {
    return bad
  }
}

function checkText(file: string, text: string): Refusal | undefined {
  let depth = 0
  for (const char of text) {
    if (char === '[' || char === '{') depth += 1
    else if (char === ']' || char === '}') depth = Math.max(0, depth - 1)
    if (depth > DEPTH_MAX)
      return refuse('yaml_too_deep', `${file} has more than ${DEPTH_MAX} levels.`, { facts: { depthMax: DEPTH_MAX } })
  }
  if (/^%YAML\s+(?!1\.2\b)/m.test(text))
    return refuse('yaml_version', `${file} requires a version other than YAML 1.2.`)
  return undefined
}

function parse(file: string, text: string): Decision<YamlFile> {
  const lineCounter = new LineCounter()
  const documents = parseAllDocuments(text, {
    version: '1.2',
    schema: 'core',
    strict: true,
    uniqueKeys: true,
    prettyErrors: true,
    lineCounter,
  })
  if (!Array.isArray(documents) || documents.length === 0) return refuse('yaml_syntax', `${file} is empty.`)
  if (documents.length > 1) return refuse('yaml_one_document', `${file} contains ${documents.length} documents.`)
  const [document] = documents
  const problem = document?.errors[0] ?? document?.warnings[0]
  if (!document || problem) return refuseProblem(file, problem)
  const value: unknown = document.toJS({ maxAliasCount: ALIASES_MAX })
  const guarded = guardValue(value)
  if (!guarded.ok) return { ...guarded, reason: `${file}: ${guarded.reason}` }
  const isObject = typeof guarded.value === 'object' && guarded.value !== null && !Array.isArray(guarded.value)
  if (!isObject) return refuse('yaml_syntax', `${file} is not a mapping.`)
  const placeOf = (steps: readonly (string | number)[]) => {
    const { line, col: column } = lineCounter.linePos(offsetOf(document, steps))
    return { line, column }
  }
  return accept({ file, value: guarded.value as JsonObject, lineOf: (steps) => placeOf(steps).line, placeOf })
}

function offsetOf(document: Document.Parsed, steps: readonly (string | number)[]): number {
  let node: unknown = document.contents
  let offset = document.contents?.range[0] ?? 0
  for (const step of steps) {
    if (isAlias(node)) node = node.resolve(document)
    const pair = isMap(node)
      ? node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step))
      : undefined
    const place = pair ? pair.key : isSeq(node) ? node.items[Number(step)] : undefined
    if (!isNode(place)) break
    offset = place.range?.[0] ?? offset
    node = pair ? pair.value : place
  }
  return offset
}

function refuseProblem(file: string, problem: YAMLError | undefined): Refusal {
  const [start] = problem?.linePos ?? []
  const at = start ? `${file}:${start.line}:${start.col}` : file
  const facts = { file, line: start?.line ?? null, column: start?.col ?? null }
  const [summary = ''] = (problem?.message ?? 'The file cannot be read.').split('\n')
  if (problem?.code === 'DUPLICATE_KEY')
    return refuse('yaml_duplicate_key', `${at}: the key is already defined.`, { path: at, facts })
  if (problem?.code === 'TAG_RESOLVE_FAILED')
    return refuse('yaml_tag', `${at}: tags are not supported.`, { path: at, facts })
  return refuse('yaml_syntax', `${at}: ${summary}`, { path: at, facts })
}
