/** The issues part of GitHub's REST API on loopback, in the documented shapes, with pages, limits, refusals and failures. */
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export type GithubMode =
  | 'honest'
  | 'slow'
  | 'hang'
  | 'fail_after'
  | 'cut_after'
  | 'lie'
  | 'endless'
  | 'not_json'
  | 'primary_limit'
  | 'secondary_limit'
  | 'secondary_silent'
  | 'echo_error'
  | 'moved'

type Issue = {
  number: number
  title: string
  body: string | null
  state: 'open' | 'closed'
  html_url: string
  labels: object[]
  comments: Comment[]
}
type Comment = { id: number; body: string; html_url: string }

export type GithubContract = {
  readonly url: string
  mode: GithubMode
  readonly issues: Issue[]
  readonly requests: {
    readonly method: string
    readonly url: string
    readonly headers: NodeJS.Dict<string | string[]>
  }[]
  /** Issues of other people, older than any that a test opens. */
  fill(count: number): void
  readonly left: () => number
  close(): Promise<void>
}

const REPOSITORY = '/repos/acme/books'

export async function openGithubContract(token: string): Promise<GithubContract> {
  let left = 0
  const hub = { mode: 'honest' as GithubMode, issues: [] as Issue[], requests: [] as GithubContract['requests'] }
  const open = (title: string, body: string | null, labels: readonly string[] = []): Issue => {
    const number = hub.issues.length + 1
    const html_url = `https://github.com/acme/books/issues/${number}`
    const issue: Issue = {
      number,
      title,
      body,
      state: 'open',
      html_url,
      labels: labels.map((name) => ({ name })),
      comments: [],
    }
    hub.issues.push(issue)
    return issue
  }
  const server = createServer((request, response) => {
    response.on('close', () => {
      if (!response.writableEnded) left += 1
    })
    let text = ''
    request.on('data', (chunk: Buffer) => (text += chunk.toString('utf8')))
    request.on('end', () => answer(request.method ?? '', request.url ?? '', request.headers, text, response))
  })

  function answer(
    method: string,
    url: string,
    headers: NodeJS.Dict<string | string[]>,
    text: string,
    response: ServerResponse,
  ) {
    hub.requests.push({ method, url, headers })
    const send = (status: number, value: unknown, more: Record<string, string> = {}) => {
      const limits = { 'x-ratelimit-limit': '5000', 'x-ratelimit-remaining': '4999', 'x-ratelimit-used': '1' }
      response.writeHead(status, { 'content-type': 'application/json; charset=utf-8', ...limits, ...more })
      response.end(typeof value === 'string' ? value : JSON.stringify(value))
    }
    const refuse = (status: number, message: string, more: Record<string, string> = {}, errors?: object[]) =>
      send(
        status,
        {
          message,
          documentation_url: 'https://docs.github.com/rest',
          status: String(status),
          ...(errors ? { errors } : {}),
        },
        more,
      )
    if (headers['authorization'] !== `Bearer ${token}`) return refuse(401, 'Bad credentials')
    const isChange = method !== 'GET'
    switch (hub.mode) {
      case 'hang':
        return undefined
      case 'endless': {
        response.writeHead(200, { 'content-type': 'application/json' })
        const more = () => {
          if (!response.destroyed) response.write('x'.repeat(65_536), () => setImmediate(more))
        }
        return more()
      }
      case 'primary_limit':
        return refuse(403, 'API rate limit exceeded for user ID 1.', {
          'x-ratelimit-remaining': '0',
          'x-ratelimit-reset': String(Math.floor(Date.now() / 1_000) + 90),
        })
      case 'secondary_limit':
        return refuse(403, 'You have exceeded a secondary rate limit.', { 'retry-after': '7' })
      case 'secondary_silent':
        return refuse(403, 'You have exceeded a secondary rate limit. Please wait a few minutes.')
      case 'echo_error':
        return refuse(422, JSON.stringify({ headers, text }), {}, [{ field: JSON.stringify(headers), code: 'invalid' }])
      case 'moved':
        return refuse(301, 'Moved Permanently', { location: 'https://api.github.com/repositories/1/issues' })
      default:
    }
    const done = route(method, url, text === '' ? {} : (JSON.parse(text) as Record<string, unknown>))
    if (hub.mode === 'fail_after' && isChange) return refuse(502, 'Server Error')
    if (hub.mode === 'cut_after' && isChange) return response.destroy()
    if (hub.mode === 'lie') return send(200, { number: 'one', title: 7 })
    if (hub.mode === 'not_json') return send(200, '<html>unicorn</html>')
    if (hub.mode === 'slow') return void setTimeout(() => send(done.status, done.value, done.headers), 2_000)
    return send(done.status, done.value, done.headers)
  }

  type Routed = { status: number; value: unknown; headers?: Record<string, string> }
  function route(method: string, url: string, body: Record<string, unknown>): Routed {
    const { pathname, searchParams } = new URL(url, 'http://hub.test')
    const missing = { status: 404, value: { message: 'Not Found', status: '404' } }
    const [, numbered, comments] = /^\/repos\/acme\/books\/issues(?:\/(\d+)(\/comments)?)?$/.exec(pathname) ?? []
    if (!pathname.startsWith(`${REPOSITORY}/issues`)) return missing
    const view = ({ comments: said, ...issue }: Issue) => ({
      ...issue,
      comments: said.length,
      user: { login: 'acme-bot' },
    })
    const paged = (items: object[]): Routed => {
      const [size, page] = [Number(searchParams.get('per_page') ?? 30), Number(searchParams.get('page') ?? 1)]
      const hasNext = page * size < items.length
      const next = `<https://api.github.com${pathname}?page=${page + 1}>; rel="next", <https://api.github.com${pathname}?page=9>; rel="last"`
      return {
        status: 200,
        value: items.slice((page - 1) * size, page * size),
        ...(hasNext ? { headers: { link: next } } : {}),
      }
    }
    if (numbered === undefined) {
      if (method === 'GET') return paged(hub.issues.toReversed().map(view))
      if (typeof body['title'] !== 'string' || body['title'] === 'invalid')
        return {
          status: 422,
          value: {
            message: 'Validation Failed',
            errors: [{ resource: 'Issue', field: 'title', code: 'missing_field' }],
          },
        }
      return {
        status: 201,
        value: view(
          open(body['title'], (body['body'] as string | undefined) ?? null, body['labels'] as string[] | undefined),
        ),
      }
    }
    const issue = hub.issues[Number(numbered) - 1]
    if (!issue) return missing
    if (comments !== undefined) {
      if (method === 'GET') return paged(issue.comments)
      const id = 1_000 + issue.comments.length
      const comment = { id, body: String(body['body']), html_url: `${issue.html_url}#issuecomment-${id}` }
      issue.comments.push(comment)
      return { status: 201, value: comment }
    }
    if (method === 'PATCH') issue.state = body['state'] === 'closed' ? 'closed' : 'open'
    return { status: 200, value: view(issue) }
  }

  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return Object.assign(hub, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    fill(count: number) {
      for (let at = 0; at < count; at += 1) open(`of others ${at}`, null)
    },
    left: () => left,
    close: () =>
      new Promise<void>((done) => {
        server.close(() => done())
        server.closeAllConnections()
      }),
  })
}
