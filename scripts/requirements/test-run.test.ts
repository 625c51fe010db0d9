import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { parseResults } from './results.ts'
import { tally } from './tally.ts'
import { parseRows } from './rows.ts'
import { isChaos, listFiles, planTestRun, type Tier } from './test-run.ts'

const all: Readonly<Record<Tier, string[]>> = { quick: ['a.test.ts', 'b.pg.test.ts'], chaos: ['c.chaos.test.ts'] }
const plan = (...extra: string[]) => planTestRun(extra, { reporterDestination: 'out.jsonl', list: (tier) => all[tier] })

describe('plan of a test run', () => {
  test('without arguments the whole quick tier runs and the record is complete', () => {
    const { args, records, tier, env } = plan()
    assert.deepEqual([records, tier, env], ['everything', 'quick', {}])
    assert.deepEqual(args.slice(-2), all.quick)
    assert.ok(args.includes('--test-timeout=60000'))
    assert.ok(args.includes('--test-concurrency=2'))
    assert.ok(args.includes('--test-reporter=spec'))
  })

  test('files narrow the run and the record', () => {
    const { args, records } = plan('src/a.test.ts')
    assert.equal(records, 'some files')
    assert.equal(args.at(-1), 'src/a.test.ts')
    assert.ok(!args.includes('a.test.ts'))
  })

  test('--chaos runs the other tier, with long proofs and a wide limit', () => {
    const { args, records, tier, env } = plan('--chaos')
    assert.deepEqual([records, tier, env], ['everything', 'chaos', { CONCORD_PROOF: 'long' }])
    assert.deepEqual(args.slice(-1), all.chaos)
    assert.ok(args.includes('--test-timeout=300000') && !args.includes('--chaos'))
    assert.equal(plan('--chaos', 'src/a.test.ts').args.at(-1), 'src/a.test.ts')
    assert.equal(plan('src/a.chaos.test.ts').tier, 'chaos')
  })

  test('every test file is in a tier; those that run longer in the chaos tier are in both', () => {
    const [quick, chaos] = [listFiles('quick'), listFiles('chaos')]
    assert.deepEqual(
      new Set([...quick, ...chaos.filter(isChaos)]),
      new Set(globSync('{src,test,scripts,examples}/**/*.test.ts')),
    )
    assert.ok(quick.length > 300 && !quick.some(isChaos))
    const twice = chaos.filter((file) => !isChaos(file))
    assert.ok(
      twice.includes('src/kernel/policy/evaluate.test.ts') && twice.includes('src/domains/approvals/race.pg.test.ts'),
    )
    // Its properties ask for 40 and 60 runs, so that both tiers would do the same.
    assert.ok(!twice.includes('src/kernel/dag/properties.test.ts'))
    assert.ok(twice.length < quick.length / 3)
  })

  for (const flags of [['--test-name-pattern=x'], ['--test-name-pattern', 'x'], ['--test-only']]) {
    test(`${flags.join(' ')} runs everywhere and records nothing`, () => {
      const { args, records } = plan(...flags)
      assert.equal(records, 'nothing')
      assert.deepEqual(args.slice(-2 - flags.length), [...flags, ...all.quick])
    })
  }

  test('the limit of silence is ours alone, not a flag of the runner', () => {
    assert.equal(plan('--quiet-limit=5').quietMs, 5)
    assert.ok(!plan('--quiet-limit=5').args.includes('--quiet-limit=5'))
    assert.equal(plan('--quiet-limit=5').records, 'everything')
  })

  test('more runs of every property are ours to give, and take more time', () => {
    const { args, env, quietMs } = plan('--property-runs=20')
    assert.deepEqual(env, { CONCORD_PROPERTY_RUNS: '20' })
    assert.ok(!args.some((arg) => arg.startsWith('--property-runs')))
    assert.ok(args.includes('--test-timeout=1200000'))
    assert.equal(quietMs, 20 * plan().quietMs)
    assert.deepEqual(plan().env, {})
  })

  test('an explicit limit replaces ours', () => {
    assert.ok(!plan('--test-concurrency=1').args.includes('--test-concurrency=2'))
  })
})

/** Not written out, so that the planted citations are none of this file. */
const prefix = 'ST'

