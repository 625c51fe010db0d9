import { describe, test } from 'node:test'
import { assertFindings, assertTidy } from './finding.ts'
import { checkRetryLiterals } from './retry-literals.ts'
import { plantTree, readTree } from './tree.ts'

describe('retry literals', () => {
  for (const code of ['max_attempts: 3', 'maxAttempts: 10', 'backoff_seconds: [30, 120]']) {
    test(`[ERR-08] ${code} in a step is found`, () => {
      const [word] = code.split(':')
      assertFindings(checkRetryLiterals(plantTree({ 'src/domains/flow/a.ts': `\nconst step = { ${code} }` })), [
        `src/domains/flow/a.ts:2: ${word} is written here; take it from compilePolicy`,
      ])
    })
  }

  for (const [path, code] of [
    ['src/domains/flow/a.ts', 'const step = { max_attempts: policy.max_attempts }'],
    ['src/domains/flow/a.ts', 'const asked = { max_attempts: 1 }'],
    ['src/kernel/retry-settings.ts', 'const flow = { max_attempts: 3 }'],
    ['src/domains/flow/a.test.ts', 'const step = { max_attempts: 3 }'],
  ] as const) {
    test(`${code} in ${path} is fine`, () => assertFindings(checkRetryLiterals(plantTree({ [path]: code })), []))
  }

  test('[ERR-08] no step has retry numbers of its own', () => assertTidy(checkRetryLiterals(readTree())))
})
