/** `concord dev` goes on when a file or folder cannot be read. */
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { watchSources } from './watch-sources.ts'

for (const method of ['watch', 'readdirSync'] as const)
  test(`a folder that is removed before ${method} is passed over, and so is a link to itself`, async (t) => {
    const root = await mkdtemp(join(tmpdir(), 'concord-watch-'))
    t.after(() => rm(root, { recursive: true, force: true }))
    // Whether a removal is that fast is up to the system.
    const real = fs[method] as (...given: readonly unknown[]) => unknown
    const { mock } = t.mock.method(fs, method, (folder: string, ...rest: readonly unknown[]) => {
      if (folder.includes('gone')) throw new Error('ENOENT')
      return real(folder, ...rest)
    })
    syncBuiltinESMExports()
    t.after(() => {
      mock.restore()
      syncBuiltinESMExports()
    })
    await mkdir(join(root, 'gone-first'))
    const sources = watchSources(root, [])
    t.after(() => sources.close())

    await mkdir(join(root, 'gone'))
    assert.deepEqual(await sources.changed(), { file: 'gone' })
    await symlink('loop.ts', join(root, 'loop.ts'))
    assert.deepEqual(await sources.changed(), { file: 'loop.ts' })
    await writeFile(join(root, 'a.ts'), '')
    assert.deepEqual(await sources.changed(), { file: 'a.ts' })
  })