describe('a real run', () => {
  const home = mkdtempSync(join(tmpdir(), 'concord-run-'))
  after(() => rmSync(home, { recursive: true, force: true }))
  const script = new URL('../test.ts', import.meta.url).pathname

  const plant = (name: string, body: string) =>
    writeFileSync(
      join(home, name),
      `import assert from 'node:assert/strict'\nimport { describe, test } from 'node:test'\n${body}\n`,
    )
  const run = (body: string, ...flags: string[]) => runIn({}, body, ...flags)
  const runIn = (more: Record<string, string>, body: string, ...flags: string[]) => {
    plant('one.test.ts', body)
    return runFiles(more, ...flags, 'one.test.ts')
  }
  const runFiles = (more: Record<string, string>, ...words: string[]) => {
    writeFileSync(join(home, 'package.json'), '{"type":"module"}')
    // The inner runner must not see that it is a child of the outer one.
    const {
      NODE_TEST_CONTEXT: _,
      CI: _ci,
      CONCORD_PROPERTY_SEED: _seed,
      CONCORD_PROPERTY_RUNS: _runs,
      CONCORD_PROOF: _proof,
      ...env
    } = process.env
    const { status, stdout } = spawnSync(process.execPath, [script, ...words], {
      cwd: home,
      env: { ...env, ...more },
      encoding: 'utf8',
    })
    const results = parseResults(readFileSync(join(home, '.test-results/tests.jsonl'), 'utf8'))
    return {
      status,
      stdout,
      all: results,
      results: results
        .filter(({ file }) => words.includes(file))
        .map(({ titles, outcome }) => [titles.join(' › '), outcome]),
    }
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

  test('the tests of a suite of cases belong to the file that ran them, with the titles above them', () => {
    const adapter = (name: string, isBroken: boolean) =>
      plant(
        `${name}.test.ts`,
        `import { portCases } from './port.case.ts'\ndescribe('${name}', () => portCases(${isBroken}))`,
      )
    plant('port.case.ts', `export const portCases = (broken) => test('[${prefix}-01] holds', () => assert.ok(!broken))`)
    adapter('good', false)
    adapter('bad', true)
    const row = parseRows('states', `| ${prefix}-01 | text | unit | core |`)
    const standing = ({ all }: ReturnType<typeof runFiles>) => tally(row, all, []).standings[0]?.standing
    const both = runFiles({}, 'good.test.ts', 'bad.test.ts')
    assert.equal(both.status, 1)
    assert.deepEqual(
      both.all
        .filter(({ file }) => file !== 'one.test.ts')
        .map(({ file, titles, outcome }) => [file, titles, outcome])
        .toSorted(([a], [b]) => String(a).localeCompare(String(b))),
      [
        ['bad.test.ts', ['bad', `[${prefix}-01] holds`], 'failed'],
        ['good.test.ts', ['good', `[${prefix}-01] holds`], 'passed'],
      ],
    )
    assert.equal(standing(both), 'failing')
    // A run over the good adapter alone does not record the bad one.
    const alone = runFiles({}, 'good.test.ts')
    assert.equal(alone.status, 0)
    assert.equal(standing(alone), 'failing')
    adapter('bad', false)
    assert.equal(standing(runFiles({}, 'bad.test.ts')), 'proven')
  })

  test('files of src share a process, except for suites of cases, and each test is recorded under its file', () => {
    mkdirSync(join(home, 'src'))
    const body = `appendFileSync('shared', process.pid + ' ')`
    const file = (name: string, line: string) =>
      plant(`src/${name}`, `import { appendFileSync } from 'node:fs'\n${body}\n${line}`)
    plant('src/port.case.ts', `export const portCases = () => test('holds', () => {})`)
    file('a.test.ts', `test('first', () => {})`)
    file('b.test.ts', `describe('second', () => { test('inner', () => { throw new Error('no') }) })`)
    file('c.test.ts', `import { portCases } from './port.case.ts'\nportCases()`)
    const { status, all: recorded } = runFiles({})
    assert.equal(status, 1)
    assert.deepEqual(
      recorded.map(({ file: of, titles, outcome }) => `${of}: ${titles.join(' › ')}: ${outcome}`).toSorted(),
      ['src/a.test.ts: first: passed', 'src/b.test.ts: second › inner: failed', 'src/c.test.ts: holds: passed'],
    )
    const pids = readFileSync(join(home, 'shared'), 'utf8').trim().split(' ')
    assert.deepEqual([pids.length, new Set(pids).size], [3, 2])
    assert.deepEqual(globSync('.test-results/run-*', { cwd: home }), [])
  })

  test('a test that cites a row and asserts nothing fails; one that is left out does not', () => {
    const { status, stdout, results } = run(`
      test('[${prefix}-01] empty', () => {})
      test('[${prefix}-02] returns first', () => { if (results === 0) return; assert.ok(true) })
      test('[${prefix}-03] asserts', () => { assert.ok(true) })
      test('[${prefix}-04] by its context', (t) => { t.assert.equal(1, 1) })
      test('[${prefix}-05] left out', (t) => { t.skip('why') })
      test('[${prefix}-06] parent', async (t) => { await t.test('child', () => assert.ok(true)) })
      test('cites nothing', () => {})
      describe('[${prefix}-07] above', () => { test('empty below', () => {}) })
      const results = 0`)
    assert.equal(status, 1)
    assert.match(stdout, new RegExp(`The test cites ${prefix}-01 and asserts nothing`))
    assert.deepEqual(results, [
      [`[${prefix}-01] empty`, 'failed'],
      [`[${prefix}-02] returns first`, 'failed'],
      [`[${prefix}-03] asserts`, 'passed'],
      [`[${prefix}-04] by its context`, 'passed'],
      [`[${prefix}-05] left out`, 'skipped'],
      [`[${prefix}-06] parent › child`, 'passed'],
      ['cites nothing', 'passed'],
      [`[${prefix}-07] above › empty below`, 'failed'],
    ])
  })

  test('the message of a failed assertion still shows the line that asserts', () => {
    assert.match(run(`test('bad', () => { const zero = 0; assert.ok(zero) })`).stdout, /assert\.ok\(zero\)/)
  })

  test('a file that stays open after its tests ends the run with exit code 1, and what had ended is kept', () => {
    // A busy machine may need longer than a short limit to reach the test.
    const isKept = [1_500, 10_000, 60_000].some((limitMs) => {
      const { status, results } = run(`test('good', () => {})\nsetInterval(() => {}, 1000)`, `--quiet-limit=${limitMs}`)
      assert.equal(status, 1)
      return results.some(([title, outcome]) => title === 'good' && outcome === 'passed')
    })
    assert.ok(isKept)
  })

  test('in CI properties meet the same values every time, elsewhere others; the seed is printed and can be set', () => {
    symlinkSync(new URL('../../node_modules', import.meta.url).pathname, join(home, 'node_modules'))
    const body = `
      import fc from 'fast-check'
      import { appendFileSync, writeFileSync } from 'node:fs'
      writeFileSync('drawn', '')
      test('draws', () => {
        fc.assert(fc.property(fc.integer(), (n) => appendFileSync('drawn', n + ' ')), { numRuns: 30 })
      })
      test('[${prefix}-01] a property is an assertion', () => fc.assert(fc.property(fc.integer(), () => true)))`
    const drawn = (env: Record<string, string>, ...flags: string[]) => {
      const { status, stdout } = runIn(env, body, ...flags)
      assert.equal(status, 0, stdout)
      const seed = /^properties: CONCORD_PROPERTY_SEED=(-?\d+)/.exec(stdout)?.[1]
      return { seed, values: readFileSync(join(home, 'drawn'), 'utf8').trim().split(' ') }
    }
    const first = drawn({ CI: 'true' })
    assert.equal(first.values.length, 30)
    assert.deepEqual(drawn({ CI: 'true' }), first)
    assert.deepEqual(drawn({ CONCORD_PROPERTY_SEED: first.seed ?? 'none' }), first)
    const free = drawn({})
    assert.equal(free.seed, undefined)
    assert.notDeepEqual(free.values, first.values)
    assert.notDeepEqual(drawn({ CI: 'true', CONCORD_PROPERTY_SEED: 'random' }).values, first.values)
    const harder = drawn({ CI: 'true' }, '--property-runs=4').values
    assert.equal(harder.length, 120)
    assert.equal(drawn({}, '--property-runs=2').values.length, 60)
    // The quick tier limits the runs of a property, the chaos tier does not.
    const long = body.replace('numRuns: 30', 'numRuns: 250')
    for (const [flags, count] of [
      [[], 100],
      [['--chaos'], 250],
    ] as const) {
      assert.equal(runIn({}, long, ...flags).status, 0)
      assert.equal(readFileSync(join(home, 'drawn'), 'utf8').trim().split(' ').length, count)
    }
  })

  test('a seed that is none ends the run before a test starts', () => {
    const { status, stdout } = runIn({ CONCORD_PROPERTY_SEED: 'seven' }, `test('good', () => {})`)
    assert.equal(status, 64)
    assert.equal(stdout, 'CONCORD_PROPERTY_SEED=seven: give a whole number of 32 bits, or random\n')
  })

  test('a file that cannot be loaded makes exit code 1', () => {
    assert.equal(run('throw new Error("load")').status, 1)
  })
})
