/** The record of the last test run in `.test-results/`: one JSON line per test, written by the proof reporter. */
export const resultsFile = '.test-results/tests.jsonl'

const outcomes = ['passed', 'failed', 'skipped', 'todo'] as const
export type Outcome = (typeof outcomes)[number]

export type TestResult = {
  readonly file: string
  /** From the outermost describe to the test itself. */
  readonly titles: readonly string[]
  readonly outcome: Outcome
  readonly durationMs: number
}

export function formatResult(result: TestResult): string {
  return `${JSON.stringify(result)}\n`
}

/** Drops an incomplete last line, which a killed run leaves. */
export function parseResults(text: string): TestResult[] {
  return text.split('\n').flatMap((line): TestResult[] => {
    if (line.trim() === '') return []
    try {
      const value: unknown = JSON.parse(line)
      return isResult(value) ? [value] : []
    } catch {
      return []
    }
  })
}

function isResult(value: unknown): value is TestResult {
  if (typeof value !== 'object' || value === null) return false
  const { file, titles, outcome } = value as Partial<Record<keyof TestResult, unknown>>
  return typeof file === 'string' && Array.isArray(titles) && outcomes.some((each) => each === outcome)
}

/** A run over some files replaces their results and keeps the others. */
export function mergeResults(before: readonly TestResult[], after: readonly TestResult[]): TestResult[] {
  const ran = new Set(after.map((result) => result.file))
  return [...before.filter((result) => !ran.has(result.file)), ...after]
}
