/** Turns an operation and its input into method, address and body; no field can climb out of its place. Pure. */
import type { JsonObject, JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import type { HttpForm } from './http-settings.ts'
import { decideUrl, type Reach } from './reach.ts'

export type BuiltRequest = { readonly url: URL; readonly body: string | undefined }

export function buildRequest(form: HttpForm, base: URL, input: JsonObject, reach: Reach): Decision<BuiltRequest> {
  const used = new Set<string>(form.query ?? [])
  const url = form.url_from === undefined ? fillPath(form, base, input, used) : textOf(input, form.url_from)
  if (!url.ok) return url
  if (form.url_from !== undefined) used.add(form.url_from)
  const decided = decideUrl(url.value, reach)
  if (!decided.ok) return decided
  for (const name of form.query ?? []) {
    const value = input[name]
    if (value !== undefined && value !== null) decided.value.searchParams.set(name, queryText(value))
  }
  const rest = Object.fromEntries(Object.entries(input).filter(([name]) => !used.has(name)))
  const hasBody = form.method !== 'GET' && form.method !== 'HEAD' && form.method !== 'DELETE'
  return accept({ url: decided.value, body: hasBody ? JSON.stringify(rest) : undefined })
}

function fillPath(form: HttpForm, base: URL, input: JsonObject, used: Set<string>): Decision<string> {
  let wrong: string | undefined
  const path = (form.path ?? '').replace(/\{([A-Za-z_][\w-]*)\}/g, (_whole, name: string) => {
    used.add(name)
    const value = input[name]
    const isPlain = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    const text = isPlain ? String(value) : ''
    // A dot segment would be taken out of the path together with what stands before it.
    if (text === '' || text === '.' || text === '..') wrong ??= name
    return encodeURIComponent(text)
  })
  if (wrong !== undefined)
    return refuse('connectors.address.not_allowed', `the field ${quote(wrong)} cannot stand in a path`, { path: wrong })
  return accept(`${base.origin}${base.pathname.replace(/\/$/, '')}${path}`)
}

function textOf(input: JsonObject, name: string): Decision<string> {
  const value = input[name]
  return typeof value === 'string'
    ? accept(value)
    : refuse('connectors.address.not_allowed', `${quote(name)} is no address`)
}

function queryText(value: JsonValue): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
