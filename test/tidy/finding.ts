/** What a tidy check found wrong, and how a test says it. */
import assert from 'node:assert/strict'

export type Finding = { readonly path: string; readonly line?: number; readonly problem: string }

export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

function format({ path, line, problem }: Finding): string {
  return `${path}${line === undefined ? '' : `:${line}`}: ${problem}`
}

/** Fails with one line per finding, so that the list can be worked through from the top. */
export function assertTidy(findings: readonly Finding[]): void {
  assert.ok(
    findings.length === 0,
    `${findings.length} to mend:\n${findings.map((finding) => `  ${format(finding)}`).join('\n')}`,
  )
}

/** For planted faults: exactly these findings, in any order. */
export function assertFindings(findings: readonly Finding[], expected: readonly string[]): void {
  assert.deepEqual(findings.map(format).toSorted(), expected.toSorted())
}
