/** Every shell line of README and docs is run, and every output that follows one is what it prints. One server serves all guides. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { glob, readFile } from 'node:fs/promises'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { assertPrinted, type Block, type Checkout, openCheckout, readBlocks } from '#test/guide-session'

/** Lines that this test does not run, by their beginning, with the reason. */
const notRun: Readonly<Record<string, string>> = {
  'npm ci': 'it installs the checkout in which this test runs',
  'npm test': 'this test is part of the tiers',
  'npm run test:chaos': 'this test is part of the tiers',
  'npm run requirements': 'it reads the results of the tiers, which are not complete while this test runs',
  'npx @concordhq/concord init':
    'it needs the published package; test/journeys/package.chaos.test.ts packs it and runs this guide',
  'cd refunds': 'the same',
  'npm install': 'the same',
  'npm run dev': 'the same',
  'npx concord submit refund': 'the same',
  'npx concord inbox': 'the same',
  'npx concord why cmd_…': 'the same',
  'DATABASE_URL=postgres://… npm start': 'it needs a server of the reader',
  'git clone': 'it needs the repository on a network',
  'concord stuck abort': 'it needs a command in the middle of a call; test/journeys/stuck.chaos.test.ts has one',
  'gzip -dc': 'it needs archived events; examples/06-keep-history.ts makes and counts them',
  'for file in .concord/history': 'the same',
  '  gzip -dc': 'the same',
  '  grep -o': 'the same',
  done: 'the same',
  'concord migrate down': 'it removes tables; the tests of src/store run every way down',
  docker: 'it needs Docker',
  'printf ': 'it prepares the line with Docker after it',
  kubectl: 'it needs a cluster',
  useradd: 'it changes the machine, as the next four do',
  'install --mode': 'the same',
  'cp concord.service': 'the same',
  systemctl: 'the same',
}

/** Guides whose lines another test runs. */
const runElsewhere: Readonly<Record<string, string>> = {
  'docs/guides/start-a-project.md':
    'it installs the package; test/journeys/package.chaos.test.ts does so with the packed one',
}

const guides = (await Array.fromAsync(glob(['README.md', 'CONTRIBUTING.md', 'docs/**/*.md']))).toSorted()
const blocks = new Map<string, readonly Block[]>()
for (const path of guides) blocks.set(path, await readBlocks(path))

/** Programs that the quick tier runs. */
const quickTests = await readFile('examples/examples.test.ts', 'utf8')

const isRun = (line: string) => !Object.keys(notRun).some((start) => line.startsWith(start))
const toRun = (block: Block): Block => ({ ...block, text: block.text.split('\n').filter(isRun).join('\n') })

const start = (blocks.get('README.md') ?? []).find(({ info, text }) => info === 'sh' && /^npm start$/m.test(text))

/** A guide with a project or people of its own has an installation of its own. The others share one. */
const isApart = (own: readonly Block[]) =>
  own.some(({ info, text }) => /save=concord/.test(info) || text.includes('hire-approvers'))
const startsServer = (own: readonly Block[]) => own.some(({ text }) => /^npm start$/m.test(text))

// About 150 starts of the program, one after the other.
describe('guides', { timeout: 1_200_000 }, () => {
  let shared: Checkout
  let banner: string

  before(async () => {
    assert.ok(start, 'README starts a server')
    shared = await openCheckout()
    banner = await shared.open().run(toRun(start))
  })
  after(() => shared?.close())

  test('README.md: the server prints what is shown, and the lines that it suggests work', async () => {
    const shown = (blocks.get('README.md') ?? []).find(({ text }) => text.startsWith('Concord is ready'))
    assert.ok(shown, 'README shows the start')
    const printed = banner.slice(banner.indexOf('Concord is ready')).replace(/^ {2}export .*\n/m, '')
    assertPrinted(shown, printed, shared)
    const [, suggested = ''] = /another terminal of this folder:\n([\s\S]*?)\n\n/.exec(shown.text) ?? []
    const text = suggested.replaceAll(/^ {2}(.*?)(?: {2,}.*)?$/gm, '$1')
    await shared.open().run({ ...shown, info: 'sh', text: text.replace('--from-start', '--from-start --once') })
  })

  test('README.md: hello world prints what its comment says', async () => {
    const [hello] = (blocks.get('README.md') ?? []).filter(({ info }) => info === 'ts')
    assert.ok(hello, 'README shows a program')
    const session = shared.open()
    await session.run({ ...hello, info: 'ts save=hello.ts' })
    const printed = await session.run({ ...hello, info: 'sh', text: 'node --conditions=concord-source hello.ts' })
    assert.equal(printed.trim(), /console\.log.* \/\/ (.+)$/m.exec(hello.text)?.[1])
  })

  for (const [path, own] of blocks) {
    if (path === 'README.md' || path in runElsewhere || !own.some(({ info }) => info === 'sh')) continue
    test(`${path}: every line runs and prints what is shown`, async (t) => {
      const checkout = isApart(own) ? await openCheckout() : shared
      if (isApart(own)) t.after(() => checkout.close())
      if (isApart(own) && !startsServer(own) && start) await checkout.open().run(toRun(start))
      const session = checkout.open()
      t.after(() => session.close())
      let printed: string | undefined
      for (const block of own) {
        if (block.info === 'text') assertPrinted(block, printed ?? assert.fail('no line before it'), checkout)
        else if (block.info === 'sh' || /\bsave=/.test(block.info)) printed = await session.run(toRun(block))
      }
    })
  }

  for (const block of [...blocks.values()].flat()) {
    const [, program] = /^text output=(examples\/\S+)$/.exec(block.info) ?? []
    if (program === undefined || quickTests.includes(`'${program}'`)) continue
    test(`${program} prints what ${block.path} shows`, async () => {
      const { stdout } = await promisify(execFile)(process.execPath, ['--conditions=concord-source', program])
      assert.equal(stdout, block.text)
    })
  }

  test('every line that is not run is still in a guide', () => {
    const lines = [...blocks.values()].flat().flatMap(({ info, text }) => (info === 'sh' ? text.split('\n') : []))
    assert.deepEqual(
      Object.keys(notRun).filter((start) => !lines.some((line) => line.startsWith(start))),
      [],
    )
  })
})
