import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { describe, test } from 'node:test'
import { parseArgs } from 'node:util'
import { explainMistake } from './read-flags.ts'

function mistake(args: string[]): string {
  try {
    parseArgs({ args, options: { check: { type: 'boolean' }, into: { type: 'string' } } })
  } catch (error) {
    return explainMistake(error, ['check', 'into'])
  }
  throw new Error('nothing is wrong with it')
}

describe('flags of scripts', () => {
  test('a mistake is one line with the nearest flag, or all of them', () => {
    assert.equal(mistake(['--chekc']), "Unknown option '--chekc'. Did you mean --check?")
    assert.equal(mistake(['--bogus']), "Unknown option '--bogus'. Flags: --check, --into.")
    assert.equal(mistake(['--into']), "Option '--into <value>' argument missing. Flags: --check, --into.")
    assert.match(mistake(['word']), /^Unexpected argument 'word'/)
  })

  test('what is no mistake of the caller is thrown on', () => {
    assert.throws(() => explainMistake(new Error('disk'), []), /disk/)
  })

  for (const script of ['requirements', 'draw', 'openapi', 'schema', 'build', 'pack-check', 'complete-lock']) {
    test(`scripts/${script}.ts refuses an unknown flag before it does anything`, () => {
      const { status, stdout, stderr } = spawnSync(process.execPath, [`scripts/${script}.ts`, '--bogus'], {
        encoding: 'utf8',
      })
      assert.deepEqual([status, stdout], [64, ''], stderr)
      assert.match(stderr, /^Unknown option '--bogus'\. [^\n]+\n$/)
    })
  }

  test('every script reads flags this way', () => {
    // Examples are part of the package, where there are no scripts.
    const files = globSync('{scripts,bench,test/chaos,test/tidy}/**/*.ts').filter(
      (file) => !file.startsWith('scripts/read-flags') && !file.includes('node_modules'),
    )
    const own = files.filter((file) => /\bparseArgs\(|argv\.includes\(/.test(readFileSync(file, 'utf8')))
    assert.deepEqual(own, [])
  })
})
