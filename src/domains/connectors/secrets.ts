/** Resolves references to secrets at the moment of a call, and removes their values from everything that the call returns. */
import { Buffer } from 'node:buffer'
import { open } from 'node:fs/promises'
import { isJsonObject, type JsonValue } from '#kernel/json-value'
import { accept, type Decision, quote, refuse } from '#kernel/refusal'
import { redactText } from '#kernel/secret-shapes'
import { redactValue } from '#kernel/secrets/redact-value'
import { type SecretScheme, secretSchemes, splitReference } from '#kernel/secrets/reference'
import { type CallContext, type ConnectorDefinition, ConnectorFailure } from './connector.ts'

/** Returns the value, or undefined if there is none. Throws if the source is unavailable. */
export type SecretSource = (place: string) => Promise<string | undefined>
export type SecretSources = Readonly<Partial<Record<SecretScheme, SecretSource>>>

export type Secrets = { resolve(reference: string): Promise<Decision<string>> }

/** A shorter secret cannot be removed from an answer without damaging it. */
const SECRET_CHARS_MIN = 6

export function parseSecretReference(
  text: string,
): Decision<{ readonly scheme: SecretScheme; readonly place: string }> {
  const reference = splitReference(text)
  // The refusal does not show the text: it may be the secret.
  if (!reference)
    return refuse('connectors.secret.reference', 'This is not a reference to a secret.', {
      hint: 'Write env://NAME, file:///path, keyring://service/account, secret://name or vault://path.',
      facts: { schemes: secretSchemes },
    })
  return accept(reference)
}

export function openSecrets(sources: SecretSources): Secrets {
  return {
    async resolve(reference) {
      const parsed = parseSecretReference(reference)
      if (!parsed.ok) return parsed
      const { scheme, place } = parsed.value
      const source = sources[scheme]
      if (!source)
        return refuse('connectors.secret.no_source', `No source for ${scheme}:// references is configured.`, {
          hint: `Add a source to the project: defineProject({ secrets: { ${scheme}: async (place) => … } }).`,
        })
      try {
        const value = await source(place)
        if (value === undefined || value === '')
          return refuse('connectors.secret.missing', `There is no secret at ${quote(reference)}.`)
        if (value.length < SECRET_CHARS_MIN)
          return refuse(
            'connectors.secret.missing',
            `The secret at ${quote(reference)} has fewer than ${SECRET_CHARS_MIN} characters.`,
          )
        return accept(value)
      } catch {
        // The error of the source is not passed on: it may contain the secret.
        return refuse('connectors.secret.unavailable', `The secret at ${quote(reference)} is temporarily unavailable.`)
      }
    },
  }
}

const FILE_BYTES_MAX = 65_536

export function environmentSecrets(environment: Readonly<Record<string, string | undefined>>): SecretSource {
  return (place) => Promise.resolve(Object.hasOwn(environment, place) ? environment[place] : undefined)
}

/** `file:///run/secrets/key`: the text of the file without the final line break that editors add. */
export function fileSecrets(): SecretSource {
  return async (place) => {
    const file = await open(place, 'r').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return undefined
      throw error
    })
    if (!file) return undefined
    try {
      const { size } = await file.stat()
      if (size > FILE_BYTES_MAX) throw new RangeError('The file is too large for a secret.')
      return (await file.readFile('utf8')).replace(/\r?\n$/, '')
    } finally {
      await file.close()
    }
  }
}

/** Removes secrets from everything that a call returns: those that it used, in every encoding, and anything that has the shape of one. */
export type Scrubber = {
  /** Removes this text from now on. */
  learn(secret: string): void
  text(text: string): string
  value(value: JsonValue): JsonValue
}

const INSTEAD = '[secret]'

export function openScrubber(): Scrubber {
  const forms = new Set<string>()
  // The longest first: a form inside a longer one would leave the rest of the longer one.
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
    // Data is used later: only certain secrets are removed from it.
    value: (given) => redactValue(value(given)),
  }
}

/** Plain, in JSON, in a URL, as hex, and as base64, including base64 inside a longer text, where it has one of three alignments. */
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

/** The base64 characters that depend only on the secret when `shift` bytes precede it in its group of three. */
function innerBase64(bytes: Buffer, shift: number): readonly string[] {
  const padded = Buffer.concat([Buffer.alloc(shift), bytes])
  const whole = padded.toString('base64').replace(/=+$/, '')
  const from = Math.ceil((shift * 8) / 6)
  const to = Math.floor((padded.length * 8) / 6)
  const inner = whole.slice(from, to)
  return [inner, inner.replaceAll('+', '-').replaceAll('/', '_')]
}

export type SecretAccess = Pick<CallContext, 'secret' | 'conceal'>

/**
 * Resolves the references of a declaration once per call and before anything is written, so that even an input that repeats
 * a secret is recorded without it. A call can read only these: a reference in the input gives no access. Throws `ConnectorFailure`.
 */
export async function openSecretAccess(
  secrets: Secrets,
  { name, auth, secret_refs }: ConnectorDefinition,
  scrubber: Scrubber,
): Promise<SecretAccess> {
  const values = new Map<string, string>()
  for (const reference of new Set([...(auth.secret_ref === null ? [] : [auth.secret_ref]), ...secret_refs])) {
    const resolved = await secrets.resolve(reference)
    if (!resolved.ok) {
      const isTemporary = resolved.code === 'connectors.secret.unavailable'
      const errorClass = isTemporary ? 'transient_connector_error' : 'permission_denied'
      throw new ConnectorFailure(errorClass, resolved.reason, 'no')
    }
    for (const part of partsOf(resolved.value)) scrubber.learn(part)
    values.set(reference, resolved.value)
  }
  return {
    async secret(reference) {
      const value = values.get(reference)
      if (value !== undefined) return value
      throw new ConnectorFailure('permission_denied', `${name} does not declare this reference to a secret.`, 'no')
    },
    conceal: (derived) => scrubber.learn(derived),
  }
}

const PART_CHARS_MIN = 6

/** The whole secret and its parts: the password of a URL, the second half of `user:password`. */
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
