/** The HTTP connector under the suite, once for each authentication mode. */
import { z } from 'zod'
import { type AuthMode, httpConnector } from '#domains/connectors'
import { testSecrets } from '#test/connectors'
import { type ApiMode, openMisbehavingApi } from '#test/misbehaving-api'
import { type ConnectorSubject, describeConnector, type TroubleCase } from './connector.case.ts'

const modes: readonly AuthMode[] = ['none', 'api_key', 'bearer', 'basic', 'hmac', 'oauth_client_credentials']

async function openSubject(mode: AuthMode): Promise<ConnectorSubject> {
  const api = await openMisbehavingApi()
  const canary = `canary-user:canary-${mode}-0123456789`
  const declare = (name: string, timeout_ms: number) =>
    httpConnector({
      name,
      description: 'An API that misbehaves.',
      base_url: `${api.url}/v1`,
      reach: { allow_http: true, private_networks: ['127.0.0.1'] },
      auth:
        mode === 'none'
          ? {}
          : {
              mode,
              secret_ref: 'vault://api',
              token_url: `${api.url}/token`,
              client_id: 'concord',
              scopes: ['charges'],
            },
      breaker: { failures: 1_000, open_ms: 1 },
      operations: [
        {
          name: 'charge',
          description: 'Charges.',
          method: 'POST',
          path: '/charges/{account}',
          input: z.strictObject({ account: z.string(), cents: z.int() }),
          output: z.looseObject({ id: z.string() }),
          side_effect_class: 'keyed',
          timeout_ms,
        },
        {
          name: 'show',
          description: 'Shows a charge.',
          method: 'GET',
          path: '/charges/{account}',
          query: ['page'],
          input: z.strictObject({ account: z.string(), page: z.int().optional() }),
          output: z.looseObject({ id: z.string() }),
          side_effect_class: 'none',
          timeout_ms,
        },
      ],
    })
  const charge = { capability: 'charge', input: { account: 'a/b ?#', cents: 100 } }
  const hurried = { ...charge, connector: 'hurried' }
  const set = (to: ApiMode) => () => {
    api.mode = to
  }
  const fails = (to: ApiMode, ends: TroubleCase['ends'], isUnclear = true): TroubleCase => ({
    arrange: set(to),
    call: charge,
    ends,
    isUnclear,
  })
  const echo =
    (to: ApiMode, capability = 'charge') =>
    () => {
      api.mode = to
      return Promise.resolve(capability === 'charge' ? charge : { capability: 'show', input: { account: 'x' } })
    }
  return {
    definitions: [declare('api', 30_000), declare('hurried', 150)],
    secrets: testSecrets({ api: canary }),
    canaries: mode === 'none' ? [] : [canary, `canary-${mode}-0123456789`, 'abcdef012345'],
    good: charge,
    trouble: {
      slow: { arrange: set('slow'), call: hurried, ends: ['timeout'], isUnclear: true },
      failing: fails('fail_after', ['transient_connector_error']),
      lying: fails('lie', ['transient_connector_error']),
      duplicated: { arrange: set('honest'), call: charge, ends: 'ok' },
      hanging: { arrange: set('hang_in_body'), call: hurried, ends: ['timeout'], isUnclear: true },
      oversized: fails('endless', ['transient_connector_error']),
      malformed: fails('not_utf8', ['transient_connector_error']),
    },
    echoes: [
      echo('echo'),
      echo('echo_error'),
      echo('unauthorized'),
      echo('echo_redirect', 'show'),
      echo('echo', 'show'),
      echo('not_json'),
    ],
    write: { call: charge, count: () => [...api.done.values()].reduce((sum, count) => sum + count, 0) },
    endless: { call: charge, arrange: set('hang'), isReleased: () => api.left() > 0 },
    behave: set('honest'),
    close: () => api.close(),
  }
}

for (const mode of modes) describeConnector(`http with ${mode}`, () => openSubject(mode))
