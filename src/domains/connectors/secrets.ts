/** Secrets are references until the moment of a call; this file turns one into its value, and keeps nothing. */
import { accept, type Decision, quote, refuse } from '#kernel/refusal'

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
