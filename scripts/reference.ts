/** `npm run reference` writes docs/reference from the code; `test/tidy/reference.test.ts` finds a stale page. */
import { mkdir, writeFile } from 'node:fs/promises'
import { readFlags } from './read-flags.ts'
import { renderReference } from './render-reference.ts'

readFlags({})
const folder = new URL('../docs/reference/', import.meta.url)
await mkdir(folder, { recursive: true })
for (const [name, text] of renderReference()) await writeFile(new URL(name, folder), text)
