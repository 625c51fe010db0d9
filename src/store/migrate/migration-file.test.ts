/** Migration files: how they are named, split and summed up. */
import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test, type TestContext } from 'node:test'
import fc from 'fast-check'
import { checksumOf, loadMigrations, migrationsFolder, parseMigration } from './migration-file.ts'

const text = '-- 0001 x: why\ncreate table x ();\n\n-- down\ndrop table x;\n'

async function aFolder(t: TestContext, files: Readonly<Record<string, string>>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'concord-migrations-'))
  t.after(() => rm(folder, { recursive: true }))
  for (const [name, content] of Object.entries(files)) await writeFile(path.join(folder, name), content)
  return folder
}

test('a file has a number, a name, a way up and a way down', () => {
  const parsed = parseMigration('0001_x.sql', text)
  assert.ok(parsed.ok)
  assert.deepEqual(
    { ...parsed.value, checksum: '' },
    {
      number: 1,
      name: '0001_x',
      up: '-- 0001 x: why\ncreate table x ();\n\n',
      afterCommit: [],
      down: '\ndrop table x;\n',
      checksum: '',
    },
  )
})

test('what is not a migration is refused with its name', () => {
  const wrong: readonly (readonly [string, string])[] = [
    ['1_x.sql', text],
    ['0001-x.sql', text],
    ['0001_X.sql', text],
    ['0001_x.sql', 'create table x ();'],
    ['0001_x.sql', '-- down\ndrop table x;'],
    ['0001_x.sql', 'create table x ();\n-- down\n'],
    ['0001_x.sql', `${text}-- down\n`],
    ['0001_x.sql', text.replace('create', 'commit;\ncreate')],
    ['0001_x.sql', text.replace('create', 'BEGIN TRANSACTION;\ncreate')],
    ['0001_x.sql', text.replace('drop', 'rollback ;\ndrop')],
  ]
  for (const [name, content] of wrong) {
    const parsed = parseMigration(name, content)
    assert.equal(parsed.ok ? 'accepted' : parsed.code, 'store.migration.malformed', `${name}: ${content}`)
  }
})

test('what follows the commit is a list of indexes and of constraints to validate, and nothing else', () => {
  const index = 'create index concurrently x_a_ix\n  on concord.x (a) where a > 0'
  const file = (after: string) => text.replace('-- down', `-- after commit\n-- Large.\n${after}\n-- down`)
  const parsed = parseMigration('0001_x.sql', file(`${index};`))
  assert.deepEqual(parsed.ok && parsed.value.afterCommit, [
    { index: { schema: 'concord', name: 'x_a_ix' }, text: index },
  ])
  const validation = 'alter table concord.x validate constraint x_a_ck'
  const validated = parseMigration('0001_x.sql', file(`${validation};`))
  assert.deepEqual(validated.ok && validated.value.afterCommit, [{ index: null, text: validation }])
  const wrong = [
    'alter table concord.x add constraint x_a_ck check (a > 0);',
    'create index x_a_ix on concord.x (a);',
    'create index concurrently x_a_ix on x (a);',
    `${index}; drop table x;`,
    `${index};\n-- after commit\n${index};`,
  ]
  for (const after of wrong) assert.equal(parseMigration('0001_x.sql', file(after)).ok, false, after)
})

test('begin and end inside a function body are no transaction', () => {
  const body =
    'create function f() returns void language plpgsql as $f$\nbegin\n  commit;\nend;\n$f$;\ndo $$\nbegin\n  null;\nend;\n$$;\n'
  assert.equal(parseMigration('0001_x.sql', `${body}-- down\ndrop function f();\n`).ok, true)
})

test('the checksum sees every change of a word and no change of line ends', () => {
  fc.assert(
    fc.property(fc.array(fc.stringMatching(/^[a-z ;()]{0,20}$/), { minLength: 1 }), fc.nat(), (lines, at) => {
      const unix = lines.join('\n')
      assert.equal(checksumOf(lines.join('\r\n')), checksumOf(unix))
      assert.equal(checksumOf(`\uFEFF${lines.map((line) => `${line}  `).join('\n')}\n\n`), checksumOf(unix))
      const changed = lines.with(at % lines.length, `${lines[at % lines.length]}X`)
      assert.notEqual(checksumOf(changed.join('\n')), checksumOf(unix))
    }),
  )
})

test('numbers without a hole and without a double', async (t) => {
  const good = await loadMigrations(await aFolder(t, { '0002_b.sql': text, '0001_a.sql': text, 'notes.md': 'x' }))
  assert.deepEqual(good.ok && good.value.map(({ name }) => name), ['0001_a', '0002_b'])
  for (const files of [
    { '0002_b.sql': text },
    { '0001_a.sql': text, '0003_c.sql': text },
    { '0001_a.sql': text, '0001_b.sql': text },
  ]) {
    const loaded = await loadMigrations(await aFolder(t, files))
    assert.equal(loaded.ok ? 'accepted' : loaded.code, 'store.migration.gap', Object.keys(files).join())
  }
})

test('the migrations of the product are whole and their checksums are frozen', async () => {
  const loaded = await loadMigrations()
  assert.ok(loaded.ok)
  const frozen = JSON.parse(await readFile(path.join(migrationsFolder, 'checksums.json'), 'utf8')) as Record<
    string,
    string
  >
  assert.deepEqual(Object.fromEntries(loaded.value.map(({ name, checksum }) => [name, checksum])), frozen)
})

test('every migration says why it is there, what it locks and how it goes back', async () => {
  const loaded = await loadMigrations()
  assert.ok(loaded.ok)
  for (const { number, name, up } of loaded.value) {
    assert.ok(up.startsWith(`-- ${String(number).padStart(4, '0')} ${name.slice(5)}: `), name)
    for (const word of ['Why', 'Locks', 'Reverse'])
      assert.match(up, new RegExp(`^-- (.*\\. )?${word}: `, 'm'), `${name}: ${word}`)
  }
})
