/** An identity provider of a test: its settings, and the tokens that it signs. */
import { exportJWK, generateKeyPair, SignJWT } from 'jose'

export async function openTokenProvider() {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true })
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'k', alg: 'ES256' }]
  const provider = { issuer: 'https://id.example.com/', audience: 'concord', jwks: { keys: { keys } } }
  return {
    provider,
    sign: (sub: string, exp: number, aud: string | string[] = provider.audience) =>
      new SignJWT({ iss: provider.issuer, aud, sub, exp })
        .setProtectedHeader({ alg: 'ES256', kid: 'k' })
        .sign(privateKey),
  }
}
