/** References to secrets: the location of a secret, never its value. */

/** The schemes of references. A project declares a source for each that it uses. Any other address may be the secret itself. */
export const secretSchemes = ['env', 'file', 'keyring', 'secret', 'vault'] as const
export type SecretScheme = (typeof secretSchemes)[number]

const REFERENCE = new RegExp(`^(${secretSchemes.join('|')})://([\\w./:@-]{1,400})$`)

export function splitReference(text: string): { readonly scheme: SecretScheme; readonly place: string } | undefined {
  const [, scheme, place] = REFERENCE.exec(text) ?? []
  return scheme === undefined || place === undefined ? undefined : { scheme: scheme as SecretScheme, place }
}

export function isSecretReference(value: unknown): boolean {
  return typeof value === 'string' && REFERENCE.test(value)
}
