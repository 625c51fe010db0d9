/** Issues and comments on GitHub. GitHub has no idempotency keys, so every text carries a marker that identifies its effect. */
import { z } from 'zod'
import type { JsonValue } from '#kernel/json-value'
import {
  type Connector,
  type ConnectorDefinition,
  ConnectorFailure,
  type ConnectorResult,
  type ConnectorTools,
  defineConnector,
  succeeded,
  unsupported,
} from '../connector.ts'
import { decideUrl, httpReachOf, isRange } from '../http/reach.ts'
import {
  body,
  comment,
  type GithubApi,
  type GithubConnectorInput,
  issue,
  markerOf,
  number,
  openGithubApi,
  REPOSITORY,
  saidComment,
  saidIssue,
  title,
} from './github-api.ts'

export function githubConnector(input: GithubConnectorInput): ConnectorDefinition {
  const { secret_ref, repositories, base_url = 'https://api.github.com', timeout_ms = 30_000 } = input
  const { approval_required = false, reach, ca: _ca, resolve: _resolve, ...declared } = input
  const { secret_ref: _ref, repositories: _repositories, base_url: _base, timeout_ms: _timeout, ...named } = declared
  const repository = z
    .string()
    .refine((name) => repositories.includes(name), 'It is not a repository of this connector.')
  const of = { repository: '{input.repository}' }
  const reads = { side_effect_class: 'none' as const, scopes: ['issues:read'], timeout_ms }
  const writes = { side_effect_class: 'queryable' as const, scopes: ['issues:write'], timeout_ms, approval_required }
  const key = z.string().min(1).max(1_000)
  return defineConnector({
    name: 'github',
    description: 'Issues and comments on GitHub.',
    ...named,
    connector_type: 'github',
    auth: { mode: 'bearer', secret_ref, scopes: ['issues:read', 'issues:write'] },
    read_scopes: ['issues:read'],
    write_scopes: ['issues:write'],
    settings: { base_url, repositories: [...repositories] },
    flaws: findFlaws(base_url, repositories, reach),
    operations: [
      {
        ...writes,
        name: 'create_github_issue',
        description: 'Opens an issue.',
        input: z.strictObject({
          repository,
          title,
          body,
          labels: z.array(z.string().min(1).max(50)).max(20).optional(),
        }),
        output: issue,
        idempotency: { required: true, key_template: null },
        read_back: { operation: 'find_issue', input: { ...of, key: '{key}' }, found: 'issue', result: 'issue' },
        compensation: { operation: 'close_issue', input: { ...of, number: '{output.number}' } },
      },
      {
        ...writes,
        name: 'comment_issue',
        description: 'Comments on an issue.',
        input: z.strictObject({ repository, number, body: body.min(1) }),
        output: comment,
        idempotency: { required: true, key_template: null },
        read_back: {
          operation: 'find_comment',
          input: { ...of, number: '{input.number}', key: '{key}' },
          found: 'comment',
          result: 'comment',
        },
      },
      {
        ...writes,
        name: 'close_issue',
        description: 'Closes an issue.',
        input: z.strictObject({ repository, number }),
        output: issue,
        read_back: { operation: 'get_issue', input: { ...of, number: '{input.number}' }, found: 'closed' },
      },
      {
        ...reads,
        name: 'get_issue',
        description: 'Shows an issue.',
        input: z.strictObject({ repository, number }),
        output: issue,
      },
      {
        ...reads,
        name: 'find_issue',
        description: 'Finds the issue that was opened for an effect.',
        input: z.strictObject({ repository, key }),
        output: z.object({ issue: issue.nullable() }),
      },
      {
        ...reads,
        name: 'find_comment',
        description: 'Finds the comment that was made for an effect.',
        input: z.strictObject({ repository, number, key }),
        output: z.object({ comment: comment.nullable() }),
      },
    ],
    open: (tools) => openGithub({ ...input, name: input.name ?? 'github' }, tools),
  })
}

function findFlaws(
  base: string,
  repositories: readonly string[],
  reach: GithubConnectorInput['reach'],
): readonly string[] {
  const full = URL.canParse(base) ? httpReachOf(new URL(base), reach) : undefined
  const decided = full && decideUrl(base, full)
  return [
    ...(decided ? (decided.ok ? [] : [`base_url: ${decided.reason}`]) : ['base_url is not a URL.']),
    ...(full?.private_networks ?? [])
      .filter((range) => !isRange(range))
      .map((range) => `${range} is not a range of addresses.`),
    ...(repositories.length === 0 ? ['It names no repository.'] : []),
    ...repositories.filter((name) => !REPOSITORY.test(name)).map((name) => `${name} must have the form owner/name.`),
  ]
}

type Input = { readonly repository: string; readonly number: number; readonly key: string; readonly body: string }
type OperationHandler = (
  api: GithubApi,
  input: Input & { readonly title: string; readonly labels?: string[] },
  key: string | null,
) => Promise<JsonValue>

const handlers: Readonly<Record<string, OperationHandler>> = {
  create_github_issue: async (api, { repository, title: named, body: text, labels }, key) =>
    viewIssue(
      await api.ask('POST', `/repos/${repository}/issues`, saidIssue, {
        title: named,
        body: marked(text, key),
        ...(labels ? { labels } : {}),
      }),
    ),
  comment_issue: async (api, { repository, number: at, body: text }, key) =>
    viewComment(
      await api.ask('POST', `/repos/${repository}/issues/${at}/comments`, saidComment, { body: marked(text, key) }),
    ),
  close_issue: async (api, { repository, number: at }) =>
    viewIssue(await api.ask('PATCH', `/repos/${repository}/issues/${at}`, saidIssue, { state: 'closed' })),
  get_issue: async (api, { repository, number: at }) =>
    viewIssue(await api.ask('GET', `/repos/${repository}/issues/${at}`, saidIssue)),
  async find_issue(api, { repository, key }) {
    const path = `/repos/${repository}/issues?state=all&sort=created&direction=desc`
    const found = await api.find(path, saidIssue, key)
    return { issue: found && viewIssue(found) }
  },
  async find_comment(api, { repository, number: at, key }) {
    const found = await api.find(`/repos/${repository}/issues/${at}/comments`, saidComment, key)
    return { comment: found && viewComment(found) }
  },
}

function openGithub(input: GithubConnectorInput & { readonly name: string }, { now }: ConnectorTools): Connector {
  return {
    name: input.name,
    connector_type: 'github',
    capabilities: () => Object.keys(handlers),
    async call({ capability, input: given, context }): Promise<ConnectorResult> {
      const handler = Object.hasOwn(handlers, capability) ? handlers[capability] : undefined
      if (!handler) return unsupported(capability)
      // The gate has checked the input.
      const fitted = given as unknown as Parameters<OperationHandler>[1]
      return succeeded(await handler(openGithubApi(input, context, now), fitted, context.idempotency_key))
    },
  }
}

function marked(text: string, key: string | null): string {
  if (key === null)
    throw new ConnectorFailure('validation_error', 'Writing to GitHub requires an idempotency key.', 'no')
  return `${text}\n\n${markerOf(key)}`
}

function viewIssue({ number: at, title: named, state, html_url }: z.infer<typeof saidIssue>) {
  return { number: at, title: named, state, closed: state === 'closed', html_url }
}

function viewComment({ id, html_url }: z.infer<typeof saidComment>) {
  return { comment_id: id, html_url }
}
