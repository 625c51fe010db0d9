/** Writes openapi.json from the routes; --check compares it with the committed file. */
import { readFile, writeFile } from 'node:fs/promises'
import { describeAllRoutes, formatApi } from '#api'
import { readFlags } from './read-flags.ts'

const { values: flags } = readFlags({ options: { check: { type: 'boolean', default: false } } })

const file = new URL('../openapi.json', import.meta.url)
const manifest = new URL('../package.json', import.meta.url)

const { version } = JSON.parse(await readFile(manifest, 'utf8')) as { version: string }
const text = formatApi(describeAllRoutes(version))
if (!flags.check) {
  await writeFile(file, text)
} else if ((await readFile(file, 'utf8').catch(() => '')) !== text) {
  process.stderr.write('openapi.json is not what the routes say: run `node scripts/openapi.ts` and commit it\n')
  process.exitCode = 1
}
