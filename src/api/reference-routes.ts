/** Serves the API description: openapi.json for programs, and a self-contained page for people. */
import { z } from '@hono/zod-openapi'
import type { OpenApiDocument } from './openapi.ts'
import { referencePage } from './reference-page.ts'
import { resource, routes } from './resource.ts'

const landingView = z
  .object({
    name: z.string().meta({ example: 'Concord' }),
    version: z.string().meta({ example: '0.2.0' }),
    links: z.record(z.string(), z.string()).meta({ example: { reference: '/reference', openapi: '/openapi.json' } }),
  })
  .meta({ id: 'Landing', description: 'The entry points of the API.' })

const LINKS = { reference: '/reference', openapi: '/openapi.json', health: '/health', me: '/me', events: '/events' }

const PAGES_MAX = 8

export type Reference = {
  /** openapi.json. */
  text(): string
  page(origin: string): ReturnType<typeof referencePage>
}

/** Calls `describe` on the first request, when every route is registered. */
export function openReference(describe: () => OpenApiDocument): Reference {
  /** One page per origin, limited so that invented host names do not fill the memory. */
  const pages = new Map<string, ReturnType<typeof referencePage>>()
  let text: string | undefined
  return {
    text: () => (text ??= JSON.stringify(describe())),
    page(origin) {
      const page = pages.get(origin) ?? referencePage(describe(), origin)
      if (pages.size < PAGES_MAX) pages.set(origin, page)
      return page
    },
  }
}

type Api = { readonly version: string; readonly reference: Reference }

const { get } = resource<Api>('server')

export const referenceRoutes = routes({
  describeServer: get('/', {
    summary: 'Get the name, version and entry points of the server',
    role: null,
    answers: { 200: ['The server.', landingView], 302: ['Redirects browsers to the reference.'] },
    handle({ deps, c }) {
      if (c.req.header('accept')?.includes('text/html')) return c.redirect('/reference', 302)
      return c.json({ name: 'Concord', version: deps.version, links: LINKS }, 200)
    },
  }),
  describeApi: get('/openapi.json', {
    summary: 'Get this description',
    role: null,
    answers: { 200: ['OpenAPI 3.1.', z.record(z.string(), z.unknown())] },
    handle: ({ deps, c }) => c.body(deps.reference.text(), 200, { 'content-type': 'application/json' }),
  }),
  showReference: get('/reference', {
    summary: 'Get the API reference as a page',
    role: null,
    answers: { 200: ['The page.'] },
    content: { 'text/html': { schema: z.string() } },
    handle({ deps, c }) {
      const page = deps.reference.page(new URL(c.req.url).origin)
      return c.html(page.html, 200, { 'content-security-policy': page.policy })
    },
  }),
})
