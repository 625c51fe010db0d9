/** The API described by itself: for programs as openapi.json, for people as a page that needs no network. */
import { createRoute, z } from '@hono/zod-openapi'
import type { OpenApiDocument } from './openapi.ts'
import { referencePage } from './reference-page.ts'
import { needsNothing } from './route-access.ts'
import { headOf } from './route-head.ts'
import { jsonAnswer, newRouter } from './route-kit.ts'

const open = headOf('server', needsNothing())

const landingView = z
  .object({
    name: z.string().meta({ example: 'Concord' }),
    version: z.string().meta({ example: '0.1.0' }),
    links: z.record(z.string(), z.string()).meta({ example: { reference: '/reference', openapi: '/openapi.json' } }),
  })
  .meta({ id: 'Landing', description: 'Where to go from here.' })

const getLanding = createRoute({
  ...open('get', '/', 'describeServer', 'What this server is, and where to go from here'),
  responses: {
    200: jsonAnswer(landingView, 'The server.'),
    302: { description: 'Browsers are sent to the reference.' },
  },
})

const getOpenApi = createRoute({
  ...open('get', '/openapi.json', 'describeApi', 'This description'),
  responses: { 200: jsonAnswer(z.record(z.string(), z.unknown()), 'OpenAPI 3.1.') },
})

const getReference = createRoute({
  ...open('get', '/reference', 'showReference', 'The API reference for people'),
  responses: { 200: { description: 'A page.', content: { 'text/html': { schema: z.string() } } } },
})

const LINKS = { reference: '/reference', openapi: '/openapi.json', health: '/health', me: '/me', events: '/events' }

const PAGES_MAX = 8

/** `describe` is asked on the first request: by then every route is registered. */
export function referenceRoutes(version: string, describe: () => OpenApiDocument) {
  /** One per address under which this server is reached; who invents addresses does not fill the memory. */
  const pages = new Map<string, ReturnType<typeof referencePage>>()
  let text: string | undefined
  return newRouter()
    .openapi(getLanding, (c) => {
      if (c.req.header('accept')?.includes('text/html')) return c.redirect('/reference', 302)
      return c.json({ name: 'Concord', version, links: LINKS }, 200)
    })
    .openapi(getOpenApi, (c) => {
      text ??= JSON.stringify(describe())
      return c.body(text, 200, { 'content-type': 'application/json' }) as never
    })
    .openapi(getReference, (c) => {
      const { origin } = new URL(c.req.url)
      const page = pages.get(origin) ?? referencePage(describe(), origin)
      if (pages.size < PAGES_MAX) pages.set(origin, page)
      return c.html(page.html, 200, { 'content-security-policy': page.policy })
    })
}
