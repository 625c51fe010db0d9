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
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'string', example: '"><script>' } }],
        responses: {
          200: {
            description: 'A thing',
            content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing' } } },
          },
        },
      },
    },
  },
  components: {
    schemas: {
      Thing: { type: 'object', required: ['a'], properties: { a: { type: 'array', items: { type: 'string' } } } },
    },
  },
} as unknown as OpenApiDocument

test('the page shows every operation and shape, and nothing of the description becomes markup', () => {
  const { html, policy } = referencePage(document)
  assert.equal(/<script|<img|<b>T|<i>/.test(html.replaceAll('<b>GET</b>', '')), false)
  assert.ok(html.includes('&lt;img src=x onerror=alert(1)&gt;'))
  assert.ok(html.includes('<code>code</code> &amp; &lt;i&gt;text&lt;/i&gt;'))
  assert.ok(html.includes('<a href="#schema-Thing">Thing</a>') && html.includes('id="schema-Thing"'))
  assert.ok(html.includes('Role <code>reader</code>, inside a workspace.'))
  assert.ok(html.includes('list of string'))
  const style = /<style>([\s\S]*?)<\/style>/.exec(html)?.[1] ?? ''
  assert.ok(policy.includes(createHash('sha256').update(style).digest('base64')))
})
