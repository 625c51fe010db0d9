/** The GitHub connector under the suite. */
import { githubConnector } from '#domains/connectors'
import { testSecrets } from '#test/connectors'
import { type GithubMode, openGithubContract } from '#test/github-contract'
import { describeConnector, type TroubleCase } from './connector.case.ts'

describeConnector('github', async () => {
  const canary = 'canary-github-0123456789'
  const hub = await openGithubContract(canary)
  const declare = (name: string, timeout_ms: number) =>
    githubConnector({
      name,
      secret_ref: 'vault://github',
      repositories: ['acme/books'],
      base_url: hub.url,
      reach: { allow_http: true, private_networks: ['127.0.0.1'] },
      breaker: { failures: 1_000, open_ms: 1 },
      timeout_ms,
    })
  const create = { capability: 'create_github_issue', input: { repository: 'acme/books', title: 'A', body: 'B' } }
  const hurried = { ...create, connector: 'hurried' }
  const set = (mode: GithubMode) => () => {
    hub.mode = mode
  }
  const fails = (mode: GithubMode): TroubleCase => ({
    arrange: set(mode),
    call: create,
    ends: ['transient_connector_error'],
    isUnclear: true,
  })
  const echo = (mode: GithubMode) => () => {
    hub.mode = mode
    return Promise.resolve(create)
  }
  return {
    definitions: [declare('github', 30_000), declare('hurried', 200)],
    secrets: testSecrets({ github: canary }),
    canaries: [canary],
    good: create,
    trouble: {
      slow: { arrange: set('slow'), call: hurried, ends: ['timeout'], isUnclear: true },
      failing: fails('fail_after'),
      lying: fails('lie'),
      duplicated: { arrange: set('honest'), call: create, ends: 'ok' },
      hanging: { arrange: set('hang'), call: hurried, ends: ['timeout'], isUnclear: true },
      oversized: fails('endless'),
      malformed: fails('not_json'),
    },
    echoes: [echo('echo_error'), echo('lie'), echo('not_json')],
    endless: { call: create, arrange: set('hang'), isReleased: () => hub.left() > 0 },
    behave: set('honest'),
    close: () => hub.close(),
  }
})
