import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHash } from 'node:crypto'
import type { OpenApiDocument } from './openapi.ts'
import { referencePage } from './reference-page.ts'

const document = {
  openapi: '3.1.0',
  info: { title: 'T <b>', version: '1', description: 'Uses `code` & <i>text</i>' },
  tags: [{ name: 'things', description: 'All <things>' }],
  paths: {
    '/things/{id}': {
      get: {
        operationId: 'getThing',
        summary: '<img src=x onerror=alert(1)>',
        tags: ['things'],
        'x-role': 'reader',
        'x-workspace': true,
        parameters: [
          { name: 'id', in: 'path', required: true, schema: { type: 'string', example: '"><script>' } },
          { $ref: '#/components/parameters/limit' },
        ],
        responses: {
          200: {
            description: 'A thing',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
          },
          404: { $ref: '#/components/responses/Problem404' },
        },
      },
    },
  },
  components: {
    parameters: { limit: { name: 'limit', in: 'query', required: false, schema: { type: 'integer' } } },
    responses: { Problem404: { description: 'Not there' } },
    schemas: {
      Thing: { type: 'object', required: ['a'], properties: { a: { type: 'array', items: { type: 'string' } } } },
    },
  },
} as unknown as OpenApiDocument

test('the page shows every operation and shape, and nothing of the description becomes markup', () => {
  const { html, policy } = referencePage(document, 'http://127.0.0.1:9"><b>')
  const [body = '', script = '', rest] = html.split(/<script>|<\/script>/)
  assert.equal(rest, '</body></html>', 'one script, at the end')
  assert.equal(/<script|<img|<b>|<i>/.test(body.replaceAll('<b>GET</b>', '')), false)
  assert.ok(html.includes('&lt;img src=x onerror=alert(1)&gt;'))
  assert.ok(html.includes('<code>code</code> &amp; &lt;i&gt;text&lt;/i&gt;'))
  assert.ok(html.includes('<a href="#schema-Thing">Thing</a>') && html.includes('id="schema-Thing"'))
  assert.ok(html.includes('Role <code>reader</code>, inside a workspace.'))
  assert.ok(html.includes('list of string'))
  assert.ok(html.includes('<code>limit</code></th><td>integer'))
  assert.ok(html.includes('<th scope="row">404</th><td></td><td>Not there</td>'))
  const style = /<style>([\s\S]*?)<\/style>/.exec(html)?.[1] ?? ''
  assert.ok(policy.includes(`style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'`))
  assert.ok(policy.includes(`script-src 'sha256-${createHash('sha256').update(script).digest('base64')}'`))
})

test('the contents name every tag with an anchor that is there, and the example has the address of this server', () => {
  const { html } = referencePage(document, 'http://127.0.0.1:7999')
  assert.ok(html.includes('http://127.0.0.1:7999/me</pre>'))
  const anchors = [...html.matchAll(/<li><a href="#([^"]+)"/g)].map(([, id = '']) => id)
  assert.deepEqual(anchors, ['tag-things', 'schemas'])
  for (const id of anchors) assert.ok(html.includes(`id="${id}"`))
  assert.match(html, /<div class="find" hidden>/, 'the box comes with the script')
})
