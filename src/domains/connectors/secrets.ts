/** Secrets are references until the moment of a call; this file turns one into its value, and keeps nothing. */
import { Buffer } from 'node:buffer'
import { open } from 'node:fs/promises'
import { isJsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { redactText, redactValue } from '#kernel/secret-shapes'
import { type CallContext, type ConnectorError, ConnectorFailure } from './connector.ts'
import type { ConnectorDefinition } from './define-connector.ts'

const secretSchemes = ['env', 'file', 'keyring', 'vault'] as const
export type SecretScheme = (typeof secretSchemes)[number]

/** Gives the value, or undefined where there is none; throws when the place cannot be asked right now. */
export type SecretSource = (place: string) => Promise<string | undefined>
export type SecretSources = Readonly<Partial<Record<SecretScheme, SecretSource>>>

export type Secrets = { resolve(reference: string): Promise<Decision<string>> }

const REFERENCE = /^(env|file|keyring|vault):\/\/([\w./:@-]{1,400})$/

/** What is shorter could not be removed from an answer without tearing it apart. */
const SECRET_CHARS_MIN = 6

export function parseSecretReference(
  text: string,
): Decision<{ readonly scheme: SecretScheme; readonly place: string }> {
  const [, scheme, place] = REFERENCE.exec(text) ?? []
  // The text itself is not shown: it may be the secret.
  if (scheme === undefined || place === undefined)
    return refuse('connectors.secret.reference', 'this is not a reference to a secret', {
      hint: 'Write env://NAME, file:///path, keyring://service/account or vault://path.',
      facts: { schemes: secretSchemes },
    })
  return accept({ scheme: scheme as SecretScheme, place })
}

export function openSecrets(sources: SecretSources): Secrets {
  return {
    async resolve(reference) {
      const parsed = parseSecretReference(reference)
      if (!parsed.ok) return parsed
      const { scheme, place } = parsed.value
      const source = sources[scheme]
      if (!source)
        return refuse('connectors.secret.no_source', `nothing here can read ${scheme}:// references`, {
          hint: `Give the project a source: defineProject({ secrets: { ${scheme}: async (place) => … } }).`,
        })
      try {
        const value = await source(place)
        if (value === undefined || value === '')
          return refuse('connectors.secret.missing', `there is no secret at ${quote(reference)}`)
        if (value.length < SECRET_CHARS_MIN)
          return refuse(
            'connectors.secret.missing',
            `the secret at ${quote(reference)} has fewer than ${SECRET_CHARS_MIN} characters`,
          )
        return accept(value)
      } catch {
        // What the source said may hold the secret, or where it is.
        return refuse('connectors.secret.unavailable', `${quote(reference)} cannot be read right now`)
      }
    },
  }
}

/** The two places for secrets that every machine has: the environment, and files. */
const FILE_BYTES_MAX = 65_536

export function environmentSecrets(environment: Readonly<Record<string, string | undefined>>): SecretSource {
  return (place) => Promise.resolve(Object.hasOwn(environment, place) ? environment[place] : undefined)
}

/** `file:///run/secrets/key`: the text of the file without the line end that editors add. */
export function fileSecrets(): SecretSource {
  return async (place) => {
    const file = await open(place, 'r').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
      throw error
    })
    if (!file) return undefined
    try {
      const { size } = await file.stat()
      if (size > FILE_BYTES_MAX) throw new RangeError('the file is too large for a secret')
      return (await file.readFile('utf8')).replace(/\r?\n$/, '')
    } finally {
      await file.close()
    }
  }
}

/** Removes what must not be seen from everything a call gives back: the secrets it used, in the forms they travel in, and whatever has the shape of one. */
export type Scrubber = {
  /** From now on this text is removed. */
  learn(secret: string): void
  text(text: string): string
  value(value: JsonValue): JsonValue
}

const INSTEAD = '[secret]'

