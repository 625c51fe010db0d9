/** Verifies the tokens of one outside identity provider: issuer, audience, time, signature, and an algorithm we chose. */
import {
  createLocalJWKSet,
  createRemoteJWKSet,
  errors,
  type JSONWebKeySet,
  type JWTVerifyGetKey,
  jwtVerify,
} from 'jose'
import type { Clock } from '#kernel/clock'
import { accept, type Decision, refuse } from '#kernel/refusal'

export type IdentityProvider = {
  readonly issuer: string
  readonly audience: string
  /** Where its signing keys are; read again when a token names an unknown one, so that keys may rotate. */
  readonly jwks: { readonly url: string } | { readonly keys: JSONWebKeySet }
  readonly algorithms?: readonly string[]
  readonly clockToleranceS?: number
  /** How often an unknown key may make us ask the provider again; a flood of made-up tokens asks no more often. */
  readonly jwksCooldownMs?: number
}

/** The subject of a valid token, or why there is none. */
export type VerifyToken = (token: string) => Promise<Decision<string>>

/** Signatures only: with a shared secret, whoever verifies could also sign. */
const ALGORITHMS = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA', 'Ed25519'] as const
const JWKS_TIMEOUT_MS = 3_000

function openKeys({ jwks, jwksCooldownMs = 30_000 }: IdentityProvider): JWTVerifyGetKey {
  if ('keys' in jwks) return createLocalJWKSet(jwks.keys)
  return createRemoteJWKSet(new URL(jwks.url), { cooldownDuration: jwksCooldownMs, timeoutDuration: JWKS_TIMEOUT_MS })
}

export function openTokenVerifier(provider: IdentityProvider, now: Clock): VerifyToken {
  const keys = openKeys(provider)
  return async (token) => {
    try {
      const { payload } = await jwtVerify(token, keys, {
        issuer: provider.issuer,
        audience: provider.audience,
        algorithms: [...(provider.algorithms ?? ALGORITHMS)],
        clockTolerance: provider.clockToleranceS ?? 5,
        requiredClaims: ['sub', 'exp'],
        currentDate: now(),
      })
      // `local:` names people of this installation; a provider that could claim one could become the administrator.
      if (!payload.sub || payload.sub.startsWith('local:')) return refused()
      return accept(payload.sub)
    } catch (error) {
      return isProviderDown(error) ? unavailable() : refused()
    }
  }
}

/** The token may be good, but nobody can tell now. Everything else that goes wrong is the token's fault. */
function isProviderDown(error: unknown): boolean {
  if (error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) return true
  if (error instanceof errors.JOSEError) return error.code === 'ERR_JOSE_GENERIC'
  return error instanceof TypeError && error.message === 'fetch failed'
}

function refused() {
  return refuse('unauthenticated', 'The token is not valid here.')
}

function unavailable() {
  return refuse(
    'identity.provider.unavailable',
    'The identity provider does not answer, so the token cannot be checked.',
    {
      hint: 'Try again, or use an API key.',
    },
  )
}
