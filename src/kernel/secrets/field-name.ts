/** Which name stands for a value in JSON: that of its field, or the one next to it in a pair: `{ name: 'password', value: 'x' }`. Pure. */
import type { JsonObject, JsonValue } from '../json-value.ts'
import { isSecretReference } from './reference.ts'
import { isSecretName } from './secret-name.ts'
import { plainLetters } from './spelling.ts'
import { isAuthMethod } from './spoken-secret.ts'

const NAMES_OF_PAIR =
  'name key field header label question prompt param parameter variable env property attribute type kind id k n Name Key Field Header Label Type'.split(
    ' ',
  )
const VALUE_OF_PAIR =
  /^(?:val|v|data|content|text|default|plain|raw|reply|entry|(?:(?:string|text|field|input|user|given|new|old|current|raw|plain|secret|default)[_-]?)?(?:values?|answers?|response))$/i
/** It asks about a secret, not for one. */
const QUESTION_ABOUT = /^(?:how|why|where|when|who|can|do|does|should|forgot)\s/i
const COLUMNS_OF_TABLE = 'columns cols header headers fields Columns Headers Fields'.split(' ')
const ROWS_OF_TABLE = /^(?:rows|data|values|records)$/i
const NO_COLUMNS: readonly string[] = []
/** Most texts are no names. */
const MAY_BE_NAME = /pass|pwd|pw|secret|token|key|cred|auth|cookie|pin|otp|cv[vc]|csc|jwt|bearer|code|phrase|word/i
const NAME_CHARS_MAX = 64

/** `auth: { method: 'basic' }` describes how to log in: only its own texts are secrets. */
const IS_ABOUT = /auth$/i

/** Returns the name of the secret that a field holds, or '' if none of its names is one. `outer` is the nearest name around the object. */
export function nameOfField(object: JsonObject, field: string, outer: string): string {
  if (isSecretName(field)) return field
  const isValue = VALUE_OF_PAIR.test(field)
  const pair = isValue ? namesInPair(object).find((name) => isSecretName(name)) : undefined
  return pair ?? (IS_ABOUT.test(outer) && !isValue ? '' : outer)
}

function namesInPair(object: JsonObject): readonly string[] {
  return NAMES_OF_PAIR.flatMap((field) => {
    const text = Object.hasOwn(object, field) ? object[field] : undefined
    return typeof text === 'string' && text.length <= NAME_CHARS_MAX && !QUESTION_ABOUT.test(text) ? [text] : []
  })
}

/** The names of the columns of a table, for the field that has its rows: `{ columns: ['user', 'password'], rows: [['ada', 'x']] }`. */
export function columnsFor(object: JsonObject, field: string): readonly string[] {
  if (!Array.isArray(object[field]) || !ROWS_OF_TABLE.test(field)) return NO_COLUMNS
  const columns = COLUMNS_OF_TABLE.map((name) => (Object.hasOwn(object, name) ? object[name] : undefined))
  const list = columns.find((each) => Array.isArray(each)) as readonly JsonValue[] | undefined
  return list?.map((column) => (typeof column === 'string' ? column : nameOfColumn(column))) ?? NO_COLUMNS
}

function nameOfColumn(column: JsonValue): string {
  const isObject = typeof column === 'object' && column !== null && !Array.isArray(column)
  return isObject ? (namesInPair(column as JsonObject)[0] ?? '') : ''
}

/** Where a list stands. */
export type ListPlace = {
  /** The nearest name of a secret around it, or ''. */
  readonly secretName: string
  readonly isInList: boolean
  readonly columns: readonly string[]
}

/** The same for an item of a list: `['X-Api-Key', 'x']` in a list of pairs, `['--password', 'x']`, `['password', 'hunter2']`, a cell of a table. */
export function nameOfItem(list: readonly JsonValue[], at: number, place: ListPlace): string {
  const { secretName, isInList, columns } = place
  if (secretName !== '') return secretName
  const column = isInList ? (columns[at] ?? '') : ''
  if (column !== '' && isSecretName(column)) return column
  const [last, item] = [at > 0 ? list[at - 1] : undefined, list[at]]
  if (typeof last !== 'string' || typeof item !== 'string' || last.length > NAME_CHARS_MAX) return ''
  const before = plainLetters(last)
  if (!MAY_BE_NAME.test(before)) return ''
  const [, dashes = '', name = ''] = /^(-{0,2})([\w.-]+?)[:=]?$/.exec(before) ?? []
  // A list of names has words: ['password', 'email'].
  const isPair = dashes === '' ? (isInList && list.length === 2) || /\d|[^\w\s-]/.test(item) : !item.startsWith('-')
  return isPair && isSecretName(name) ? name : ''
}

/** Returns whether a value under the name of a secret is one. A reference is none. */
export function isNamedSecret(name: string, value: JsonValue): boolean {
  if (name === '') return false
  if (typeof value === 'number') return isSecretName(name, 'number')
  if (typeof value !== 'string' || value.trim() === '' || isSecretReference(value)) return false
  return !isAuthMethod(name, value)
}

/** The levels of JSON in texts that are read. */
export const TEXT_DEPTH_MAX = 3

/** The value of a text that is a JSON object, list or text. */
export function parseJson(text: string): JsonValue | undefined {
  if (!/^\s*(?:\{|\[|"[^]*\\)/.test(text)) return undefined
  try {
    return JSON.parse(text) as JsonValue
  } catch {
    return undefined
  }
}
