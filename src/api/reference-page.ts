/** Renders the API description as one self-contained page: no fonts, no requests, and one script that only hides entries. */
import { createHash } from 'node:crypto'
import type { OpenApiDocument } from './openapi.ts'

/**
 * The script of the reference: hides entries that do not contain all typed words, and opens the entry of an anchor. It writes no
 * markup and sends no request. The page is complete without it, so the search box appears only with it.
 */
const FILTER_SCRIPT = `(() => {
const box = document.getElementById('find'), none = document.getElementById('none');
const entries = [...document.querySelectorAll('[data-entry]')].map((element) => ({ element, text: element.textContent.toLowerCase() }));
const parts = [...document.querySelectorAll('[data-part]')];
const filter = () => {
  const words = box.value.toLowerCase().split(' ').filter(Boolean);
  let count = 0;
  for (const { element, text } of entries) {
    const fits = words.every((word) => text.includes(word));
    element.hidden = !fits;
    if (fits) count += 1;
  }
  for (const part of parts) part.hidden = words.length > 0 && !part.querySelector('[data-entry]:not([hidden])');
  none.hidden = count > 0;
};
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  if (target.closest('[hidden]')) { box.value = ''; filter(); }
  if (target.tagName === 'DETAILS') target.open = true;
  target.scrollIntoView();
};
box.closest('.find').hidden = false;
box.addEventListener('input', filter);
addEventListener('hashchange', reveal);
filter();
if (location.hash) reveal();
})()`

const STYLE = `:root{color-scheme:light dark;--line:light-dark(#d8d8d4,#3a3a38);--soft:light-dark(#f6f6f3,#232321);--link:light-dark(#0b57a4,#8ec5ff)}
body{font:16px/1.55 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:light-dark(#1c1c1a,#ecece8);background:light-dark(#fff,#181817)}
a{color:var(--link)}h1,h2,h3{line-height:1.25}h2{margin-top:2.5rem;border-bottom:1px solid var(--line)}
code,pre{font:14px/1.5 ui-monospace,monospace}pre{background:var(--soft);padding:.75rem;white-space:pre-wrap;overflow-wrap:anywhere;border-radius:.4rem}
details{border:1px solid var(--line);border-radius:.4rem;margin:.6rem 0;padding:.2rem .8rem}summary{cursor:pointer;padding:.4rem 0}
summary b{display:inline-block;min-width:4.5rem}table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.3rem .6rem .3rem 0;border-top:1px solid var(--line)}
code,a,summary,p,h3{overflow-wrap:anywhere}
@media(max-width:40rem){body{margin:1rem auto}table,tbody,tr,th,td{display:block}th,td{border-top:0;padding:.1rem 0}tr{border-top:1px solid var(--line);padding:.3rem 0}}
.toc ul{display:flex;flex-wrap:wrap;gap:.25rem 1rem;list-style:none;padding:0;margin:.5rem 0}
.find{position:sticky;top:0;background:light-dark(#fff,#181817);padding:.5rem 0;z-index:1}
.find input{font:inherit;width:100%;box-sizing:border-box;padding:.45rem .6rem;border:1px solid var(--line);border-radius:.4rem;background:var(--soft);color:inherit}
h2,h3,details{scroll-margin-top:6rem}[hidden]{display:none!important}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}.quiet{opacity:.75}`

