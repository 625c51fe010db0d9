/**
 * Converts ids at the boundary: `cmd_<32 hex>` outside, a canonical UUID inside. One codec, one table of prefixes, one output form.
 * Trace and request ids have no row and stay text.
 */
import type { Clock, NewId } from './clock.ts'
import { KernelFault } from './errors.ts'
import { accept, type Decision, quote, type Refusal, refuse } from './refusal.ts'

/** Only rows with a UUID key. Closed and never reused: a prefix in a log must keep its meaning forever. */
export const idPrefixes = {
  command: 'cmd',
  approval: 'appr',
  effect: 'eff',
  event: 'evt',
  artifact: 'art',
  memory: 'mem',
  memory_candidate: 'memc',
  memory_consent: 'memcon',
  memory_hold: 'memhold',
  memory_erasure: 'memerase',
  connector_invocation: 'inv',
  swarm_run: 'swarm',
  agent_run: 'agent',
  agent_invocation: 'call',
  agent_message: 'msg',
  budget: 'budget',
  registry_entity: 'reg',
  registry_version: 'regver',
  registry_binding: 'regbind',
  registry_evaluation: 'regeval',
  registry_artifact: 'regart',
  registry_relationship: 'regrel',
  mission: 'mission',
  mission_task: 'task',
  colony_mission: 'col',
  dag_version: 'dag',
  flow_job: 'fjob',
  flow_task: 'ftask',
  dataset: 'ds',
  dataset_version: 'dsver',
  job: 'job',
  job_run: 'run',
  job_template: 'tmpl',
  job_group: 'jgrp',
  schedule: 'sched',
  command_schedule: 'csched',
  signal: 'sig',
  stop: 'stop',
  reservation: 'resv',
  org: 'org',
  org_role: 'role',
  user: 'user',
  workspace: 'ws',
  api_key: 'key',
  delegation: 'deleg',
} as const

export type IdKind = keyof typeof idPrefixes

/** Returns the only form that leaves Concord. The UUID comes from one of our rows, so anything else is a fault. */
export function encodeId(kind: IdKind, uuid: string): string {
  const hex = hexOfUuid(uuid)
  if (hex === undefined)
    throw new KernelFault('id.not_a_uuid', `The id of a ${kind} is not a canonical UUID.`, { kind })
  return `${idPrefixes[kind]}_${hex}`
}

/** Accepts the prefixed form of this kind or the canonical UUID; refuses braces, upper case and other prefixes. */
export function decodeId(kind: IdKind, text: string): Decision<string> {
  const prefix = `${idPrefixes[kind]}_`
  if (text.startsWith(prefix)) {
    const uuid = uuidOfHex(text.slice(prefix.length))
    return uuid === undefined ? badId(kind, text) : accept(uuid)
  }
  return hexOfUuid(text) === undefined ? badId(kind, text) : accept(text)
}

/** Trace and request ids: the hex digits of a version 4 UUID after a prefix, stored as text everywhere. */
export const textIdPrefixes = { trace: 'trace', request: 'req' } as const
export type TextIdKind = keyof typeof textIdPrefixes

export function textId(kind: TextIdKind, random16: Uint8Array): string {
  return `${textIdPrefixes[kind]}_${uuidV4(random16).replaceAll('-', '')}`
}

const TEXT_ID_REST = /^[0-9A-Za-z_-]{1,64}$/

/** Accepts a foreign trace or request id only if it is short and harmless in a log line. */
export function isTextId(kind: TextIdKind, text: string): boolean {
  const prefix = `${textIdPrefixes[kind]}_`
  return text.startsWith(prefix) && TEXT_ID_REST.test(text.slice(prefix.length))
}

function badId(kind: IdKind, text: string): Refusal {
  return refuse('id_format', `${quote(text)} is not the id of a ${kind.replaceAll('_', ' ')}.`, {
    hint: `Send ${idPrefixes[kind]}_ and 32 lower-case hex digits, or the UUID in lower case with hyphens.`,
    facts: { kind, prefix: idPrefixes[kind] },
  })
}

// UUIDs of version 7: new rows land at the end of the index of the primary key.

/** Returns the requested number of random bytes; tests pass their own. */
export type RandomBytes = (count: number) => Uint8Array

/** Drawing ten bytes takes 4 µs, mostly for the system call, and a command needs fifteen ids. Not for keys and secrets. */
const AHEAD_BYTES = 4_096

/** Draws the bytes of many ids at once. */
export function drawnAhead(randomBytes: RandomBytes): RandomBytes {
  let [drawn, used] = [randomBytes(AHEAD_BYTES), 0]
  return (count) => {
    if (used + count > drawn.length) [drawn, used] = [randomBytes(Math.max(AHEAD_BYTES, count)), 0]
    used += count
    return drawn.subarray(used - count, used)
  }
}

const CANONICAL = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/
const HEX_32 = /^[0-9a-f]{32}$/
const MAX_TIME_MS = 2 ** 48 - 1
const MAX_COUNTER = 0xfff

/** The only form that Concord stores and compares: lower case, with hyphens, without braces. */
export function isUuid(text: string): boolean {
  return CANONICAL.test(text)
}

/** Returns 32 lower-case hex digits without hyphens, or undefined for anything that is not a canonical UUID. */
export function hexOfUuid(uuid: string): string | undefined {
  return CANONICAL.test(uuid) ? uuid.replaceAll('-', '') : undefined
}

export function uuidOfHex(hex: string): string | undefined {
  return HEX_32.test(hex) ? hyphenate(hex) : undefined
}

