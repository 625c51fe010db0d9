/** The order of the gates: what is cheap and absolute runs before what is slow. */
import type { Finding } from './finding.ts'
import type { Tree } from './tree.ts'

/** The commands of `npm run <name>`, with the scripts they call unfolded, in the order in which they run. */
export function unfold(scripts: Readonly<Record<string, string>>, name: string): string[] {
  return (scripts[name] ?? '').split('&&').flatMap((command) => {
    const called = /^npm (?:run (?:-s )?(\S+)|(test))(?: --.*)?$/.exec(command.trim())
    const inner = called?.[1] ?? called?.[2]
    return inner !== undefined && scripts[inner] !== undefined ? unfold(scripts, inner) : [command.trim()]
  })
}

export function checkGate(tree: Tree): Finding[] {
  const { scripts = {} } = JSON.parse(tree.get('package.json') ?? '{}') as { scripts?: Record<string, string> }
  const steps = unfold(scripts, 'verify')
  const tidy = steps.findIndex((step) => step.includes('test/tidy'))
  const suite = steps.findIndex((step) => step.includes('scripts/test.ts'))
  const ci = tree.get('.ci/run') ?? ''
  const at = (path: string, problem: string, isWrong: boolean): Finding[] => (isWrong ? [{ path, problem }] : [])
  return [
    ...at('package.json', 'verify does not run the tidy tests', tidy === -1),
    ...at('package.json', 'verify does not run the test suite', suite === -1),
    ...at('package.json', 'verify runs the tidy tests after the suite', tidy > suite && suite !== -1),
    ...at('.ci/run', 'does not run npm run verify', !/^\s*(?:\w+ )*npm run (?:-s )?verify\b/m.test(ci)),
    ...at('.ci/run', 'goes on after a failure', !/^set -euo pipefail$/m.test(ci)),
  ]
}