type Json = Readonly<Record<string, unknown>>
type Answer = {
  readonly description?: string
  readonly content?: Readonly<Record<string, { readonly schema?: Json }>>
}
type Operation = {
  readonly operationId?: string
  readonly summary?: string
  readonly description?: string
  readonly tags?: readonly string[]
  readonly parameters?: readonly Json[]
  readonly requestBody?: { readonly content?: Readonly<Record<string, { readonly schema?: Json }>> }
  readonly responses?: Readonly<Record<string, Answer>>
  readonly 'x-role'?: string | null
  readonly 'x-workspace'?: boolean
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

/** Text from descriptions: escaped, with \`code\` shown as code. */
function prose(text: unknown): string {
  return typeof text === 'string' ? escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>') : ''
}

function schemaName(schema: Json | undefined): string {
  const ref = schema?.['$ref']
  if (typeof ref === 'string') {
    const name = ref.slice(ref.lastIndexOf('/') + 1)
    return `<a href="#schema-${escapeHtml(name)}">${escapeHtml(name)}</a>`
  }
  const type = schema?.['type']
  const items = schema?.['items'] as Json | undefined
  if (type === 'array') return `list of ${schemaName(items)}`
  if (Array.isArray(schema?.['anyOf'])) return (schema['anyOf'] as Json[]).map(schemaName).join(' or ')
  if (Array.isArray(type)) return escapeHtml(type.join(' or '))
  return escapeHtml(typeof type === 'string' ? type : 'any')
}

function row(name: string, required: boolean, schema: Json | undefined, description: unknown): string {
  const example = schema?.['example'] ?? (schema?.['examples'] as unknown[] | undefined)?.[0]
  const shown =
    example === undefined ? '' : ` <span class="quiet">e.g. <code>${escapeHtml(JSON.stringify(example))}</code></span>`
  return `<tr><th scope="row"><code>${escapeHtml(name)}</code></th><td>${schemaName(schema)}${required ? '' : ' <span class="quiet">optional</span>'}</td><td>${prose(description)}${shown}</td></tr>`
}

function operation(method: string, path: string, op: Operation): string {
  const role = op['x-role']
  const access = role
    ? `Role <code>${escapeHtml(role)}</code>${op['x-workspace'] ? ', inside a workspace' : ''}.`
    : 'Open to everyone.'
  const parameters = (op.parameters ?? []).map((given) =>
    row(
      String(given['name']),
      given['required'] === true,
      given['schema'] as Json,
      given['description'] ?? (given['schema'] as Json)?.['description'],
    ),
  )
  const body = Object.values(op.requestBody?.content ?? {})[0]?.schema
  const answers = Object.entries(op.responses ?? {}).map(([status, answer]) => {
    const schema = Object.values(answer.content ?? {})[0]?.schema
    return `<tr><th scope="row">${escapeHtml(status)}</th><td>${schema ? schemaName(schema) : ''}</td><td>${prose(answer.description)}</td></tr>`
  })
  return `<details data-entry id="${escapeHtml(op.operationId ?? '')}"><summary><b>${method.toUpperCase()}</b> <code>${escapeHtml(path)}</code> ${prose(op.summary)}</summary>
<p>${prose(op.description)} ${access}</p>${parameters.length > 0 ? `<h4>Parameters</h4><table>${parameters.join('')}</table>` : ''}
${body ? `<h4>Body</h4><p>${schemaName(body)}</p>` : ''}<h4>Answers</h4><table>${answers.join('')}</table></details>`
}

function schema(name: string, shape: Json): string {
  const required = new Set((shape['required'] as string[] | undefined) ?? [])
  const fields = Object.entries((shape['properties'] ?? {}) as Record<string, Json>)
  const rows = fields.map(([field, value]) => row(field, required.has(field), value, value['description']))
  const values = shape['enum']
    ? `<p>One of <code>${escapeHtml((shape['enum'] as string[]).join(', '))}</code>.</p>`
    : ''
  return `<div data-entry><h3 id="schema-${escapeHtml(name)}">${escapeHtml(name)}</h3><p>${prose(shape['description'])}</p>${values}${rows.length > 0 ? `<table>${rows.join('')}</table>` : ''}</div>`
}

/** Replaces references in an operation with the shared parameters and problems. */
function inlineParts({ components }: OpenApiDocument, op: Operation): Operation {
  const inline = <T>(part: T, shared: object | undefined): T => {
    const ref = (part as { readonly $ref?: string }).$ref
    return ref === undefined ? part : ((shared as Record<string, T>)[ref.slice(ref.lastIndexOf('/') + 1)] ?? part)
  }
  const answers = Object.entries(op.responses ?? {})
  return {
    ...op,
    parameters: (op.parameters ?? []).map((parameter) => inline(parameter, components?.parameters)),
    responses: Object.fromEntries(answers.map(([status, answer]) => [status, inline(answer, components?.responses)])),
  }
}

/** `origin` is the address under which the client reached this server. */
export function referencePage(
  document: OpenApiDocument,
  origin: string,
): { readonly html: string; readonly policy: string } {
  const operations = Object.entries(document.paths ?? {}).flatMap(([path, item]) =>
    Object.entries(item as Record<string, Operation>).map(([method, op]) => ({
      method,
      path,
      op: inlineParts(document, op),
    })),
  )
  const sections = (document.tags ?? []).map(({ name, description }) => {
    const own = operations.filter(({ op }) => op.tags?.includes(name))
    return `<section data-part aria-labelledby="tag-${escapeHtml(name)}"><h2 id="tag-${escapeHtml(name)}">${escapeHtml(name)}</h2><p>${prose(description)}</p>${own.map(({ method, path, op }) => operation(method, path, op)).join('\n')}</section>`
  })
  const contents = (document.tags ?? []).map(({ name }) => {
    const count = operations.filter(({ op }) => op.tags?.includes(name)).length
    return `<li><a href="#tag-${escapeHtml(name)}">${escapeHtml(name)}</a> <span class="quiet">${count}</span></li>`
  })
  const schemas = Object.entries((document.components?.schemas ?? {}) as Record<string, Json>)
  const html = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escapeHtml(document.info.title)} API</title><style>${STYLE}</style></head>
<body><main><h1>${escapeHtml(document.info.title)} API <small class="quiet">${escapeHtml(document.info.version)}</small></h1><p>${prose(document.info.description)}</p>
<p><a href="/openapi.json">openapi.json</a></p><pre>curl -H "Authorization: Bearer $CONCORD_KEY" ${escapeHtml(origin)}/me</pre>
<nav class="toc" aria-label="Contents"><ul>${contents.join('')}<li><a href="#schemas">Shapes</a> <span class="quiet">${schemas.length}</span></li></ul></nav>
<div class="find" hidden><label><span class="quiet">Find</span> <input type="search" id="find" placeholder="a path, a word, a shape" autocomplete="off"></label><p id="none" class="quiet" role="status" hidden>No matches.</p></div>
${sections.join('\n')}<section data-part aria-labelledby="schemas"><h2 id="schemas">Shapes</h2>${schemas.map(([name, shape]) => schema(name, shape)).join('\n')}</section></main><script>${FILTER_SCRIPT}</script></body></html>`
  const hashOf = (text: string) => createHash('sha256').update(text).digest('base64')
  return {
    html,
    policy: `default-src 'none'; style-src 'sha256-${hashOf(STYLE)}'; script-src 'sha256-${hashOf(FILTER_SCRIPT)}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'`,
  }
}
