/** The findings of a tidy check, and the assertions of its tests. */
import assert from 'node:assert/strict'

export type Finding = { readonly path: string; readonly line?: number; readonly problem: string }

export function lineAt(text: string, offset: number): number {
  return text.slice(0, offset).split('\n').length
}

function format({ path, line, problem }: Finding): string {
  return `${path}${line === undefined ? '' : `:${line}`}: ${problem}`
}

/** Fails with one line per finding. */
export function assertTidy(findings: readonly Finding[]): void {
  assert.ok(
    findings.length === 0,
    `${findings.length} findings:\n${findings.map((finding) => `  ${format(finding)}`).join('\n')}`,
  )
}

/** Expects exactly these findings, in any order. */
export function assertFindings(findings: readonly Finding[], expected: readonly string[]): void {
  assert.deepEqual(findings.map(format).toSorted(), expected.toSorted())
}