export function openScrubber(): Scrubber {
  const forms = new Set<string>()
  // Longest first: a form inside a longer one would leave the rest of it standing.
  let ordered: readonly string[] = []
  const withoutKnown = (given: string): string =>
    ordered.reduce((line, form) => (line.includes(form) ? line.replaceAll(form, INSTEAD) : line), given)
  const value = (given: JsonValue): JsonValue => {
    if (typeof given === 'string') return withoutKnown(given)
    if (Array.isArray(given)) return (given as readonly JsonValue[]).map(value)
    if (given === null || !isJsonObject(given)) return given
    return Object.fromEntries(Object.entries(given).map(([name, part]) => [withoutKnown(name), value(part)]))
  }
  return {
    learn(secret) {
      for (const form of formsOf(secret)) if (form.length >= 4) forms.add(form)
      ordered = [...forms].toSorted((a, b) => b.length - a.length)
    },
    text: (given) => redactText(withoutKnown(given)),
    // Data is used by somebody: only what surely is a secret goes.
    value: (given) => redactValue(value(given)),
  }
}

/** As it is, in JSON, in an address, as base64 (also inside a longer text, where it starts at any of three places) and as hex. */
function formsOf(secret: string): readonly string[] {
  const bytes = Buffer.from(secret, 'utf8')
  const hex = bytes.toString('hex')
  return [
    secret,
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    new URLSearchParams({ s: secret }).toString().slice(2),
    ...[0, 1, 2].flatMap((shift) => innerBase64(bytes, shift)),
    hex,
    hex.toUpperCase(),
  ]
}

/** The characters of base64 that depend on the secret alone when `shift` bytes stand before it in its group of three. */
function innerBase64(bytes: Buffer, shift: number): readonly string[] {
  const padded = Buffer.concat([Buffer.alloc(shift), bytes])
  const whole = padded.toString('base64').replace(/=+$/, '')
  const from = Math.ceil((shift * 8) / 6)
  const to = Math.floor((padded.length * 8) / 6)
  const inner = whole.slice(from, to)
  return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')]
}

/**
 * Resolves the references of a declaration, once per call and before anything is written, so that not even an input that repeats
 * a secret is recorded with it. A call gets these and no others: a reference in the input is nobody's permission.
 */
export type SecretDoor = Pick<CallContext, 'secret' | 'conceal'>
export type OpenedDoor =
  | { readonly ok: true; readonly door: SecretDoor }
  | { readonly ok: false; readonly error: ConnectorError }

export async function openSecretDoor(
  secrets: Secrets,
  { name, auth, secret_refs }: ConnectorDefinition,
  scrubber: Scrubber,
): Promise<OpenedDoor> {
  const values = new Map<string, string>()
  for (const reference of new Set([...(auth.secret_ref === null ? [] : [auth.secret_ref]), ...secret_refs])) {
    const resolved = await secrets.resolve(reference)
    if (!resolved.ok) {
      const isGone = resolved.code === 'connectors.secret.unavailable'
      const error_class = isGone ? 'transient_connector_error' : 'permission_denied'
      return { ok: false, error: { error_class, message: resolved.reason, happened: 'no' } }
    }
    for (const part of partsOf(resolved.value)) scrubber.learn(part)
    values.set(reference, resolved.value)
  }
  return {
    ok: true,
    door: {
      secret(reference) {
        const value = values.get(reference)
        if (value !== undefined) return Promise.resolve(value)
        const message = `${name} may not resolve a reference that it does not declare`
        return Promise.reject(new ConnectorFailure('permission_denied', message, 'no'))
      },
      conceal: (derived) => scrubber.learn(derived),
    },
  }
}

const PART_CHARS_MIN = 6

/** The whole of it, and what it is made of: the password of an address, the second half of `user:password`. */
function partsOf(secret: string): readonly string[] {
  const address = URL.canParse(secret) ? new URL(secret) : undefined
  const parts = [address?.password ?? '', decoded(address?.password ?? ''), secret.slice(secret.indexOf(':') + 1)]
  return [secret, ...parts.filter((part) => part.length >= PART_CHARS_MIN)]
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
