/**
 * A reporter for node's test runner that writes one JSON line per test with the path of its titles. `npm run requirements` counts
 * the proven rows from it.
 */
import { relative } from 'node:path'
import type { TestEvent } from 'node:test/reporters'
import { formatResult, type Outcome, type TestResult } from '../../scripts/requirements/results.ts'
import { isGroup } from '../../scripts/requirements/test-run.ts'

type Reported = Extract<TestEvent, { type: 'test:pass' | 'test:fail' }>
/** The current branch of the title tree of each file; the result of a parent arrives after those of its children. */
type Branch = { title: string; isParent: boolean }[]

export default async function* proofReporter(events: AsyncIterable<TestEvent>): AsyncGenerator<string> {
  const branches = new Map<string, Branch>()
  for await (const event of events) {
    if (event.type === 'test:start') {
      const { nesting, name } = event.data
      const branch = branchOf(branches, fileOf(event.data))
      branch.length = nesting
      branch[nesting] = { title: name, isParent: false }
      const parent = branch[nesting - 1]
      if (parent) parent.isParent = true
    } else if (event.type === 'test:pass' || event.type === 'test:fail') {
      const result = resultOf(event, branchOf(branches, fileOf(event.data)))
      if (result) yield formatResult(result)
    }
  }
}

/** The file of the process, because a suite of cases calls `test()` elsewhere. In a group of files it is the one that calls `test()`. */
function fileOf({ file = '', entryFile = file }: { readonly file?: string; readonly entryFile?: string }): string {
  return isGroup(entryFile) ? file : entryFile
}

function branchOf(branches: Map<string, Branch>, file: string): Branch {
  const branch = branches.get(file) ?? []
  branches.set(file, branch)
  return branch
}

/** Only leaves count. A parent is recorded when it fails by itself, for example in a hook, and not through a child. */
function resultOf(event: Reported, branch: Branch): TestResult | undefined {
  const { nesting, name, details } = event.data
  const isLeaf = details.type !== 'suite' && !branch[nesting]?.isParent
  const failedItself = event.type === 'test:fail' && failureOf(event) !== 'subtestsFailed'
  if (!isLeaf && !failedItself) return undefined
  const above = branch.slice(0, nesting).map(({ title }) => title)
  return {
    file: relative(process.cwd(), fileOf(event.data)),
    titles: [...above, name],
    outcome: outcomeOf(event),
    durationMs: Math.round(details.duration_ms * 1000) / 1000,
  }
}

function outcomeOf(event: Reported): Outcome {
  if (event.data.todo !== undefined && event.data.todo !== false) return 'todo'
  if (event.data.skip !== undefined && event.data.skip !== false) return 'skipped'
  return event.type === 'test:pass' ? 'passed' : 'failed'
}

function failureOf(event: Reported): unknown {
  const { details } = event.data
  return 'error' in details ? (details.error as { failureType?: unknown }).failureType : undefined
}
