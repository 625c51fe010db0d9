/** Looks for retry numbers written where a step is defined: they come from `compilePolicy` and the settings of the kernel. */
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

/** One attempt is no retry; any other number, and any list of delays, is a policy. */
const LITERAL = /\b(max_attempts|maxAttempts|backoff_seconds|backoffSeconds)\s*:\s*(\[|[02-9]|1\d)/g

export function checkRetryLiterals(tree: Tree): Finding[] {
  return sources(tree, 'src/domains', 'src/runtime', 'src/app', 'src/api')
    .filter(([path]) => !isTest(path))
    .flatMap(([path, text]) =>
      [...text.matchAll(LITERAL)].map((match) => ({
        path,
        line: lineAt(text, match.index),
        problem: `${match[1]} is written here; take it from compilePolicy`,
      })),
    )
}
