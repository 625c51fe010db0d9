/** Issues and comments against the recorded contract of GitHub: what is sent, what is found again, what each refusal means. */
import assert from 'node:assert/strict'
import { after, before, beforeEach, describe, test } from 'node:test'
import { checkConnector, githubConnector, markerOf } from '../index.ts'
import { openTestGate, type TestGate, testSecrets } from '#test/connectors'
import { type GithubContract, type GithubMode, openGithubContract } from '#test/github-contract'

const token = 'token-github-0123456789'
const reach = { allow_http: true, private_networks: ['127.0.0.1'] }

describe('GitHub', () => {
  let hub: GithubContract
  let gate: TestGate
  const repository = 'acme/books'
  const call = (capability: string, input: object, key = 'k1', connector = 'github') =>
    gate.call(connector, capability, { repository, ...input }, { context: { idempotency_key: key } })

  before(async () => {
    hub = await openGithubContract(token)
    const common = { secret_ref: 'vault://github', base_url: hub.url, reach }
    gate = await openTestGate(
      [
        githubConnector({ ...common, repositories: [repository, 'acme/gone'] }),
        githubConnector({ ...common, name: 'stranger', secret_ref: 'vault://other', repositories: [repository] }),
      ],
      testSecrets({ github: token, other: 'token-of-others-012345' }),
    )
  })
  after(async () => {
    await gate.close()
    await hub.close()
  })
  beforeEach(() => {
    hub.mode = 'honest'
  })

  test('an issue is opened, shown, commented on and closed', async () => {
    const opened = await call('create_github_issue', { title: 'Broken', body: 'It broke.', labels: ['bug'] }, 'open-1')
    assert.equal(opened.ok, true, opened.error?.message)
    const { number } = opened.output as { number: number }
    assert.equal(hub.issues[number - 1]?.body, `It broke.\n\n${markerOf('open-1')}`)
    assert.equal(hub.requests.at(-1)?.headers['x-github-api-version'], '2022-11-28')
    assert.equal((await call('comment_issue', { number, body: 'Why?' }, 'say-1')).ok, true)
    const closed = await call('close_issue', { number })
    assert.deepEqual(closed.output, await call('get_issue', { number }).then(({ output }) => output))
    assert.equal((closed.output as { closed: boolean }).closed, true)
  })

  test('what was done is found again by its key, also behind many of others, and what was not is not', async () => {
    await call('create_github_issue', { title: 'Mine', body: '' }, 'open-2')
    const at = hub.issues.length
    hub.fill(120)
    const found = await call('find_issue', { key: 'open-2' })
    assert.equal((found.output as { issue: { number: number } }).issue.number, at)
    assert.deepEqual((await call('find_issue', { key: 'open-3' })).output, { issue: null })
    for (let count = 0; count < 60; count += 1)
      hub.issues[at - 1]?.comments.push({ id: count, body: 'of others', html_url: 'https://github.com' })
    await call('comment_issue', { number: at, body: 'Mine' }, 'say-2')
    const said = await call('find_comment', { number: at, key: 'say-2' })
    assert.equal((said.output as { comment: { comment_id: number } }).comment.comment_id, 1_060)
    assert.deepEqual((await call('find_comment', { number: at, key: 'say-3' })).output, { comment: null })
  })

  test('a look-up that does not see everything says so, and does not say no', async () => {
    hub.fill(600)
    const { ok, error } = await call('find_issue', { key: 'open-4' })
    assert.equal(ok, false)
    assert.match(error?.message ?? '', /not among the last 500 items; a person must check/)
  })

  for (const [mode, error_class, happened, waits] of [
    ['primary_limit', 'rate_limited', 'no', [1_000, 91_000]],
    ['secondary_limit', 'rate_limited', 'no', [7_000, 7_000]],
    ['secondary_silent', 'rate_limited', 'no', [60_000, 60_000]],
    ['fail_after', 'transient_connector_error', 'unknown', undefined],
    ['cut_after', 'transient_connector_error', 'unknown', undefined],
    ['moved', 'validation_error', 'no', undefined],
  ] as const satisfies readonly (readonly [GithubMode, string, string, readonly [number, number] | undefined])[])
    test(`[CON-12] ${mode}: ${error_class}, happened: ${happened}`, async () => {
      hub.mode = mode
      const { error } = await call('create_github_issue', { title: 'A', body: 'B' })
      assert.deepEqual([error?.error_class, error?.happened], [error_class, happened])
      const wait = error?.retry_after_ms
      if (waits === undefined) assert.equal(wait, undefined)
      else assert.ok(wait !== undefined && wait >= waits[0] && wait <= waits[1], String(wait))
    })

  test('[CON-12] 401, 404 and 422 are told apart, with the fields and without the words of GitHub', async () => {
    const stranger = await call('get_issue', { number: 1 }, 'k', 'stranger')
    assert.equal(stranger.error?.error_class, 'permission_denied')
    const missing = await call('get_issue', { number: 999_999 })
    assert.match(missing.error?.message ?? '', /does not have it, or the token has no access to it \(404\)/)
    const gone = await call('create_github_issue', { repository: 'acme/gone', title: 'A', body: 'B' })
    assert.deepEqual([gone.error?.error_class, gone.error?.happened], ['validation_error', 'no'])
    const invalid = await call('create_github_issue', { title: 'invalid', body: 'B' })
    assert.equal(invalid.error?.message, 'GitHub refused the input: title missing_field.')
    hub.mode = 'echo_error'
    const echoed = await call('create_github_issue', { title: 'A', body: 'B' })
    assert.equal(echoed.error?.message, 'GitHub refused the input: ? invalid.')
  })

  for (const [what, input] of [
    ['another repository', { repository: 'acme/secrets', title: 'A', body: 'B' }],
    ['a path for a repository', { repository: 'acme/books/../secrets', title: 'A', body: 'B' }],
    ['a marker of ours in the text', { title: 'A', body: `x ${markerOf('open-1')}` }],
    ['no title', { title: ' ', body: 'B' }],
  ] as const)
    test(`${what} is refused before GitHub is asked`, async () => {
      const before = hub.requests.length
      const { error } = await call('create_github_issue', input)
      assert.deepEqual([error?.error_class, error?.happened], ['validation_error', 'no'])
      assert.equal(hub.requests.length, before)
    })

  test('[CON-11] nothing is written without a key, and a declaration that cannot be right is not loaded', async () => {
    const { error } = await call('create_github_issue', { title: 'A', body: 'B' }, '')
    assert.match(error?.message ?? '', /requires an idempotency key/)
    const odd = githubConnector({
      secret_ref: 'vault://x',
      repositories: ['acme', 'a/..'],
      base_url: 'http://127.0.0.1',
    })
    const found = checkConnector(odd)
      .map(({ message }) => message)
      .join('\n')
    assert.match(
      found,
      /base_url: [\s\S]*acme must have the form owner\/name[\s\S]*a\/\.\. must have the form owner\/name/,
    )
  })
})
