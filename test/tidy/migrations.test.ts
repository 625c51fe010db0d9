import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkMigrations, checksum } from './migrations.ts'
import { plantTree, readTree } from './tree.ts'

const folder = 'src/store/migrations'
const good = '-- why\ncreate table a ();\n-- down\ndrop table a;\n'
const planted = (files: Record<string, string>, frozen: Record<string, string>) =>
  checkMigrations(
    plantTree({
      ...Object.fromEntries(Object.entries(files).map(([name, text]) => [`${folder}/${name}.sql`, text])),
      [`${folder}/checksums.json`]: JSON.stringify(frozen),
    }),
  )

describe('migrations', () => {
  test('a good pair is fine', () => {
    assertFindings(
      planted({ '0001_a': good, '0002_b': good }, { '0001_a': checksum(good), '0002_b': checksum(good) }),
      [],
    )
  })

  test('a hole in the numbers is found', () => {
    assertFindings(
      planted({ '0001_a': good, '0003_b': good }, { '0001_a': checksum(good), '0003_b': checksum(good) }),
      [`${folder}/0003_b.sql: is not number 2: numbers have no holes and no doubles`],
    )
  })

  test('an edit after freezing, a file that is not frozen and a file that is gone are found', () => {
    const edited = good.replace('create table a', 'create table b')
    assertFindings(
      planted({ '0001_a': edited, '0002_b': good }, { '0001_a': checksum(good), '0003_c': checksum(good) }),
      [
        `${folder}/0001_a.sql: was edited after its checksum was frozen; put the change into a new migration`,
        `${folder}/0002_b.sql: is not frozen yet: its checksum belongs into ${folder}/checksums.json`,
        `${folder}/checksums.json: 0003_c is frozen but its file is gone`,
      ],
    )
  })

  test('a migration without a way back or without a reason is found', () => {
    const bare = 'create table a ();\n'
    assertFindings(planted({ '0001_a': bare }, { '0001_a': checksum(bare) }), [
      `${folder}/0001_a.sql: needs exactly one line "-- down" between its two ways`,
      `${folder}/0001_a.sql: does not open with a comment that says why`,
    ])
  })

  test('the checksum is SHA-256; line ends and trailing blanks do not count', () => {
    assert.equal(checksum(good.replaceAll('\n', ' \r\n')), checksum(good))
    assert.equal(checksum(good), '4e49f2f6d69f88e92ced26ddd58684bc4fa331ec2d8be396db4ef3de6e0905ee')
  })

  test('our migrations are numbered, reversible and frozen', () => assertTidy(checkMigrations(readTree())))
})
