import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pickWorkspace, type WorkspaceSources } from './workspace.ts'

const A = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405161'
const B = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405162'
const BOUND = '0197f3b2-c4d5-7a8e-9b0c-1d2e3f405163'
const wsOf = (uuid: string) => `ws_${uuid.replaceAll('-', '')}`
const byId = (id: string) => ({ id, slug: null })
const bySlug = (slug: string) => ({ id: null, slug })

/** All four places name another workspace; each case takes the first away from the one before. */
const cases: readonly [string, WorkspaceSources, { id: string | null; slug: string | null } | undefined][] = [
  [
    'the header X-Workspace-ID comes first',
    { idHeader: A, slugHeader: 'sales', idQuery: B, fallback: 'default' },
    byId(A),
  ],
  ['then the header X-Workspace', { slugHeader: 'sales', idQuery: B, fallback: 'default' }, bySlug('sales')],
  ['then workspace_id in the query', { idQuery: B, fallback: 'default' }, byId(B)],
  ['then the default of the installation, as a short name', { fallback: 'default' }, bySlug('default')],
  ['or as an id', { fallback: wsOf(A) }, byId(A)],
  ['and without any there is none', {}, undefined],
]

for (const [title, sources, wanted] of cases) {
  test(`[MIS-322] ${title}`, () => assert.deepEqual(pickWorkspace(sources, null), wanted))
}

test('[MIS-322] a wrong name in an earlier place is not rescued by a right one in a later place', () => {
  const nothing = { id: null, slug: null }
  assert.deepEqual(pickWorkspace({ idHeader: 'nonsense', slugHeader: 'sales' }, null), nothing)
  assert.deepEqual(pickWorkspace({ idHeader: '', slugHeader: 'sales' }, null), nothing)
  assert.deepEqual(pickWorkspace({ slugHeader: 'NOT A SLUG', idQuery: A }, null), nothing)
  assert.deepEqual(pickWorkspace({ idQuery: `{${A}}`, fallback: 'default' }, null), nothing)
})

test('[MIS-322] a bound key says its workspace after the request and before the installation', () => {
  assert.deepEqual(pickWorkspace({ idHeader: A, fallback: 'default' }, BOUND), byId(A))
  assert.deepEqual(pickWorkspace({ fallback: 'default' }, BOUND), byId(BOUND))
  assert.deepEqual(pickWorkspace({}, BOUND), byId(BOUND))
})
