import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkNames } from './names.ts'
import { plantTree, readTree } from './tree.ts'

describe('names', () => {
  for (const [path, finding] of [
    ['src/store/openDb.ts', 'src/store/openDb.ts: openDb is not kebab-case'],
    ['src/store/open_db.ts', 'src/store/open_db.ts: open_db is not kebab-case'],
    ['src/Store/db.ts', 'src/Store: Store is not kebab-case'],
    ['src/store/utils.ts', 'src/store/utils.ts: utils is a bin: say what is in it'],
    ['src/store/types.ts', 'src/store/types.ts: types is a bin: say what is in it'],
    ['src/store/date-utils.ts', 'src/store/date-utils.ts: date-utils is a bin: say what is in it'],
    ['src/common/db.ts', 'src/common: common is a bin: say what is in it'],
    ['console/src/components/board.tsx', 'console/src/components: components is a bin: say what is in it'],
    ['src/store/db.spec.ts', 'src/store/db.spec.ts: .spec.ts is no ending we know'],
    ['src/store/db.test.pg.ts', 'src/store/db.test.pg.ts: .test.pg.ts is no ending we know'],
    ['src/store/migrations/7_more.sql', 'src/store/migrations/7_more.sql: a migration is called NNNN_what_it_adds.sql'],
  ] as const) {
    test(`${path} is refused`, () => assertFindings(checkNames(plantTree({ [path]: '' })), [finding]))
  }

  for (const path of [
    'src/kernel/money.ts',
    'src/kernel/money.test.ts',
    'src/store/claim.pg.test.ts',
    'test/journeys/mission.journey.test.ts',
    'test/conformance/runtime.case.ts',
    'src/store/migrations/0007_lease_token.sql',
    'docs/decisions/0001-one-package.md',
    'src/kernel/README.md',
  ]) {
    test(`${path} is fine`, () => assertFindings(checkNames(plantTree({ [path]: '' })), []))
  }

  test('the tree has good names', () => assertTidy(checkNames(readTree())))
})