/** Lays out a time, a counter of 12 bits and the last 8 random bytes as version 7 (RFC 9562); 62 random bits remain. */
export function uuidV7(timeMs: number, counter: number, random: Uint8Array, at = 0): string {
  if (!Number.isInteger(timeMs) || timeMs < 0 || timeMs > MAX_TIME_MS) {
    throw new KernelFault('uuid.time', 'A version 7 UUID needs a whole number of milliseconds in 48 bits.', {
      timeMs,
    })
  }
  if (!Number.isInteger(counter) || counter < 0 || counter > MAX_COUNTER) {
    throw new KernelFault('uuid.counter', 'The counter of a version 7 UUID has 12 bits.', { counter })
  }
  checkRandom(random, at + 8)
  return layOut(timeMs / 2 ** 32, timeMs / 2 ** 16, timeMs, 0x7000 | counter, random, at)
}

/** The lowest id of a row that was created at the time or later. A minute earlier: the clock that makes ids may differ from the one of the row. */
export function firstIdOf(since: Date): string {
  return uuidV7(Math.max(0, since.getTime() - 60_000), 0, new Uint8Array(8))
}

/** Writes sixteen random bytes as a UUID of version 4. */
export function uuidV4(random: Uint8Array): string {
  checkRandom(random, 16)
  const version = 0x4000 | (wordAt(random, 6) & 0xfff)
  return layOut(wordAt(random, 0), wordAt(random, 2), wordAt(random, 4), version, random, 8)
}

/**
 * Creates a generator whose ids only increase. Within a millisecond the counter rises from a random start in its lower half;
 * when it is full, or when the clock stops or moves back, the generator advances its own time.
 */
export function uuidV7Generator(clock: Clock, randomBytes: RandomBytes): NewId {
  let timeMs = -1
  let counter = 0
  return () => {
    const nowMs = clock().getTime()
    const random = randomBytes(10)
    if (nowMs > timeMs) {
      timeMs = nowMs
      counter = freshCounter(random)
    } else if (counter < MAX_COUNTER) {
      counter += 1
    } else {
      timeMs += 1
      counter = freshCounter(random)
    }
    return uuidV7(timeMs, counter, random, 2)
  }
}

/** 11 random bits: at least 2,048 ids fit into the millisecond before the generator borrows the next one. */
function freshCounter(random: Uint8Array): number {
  return (((random[0] ?? 0) & 0x7) << 8) | (random[1] ?? 0)
}

function checkRandom(bytes: Uint8Array, count: number): void {
  if (bytes.length !== count)
    throw new KernelFault('uuid.random', `The random source must return ${count} bytes.`, { given: bytes.length })
}

function wordAt(bytes: Uint8Array, at: number): number {
  return ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)
}

/** From a table: formatting each number takes 1 µs per id, and a command has five. */
const HEX_PAIRS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** The lowest 16 bits as four hex digits. */
function hexOf(word: number): string {
  return `${HEX_PAIRS[(word >>> 8) & 0xff]}${HEX_PAIRS[word & 0xff]}`
}

/** The first half of a UUID as four words, and eight random bytes, of which two bits are the variant. */
function layOut(a: number, b: number, c: number, d: number, random: Uint8Array, at: number): string {
  const variant = 0x8000 | (wordAt(random, at) & 0x3fff)
  const node = hexOf(wordAt(random, at + 2)) + hexOf(wordAt(random, at + 4)) + hexOf(wordAt(random, at + 6))
  return `${hexOf(a)}${hexOf(b)}-${hexOf(c)}-${hexOf(d)}-${hexOf(variant)}-${node}`
}

function hyphenate(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`
}

// Ids inside JSON are shown as everywhere else: `artifact_id` with a bare UUID becomes `art_…`.

/**
 * The id kinds that effects receive from Concord and return in their results; any other UUID there is foreign and stays
 * unchanged.
 */
export const handedOnIds: ReadonlySet<string> = new Set(['artifact', 'command', 'approval', 'domain_effect', 'memory'])

/** The column of an effect has a longer name than its kind, that of a command schedule a shorter one. */
const kindOfName: Readonly<Record<string, IdKind>> = { domain_effect: 'effect', schedule: 'command_schedule' }

/** Converts all kinds, for values that Concord wrote, or only the listed ones. */
export function withShownIds(value: unknown, kinds?: ReadonlySet<string>): unknown {
  if (Array.isArray(value)) return value.map((inner) => withShownIds(inner, kinds))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, shownField(name, inner, kinds)]))
}

function shownField(name: string, inner: unknown, kinds?: ReadonlySet<string>): unknown {
  if (!name.endsWith('_id') || typeof inner !== 'string') return withShownIds(inner, kinds)
  const kind = name.slice(0, -3)
  return kinds === undefined || kinds.has(kind) ? shownId(kind, inner) : inner
}

/** For the payload of an event of ours, which names the type of its target. */
export function withShownTarget(payload: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const { target_type: type, target_id: id } = payload
  const shown = Object.entries(payload).map(([name, inner]) => [name, shownField(name, inner)])
  if (typeof type === 'string' && typeof id === 'string') shown.push(['target_id', shownId(type, id)])
  return Object.fromEntries(shown)
}

/** A kind without a prefix, and a value that is not a UUID, stay unchanged. */
export function shownId(kind: string, id: string): string {
  const known = kindOfName[kind] ?? kind
  return isIdKind(known) && isUuid(id) ? encodeId(known, id) : id
}

function isIdKind(kind: string): kind is IdKind {
  return Object.hasOwn(idPrefixes, kind)
}
