import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderReference } from '../../scripts/render-reference.ts'
import { readTree } from './tree.ts'

test('docs/reference is as the code says: run `npm run reference` and commit it', () => {
  const committed = [...readTree()].filter(([path]) => path.startsWith('docs/reference/'))
  const wanted = [...renderReference()].map(([name, text]) => [`docs/reference/${name}`, text])
  assert.deepEqual(new Map(committed), new Map(wanted as [string, string][]))
})
