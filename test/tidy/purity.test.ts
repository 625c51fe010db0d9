import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkPurity } from './purity.ts'
import { plantTree, readTree } from './tree.ts'

const found = (path: string, code: string) => checkPurity(plantTree({ [path]: code }))

describe('purity', () => {
  for (const [code, problem] of [
    ['const at = Date.now()', 'Date.now is not an argument: take a Clock'],
    ['const at = new Date()', 'new Date() is not an argument: take a Clock'],
    ['const at = new Date( /* now */ )', 'new Date() is not an argument: take a Clock'],
    ['const dice = Math.random()', 'Math.random is not an argument: take a Random'],
    ['const id = crypto.randomUUID()', 'randomUUID is not an argument: take a NewId'],
    ['const id = randomUUID()', 'randomUUID is not an argument: take a NewId'],
    ['setTimeout(run, 5)', 'setTimeout is not an argument: let the caller wait'],
    ['setInterval(run, 5)', 'setInterval is not an argument: let the caller wait'],
    ['const url = process.env.DATABASE_URL', 'process.env is not an argument: take settings as arguments'],
    ['const a = `${Date.now()}`', 'Date.now is not an argument: take a Clock'],
  ] as const) {
    for (const path of ['src/kernel/a.ts', 'src/domains/flow/a.ts']) {
      test(`[DET-02] ${code} is found in ${path}`, () =>
        assertFindings(found(path, `\n${code}`), [`${path}:2: ${problem}`]))
    }
  }

  for (const [code, problem] of [
    ['await fetch(url)', 'fetch( is not an argument: the kernel does no I/O'],
    ['await Promise.race(all)', 'Promise.race is not an argument: the order of answers is chance'],
  ] as const) {
    test(`[DET-02] ${code} is found in the kernel`, () =>
      assertFindings(found('src/kernel/a.ts', code), [`src/kernel/a.ts:1: ${problem}`]))
  }

  for (const [title, path, code] of [
    ['a date with an argument', 'src/kernel/a.ts', 'const at = new Date(clock())'],
    ['a comment', 'src/kernel/a.ts', '// Date.now() is not for us'],
    ['a string', 'src/kernel/a.ts', `const rule = 'no Date.now()'`],
    ['a method of the same name', 'src/kernel/a.ts', 'port.fetch(url)'],
    ['a test', 'src/kernel/a.test.ts', 'const at = Date.now()'],
    ['another room', 'src/app/a.ts', 'const at = Date.now()'],
  ] as const) {
    test(`${title} is fine`, () => assertFindings(found(path, code), []))
  }

  test('[DET-02] [SUP-02] [SUP-03] [RUN-13] kernel, turns and domains take time, chance, ids and settings as arguments: none of them waits by a timer of its own', () => {
    assertTidy(checkPurity(readTree()))
  })
})
