/**
 * `npm run draw` writes docs/machines from the tables of the kernel; `-- --check` writes nothing and exits 1 with the stale
 * pages.
 */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { allMachines } from '#kernel/machines/index'
import { DRAWN, renderAll } from './draw-machine.ts'
import { readFlags } from './read-flags.ts'

async function readDrawn(folder: string): Promise<Map<string, string>> {
  await mkdir(folder, { recursive: true })
  const names = (await readdir(folder)).filter((name) => name.endsWith('.md'))
  return new Map(
    await Promise.all(names.map(async (name) => [name, await readFile(path.join(folder, name), 'utf8')] as const)),
  )
}

const { values } = readFlags({
  options: { check: { type: 'boolean', default: false }, into: { type: 'string', default: 'docs/machines' } },
})
const folder = path.resolve(import.meta.dirname, '..', values.into)
const wanted = renderAll(allMachines)
const found = await readDrawn(folder)
const stale = [...wanted].filter(([name, text]) => found.get(name) !== text).map(([name]) => name)
// Pages with the mark and without a machine; written pages stay.
const leftOver = [...found].filter(([name, text]) => !wanted.has(name) && text.includes(DRAWN)).map(([name]) => name)

if (values.check) {
  for (const name of stale) console.error(`${found.has(name) ? 'stale' : 'missing'}: ${path.join(values.into, name)}`)
  for (const name of leftOver) console.error(`left over: ${path.join(values.into, name)}`)
  if (stale.length + leftOver.length > 0) {
    console.error('run `npm run draw`')
    process.exitCode = 1
  }
} else {
  for (const name of stale) await writeFile(path.join(folder, name), wanted.get(name) ?? '')
  for (const name of leftOver) await rm(path.join(folder, name))
  console.log(`${wanted.size} pages, ${stale.length} written, ${leftOver.length} removed`)
}
