import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { parseResults } from './results.ts'
import { planTestRun, testPatterns } from './test-run.ts'

const plan = (...extra: string[]) => planTestRun(extra, { reporterDestination: 'out.jsonl' })

describe('plan of a test run', () => {
  test('without arguments everything runs and the record is complete', () => {
    const { args, records } = plan()
    assert.equal(records, 'everything')
    assert.deepEqual(args.slice(-testPatterns.length), testPatterns)
    assert.ok(args.includes('--test-concurrency=2'))
    assert.ok(args.includes('--test-reporter=spec'))
  })

  test('files narrow the run and the record', () => {
    const { args, records } = plan('src/a.test.ts')
    assert.equal(records, 'some files')
    assert.equal(args.at(-1), 'src/a.test.ts')
    assert.ok(!args.includes(testPatterns[0]))
  })

  for (const flags of [['--test-name-pattern=x'], ['--test-name-pattern', 'x'], ['--test-only']]) {
    test(`${flags.join(' ')} runs everywhere and records nothing`, () => {
      const { args, records } = plan(...flags)
      assert.equal(records, 'nothing')
      assert.deepEqual(args.slice(-testPatterns.length - flags.length), [...flags, ...testPatterns])
    })
  }

  test('the limit of silence is ours alone, not a flag of the runner', () => {
    assert.equal(plan('--quiet-limit=5').quietMs, 5)
    assert.ok(!plan('--quiet-limit=5').args.includes('--quiet-limit=5'))
    assert.equal(plan('--quiet-limit=5').records, 'everything')
  })

  test('a limit given by hand replaces ours', () => {
    assert.ok(!plan('--test-concurrency=1').args.includes('--test-concurrency=2'))
  })
})

describe('a real run', () => {
  const home = mkdtempSync(join(tmpdir(), 'concord-run-'))
  after(() => rmSync(home, { recursive: true, force: true }))
  const script = new URL('../test.ts', import.meta.url).pathname

  const run = (body: string, ...flags: string[]) => {
    writeFileSync(join(home, 'package.json'), '{"type":"module"}')
    writeFileSync(join(home, 'one.test.ts'), `import { describe, test } from 'node:test'\n${body}\n`)
    // The inner runner must not believe that it is a child of the outer one.
    const { NODE_TEST_CONTEXT: _, ...env } = process.env
    const { status, stdout } = spawnSync(process.execPath, [script, ...flags, 'one.test.ts'], {
      cwd: home,
      env,
      encoding: 'utf8',
    })
    const results = parseResults(readFileSync(join(home, '.test-results/tests.jsonl'), 'utf8'))
    return { status, stdout, results: results.map(({ titles, outcome }) => [titles.join(' › '), outcome]) }
  }

  test('a failing test makes exit code 1, and is recorded as failed', () => {
    const { status, stdout, results } = run(`test('bad', () => { throw new Error('no') })\ntest('good', () => {})`)
    assert.equal(status, 1)
    assert.match(stdout, /ℹ fail 1/)
    assert.deepEqual(results, [
      ['bad', 'failed'],
      ['good', 'passed'],
    ])
  })

  test('leaves are recorded with their whole path; skipped ones as skipped; a failing hook as a failure', () => {
    const { status, results } = run(`
      describe('outer', () => { describe('inner', () => { test('leaf', () => {}) }); test('away', { skip: 'why' }, () => {}) })
      test('parent', async (t) => { await t.test('child', () => {}) })`)
    assert.equal(status, 0)
    assert.deepEqual(results, [
      ['outer › inner › leaf', 'passed'],
      ['outer › away', 'skipped'],
      ['parent › child', 'passed'],
    ])
    const hook = run(`import { after } from 'node:test'
      describe('suite', () => { after(() => { throw new Error('hook') }); test('leaf', () => {}) })`)
    assert.equal(hook.status, 1)
    assert.deepEqual(hook.results, [
      ['suite › leaf', 'passed'],
      ['suite', 'failed'],
    ])
  })

  test('a file that stays open after its tests ends the run with exit code 1, and what had ended is kept', () => {
    const { status, results } = run(`test('good', () => {})\nsetInterval(() => {}, 1000)`, '--quiet-limit=1500')
    assert.equal(status, 1)
    assert.ok(results.some(([title, outcome]) => title === 'good' && outcome === 'passed'))
  })

  test('a file that cannot be loaded makes exit code 1', () => {
    assert.equal(run('throw new Error("load")').status, 1)
  })
})
