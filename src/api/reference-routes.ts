/** The API described by itself: for programs as openapi.json, for people as a page that needs no network. */
import { z } from '@hono/zod-openapi'
import type { OpenApiDocument } from './openapi.ts'
import { referencePage } from './reference-page.ts'
import { resource, routes } from './resource.ts'

const landingView = z
  .object({
    name: z.string().meta({ example: 'Concord' }),
    version: z.string().meta({ example: '0.1.0' }),
    links: z.record(z.string(), z.string()).meta({ example: { reference: '/reference', openapi: '/openapi.json' } }),
  })
  .meta({ id: 'Landing', description: 'Where to go from here.' })

const LINKS = { reference: '/reference', openapi: '/openapi.json', health: '/health', me: '/me', events: '/events' }

const PAGES_MAX = 8

export type Reference = {
  /** openapi.json. */
  text(): string
  page(origin: string): ReturnType<typeof referencePage>
}

/** `describe` is asked on the first request: by then every route is registered. */
export function openReference(describe: () => OpenApiDocument): Reference {
  /** One per address under which this server is reached; who invents addresses does not fill the memory. */
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
    summary: 'What this server is, and where to go from here',
    role: null,
    answers: { 200: ['The server.', landingView], 302: ['Browsers are sent to the reference.'] },
    handle({ deps, c }) {
      if (c.req.header('accept')?.includes('text/html')) return c.redirect('/reference', 302)
      return c.json({ name: 'Concord', version: deps.version, links: LINKS }, 200)
    },
  }),
  describeApi: get('/openapi.json', {
    summary: 'This description',
    role: null,
    answers: { 200: ['OpenAPI 3.1.', z.record(z.string(), z.unknown())] },
    handle: ({ deps, c }) => c.body(deps.reference.text(), 200, { 'content-type': 'application/json' }),
  }),
  showReference: get('/reference', {
    summary: 'The API reference for people',
    role: null,
    answers: { 200: ['A page.'] },
    content: { 'text/html': { schema: z.string() } },
    handle({ deps, c }) {
      const page = deps.reference.page(new URL(c.req.url).origin)
      return c.html(page.html, 200, { 'content-security-policy': page.policy })
    },
  }),
})
