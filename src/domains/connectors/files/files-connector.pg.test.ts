/** Files: what is inside works, a hundred ways out do not, and a write is there as a whole or not at all. */
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { link, mkdir, mkdtemp, readdir, readFile, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { openTestGate, type TestGate } from '#test/connectors'
import { filesConnector } from './files-connector.ts'
import { hashOf, parseFolderPath } from './folder.ts'

const SECRET = 'what lies outside'

describe('files connector', () => {
  let gate: TestGate
  let place = ''
  let root = ''

  before(async () => {
    place = await realpath(await mkdtemp(join(tmpdir(), 'concord-files-')))
    root = join(place, 'inside')
    await mkdir(join(root, 'reports', 'deep'), { recursive: true })
    await mkdir(join(place, 'inside-too'))
    await mkdir(join(place, 'outside'))
    await writeFile(join(place, 'outside', 'secret.txt'), SECRET)
    await writeFile(join(place, 'inside-too', 'secret.txt'), SECRET)
    await writeFile(join(root, 'reports', 'may.txt'), 'May')
    await symlink(join(place, 'outside', 'secret.txt'), join(root, 'link.txt'))
    await symlink(join(place, 'outside'), join(root, 'linked'))
    await symlink('../outside', join(root, 'relative'))
    await symlink('linked', join(root, 'twice'))
    await symlink('/', join(root, 'reports', 'root'))
    await symlink('.', join(root, 'self'))
    await link(join(place, 'outside', 'secret.txt'), join(root, 'hard.txt'))
    execFileSync('mkfifo', [join(root, 'pipe')])
    gate = await openTestGate([
      filesConnector({ name: 'files', description: 'Files.', root, writable: true }),
      filesConnector({ name: 'readonly', description: 'Files to read.', root }),
    ])
  })
  after(async () => {
    await gate.close()
    await rm(place, { recursive: true, force: true })
  })

  test('reads, lists, creates, replaces and deletes inside its folder', async () => {
    const read = await gate.call('files', 'read_file', { path: 'reports/may.txt' })
    assert.deepEqual(read.output, { text: 'May', size_bytes: 3, sha256: hashOf('May') })
    const made = await gate.call('files', 'create_file', { path: 'reports/june.txt', text: 'June' })
    assert.deepEqual(made.output, { path: 'reports/june.txt', size_bytes: 4, sha256: hashOf('June') })
    const twice = await gate.call('files', 'create_file', { path: 'reports/june.txt', text: 'Juno' })
    assert.deepEqual([twice.error?.error_class, twice.error?.happened], ['validation_error', 'no'])
    const check = await gate.call('files', 'check_file', { path: 'reports/june.txt', text: 'June' })
    assert.deepEqual((check.output as { same: boolean }).same, true)
    const stale = await gate.call('files', 'replace_file', {
      path: 'reports/june.txt',
      text: 'x',
      expected_sha256: hashOf('July'),
    })
    assert.equal(stale.error?.error_class, 'validation_error')
    const replaced = await gate.call('files', 'replace_file', {
      path: 'reports/june.txt',
      text: 'Juni',
      expected_sha256: hashOf('June'),
    })
    assert.equal(replaced.ok, true)
    assert.equal(await readFile(join(root, 'reports', 'june.txt'), 'utf8'), 'Juni')
    const listed = await gate.call('files', 'list_files', { path: 'reports' })
    assert.deepEqual(
      (listed.output as { items: { name: string }[] }).items.map(({ name }) => name),
      ['deep', 'june.txt', 'may.txt'],
    )
    const gone = await gate.call('files', 'delete_file', { path: 'reports/june.txt', expected_sha256: hashOf('Juni') })
    const again = await gate.call('files', 'delete_file', { path: 'reports/june.txt', expected_sha256: hashOf('Juni') })
    assert.deepEqual(
      [gone.output, again.output],
      [
        { path: 'reports/june.txt', deleted: true },
        { path: 'reports/june.txt', deleted: false },
      ],
    )
    assert.deepEqual((await readdir(join(root, 'reports'))).sort(), ['deep', 'may.txt', 'root'])
  })

  test('a file is read as a whole or not at all, and what is too large to read is not read to be replaced or deleted', async (t) => {
    const [small, big] = ['tiny', 'x'.repeat(100)]
    await writeFile(join(root, 'big.txt'), big)
    const narrow = await openTestGate([
      filesConnector({ name: 'narrow', description: 'Files.', root, writable: true, file_max_bytes: 64 }),
      filesConnector({ name: 'system', description: 'Files that have no size.', root: '/proc/self' }),
    ])
    t.after(() => narrow.close())
    const expected_sha256 = hashOf(big)
    for (const [operation, input] of [
      ['delete_file', { path: 'big.txt', expected_sha256 }],
      ['replace_file', { path: 'big.txt', text: small, expected_sha256 }],
      // 64 characters of three bytes.
      ['create_file', { path: 'wide.txt', text: '\u4eac'.repeat(64) }],
    ] as const) {
      const refused = await narrow.call('narrow', operation, input)
      assert.deepEqual([refused.error?.error_class, refused.error?.happened], ['validation_error', 'no'], operation)
    }
    assert.equal(await readFile(join(root, 'big.txt'), 'utf8'), big)
    const part = await narrow.call('system', 'read_file', { path: 'status' })
    assert.equal(part.error?.error_class, 'transient_connector_error')
    await rm(join(root, 'big.txt'))
  })

  test('a write that died between its two names is found by its look-up, and is a plain file afterwards', async () => {
    await writeFile(join(root, `.concord-${gate.world.effect}.tmp`), 'half')
    await link(join(root, `.concord-${gate.world.effect}.tmp`), join(root, 'half.txt'))
    assert.equal((await gate.call('files', 'read_file', { path: 'half.txt' })).error?.error_class, 'permission_denied')
    const found = await gate.call('files', 'check_file', { path: 'half.txt', text: 'half' })
    const file = { path: 'half.txt', size_bytes: 4, sha256: hashOf('half') }
    assert.deepEqual(found.output, { same: true, file })
    assert.equal((await gate.call('files', 'read_file', { path: 'half.txt' })).ok, true)
    await rm(join(root, 'half.txt'))
  })

  test('a connector that only reads has no writing operation', async () => {
    const result = await gate.call('readonly', 'create_file', { path: 'a.txt', text: 'a' })
    assert.match(result.error?.message ?? '', /^Unsupported capability/)
  })

  const ups = [
    '..',
    '../..',
    './..',
    'reports/..',
    'reports/../..',
    'reports/deep/../../..',
    '...',
    '.',
    './',
    'a/./b',
    '．．',
    '‥',
    '..\u200b',
    '.. ',
    ' ..',
    '..\t',
  ]
  const outsides = ['outside/secret.txt', 'inside-too/secret.txt']
  const escapes = [
    ...ups.flatMap((up) => outsides.map((rest) => `${up}/${rest}`)),
    ...ups,
    ...['linked', 'relative', 'twice', 'self', 'reports/root', 'link.txt'].flatMap((link) => [
      `${link}/new.txt`,
      `${link}/a/new.txt`,
      `${link}/../new.txt`,
    ]),
    '/etc/passwd',
    '//etc/passwd',
    '/proc/self/environ',
    '/proc/self/root/etc/passwd',
    'C:\\secret',
    'c:/secret',
    '\\\\host\\share',
    '..\\outside\\secret.txt',
    'reports\\..\\..\\outside',
    'file:///etc/passwd',
    'reports//may.txt',
    '',
    '/',
    'reports/',
    'secret\0.txt',
    'reports/may.txt\0.png',
    '\0',
    'a\nb',
    'a\rb',
    'a\u001bb',
    'link.txt',
    'linked/secret.txt',
    'linked',
    'relative/secret.txt',
    'twice/secret.txt',
    'reports/root/etc/passwd',
    'reports/root',
    'self/link.txt',
    'self/reports/may.txt',
    'hard.txt',
    'pipe',
    'self/self/self/link.txt',
    'reports/may.txt/..',
    'reports/may.txt/x',
    '.concord-x',
    'reports/.concord-y.tmp',
    '\u202etxt.terces',
    'a/'.repeat(40) + 'b',
    'x'.repeat(1_025),
    '%2e%2e/outside/secret.txt/../../outside/secret.txt',
    '~/../outside',
    '$HOME/../../x',
    'linked/../outside/secret.txt',
    'reports/root/../../outside/secret.txt',
  ]

  test(`${escapes.length} paths that lead out: nothing is read, written or deleted`, async () => {
    assert.ok(escapes.length >= 100, String(escapes.length))
    const before = await snapshot()
    for (const path of escapes) {
      const results = [
        await gate.call('files', 'read_file', { path }),
        await gate.call('files', 'create_file', { path, text: 'mine' }),
        await gate.call('files', 'replace_file', { path, text: 'mine', expected_sha256: hashOf(SECRET) }),
        await gate.call('files', 'delete_file', { path, expected_sha256: hashOf(SECRET) }),
        await gate.call('files', 'list_files', { path: path === '.' || path === '' ? '..' : path }),
      ]
      for (const result of results) {
        assert.equal(result.ok, false, JSON.stringify(path))
        assert.ok(!JSON.stringify(result).includes(SECRET), JSON.stringify(path))
        assert.ok(!JSON.stringify(result).includes(place), JSON.stringify(path))
      }
    }
    assert.deepEqual(await snapshot(), before)
  })

  /** Every name outside and what it holds. */
  async function snapshot(): Promise<readonly string[]> {
    const names = [
      ...(await readdir(join(place, 'outside'))),
      ...(await readdir(join(place, 'inside-too'))),
      ...(await readdir(place)),
    ]
    return [
      ...names,
      await readFile(join(place, 'outside', 'secret.txt'), 'utf8'),
      await readFile(join(place, 'inside-too', 'secret.txt'), 'utf8'),
    ]
  }

  test('a folder that is swapped for a link while it is being entered never leads out', async () => {
    let isOn = true
    const [real, parked] = [join(root, 'swap'), join(place, 'parked')]
    await mkdir(real)
    await writeFile(join(real, 'secret.txt'), 'inside')
    const swapping = (async () => {
      while (isOn) {
        await rename(real, parked)
        await symlink(join(place, 'outside'), real)
        await rm(real)
        await rename(parked, real)
      }
    })()
    const seen = new Set<string>()
    for (let count = 0; count < 300; count += 1) {
      const result = await gate.call('files', 'read_file', { path: 'swap/secret.txt' })
      seen.add(result.ok ? (result.output as { text: string }).text : (result.error?.error_class ?? ''))
    }
    isOn = false
    await swapping
    assert.ok(!seen.has(SECRET), [...seen].join())
  })

  test('a path is plain names: any string that is accepted stays below its folder when the platform joins it', () => {
    for (const path of [...escapes, 'a', 'a/b', 'ä/ö.txt', 'a.b/..c'])
      if (parseFolderPath(path).ok) assert.ok(join('/r', path).startsWith('/r/'), path)
    assert.equal(parseFolderPath('a.b/..c').ok, true)
  })
})
