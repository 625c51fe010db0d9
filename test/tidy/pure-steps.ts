/**
 * Keeps the steps of processes pure: `advance.ts` of a room, and every file that it loads, awaits nothing and loads nothing that
 * does I/O. A step only returns its decision, and the drive carries it out.
 */
import { posix } from 'node:path'
import { type Token, tokenize } from '../../scripts/source/tokens.ts'
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

const steps = /^src\/domains\/[a-z-]+\/advance(-[a-z-]+)?\.ts$/
const harmless = /^(#kernel(\/.*)?|zod|node:crypto)$/

export function checkPureSteps(tree: Tree): Finding[] {
  return sources(tree, 'src/domains')
    .filter(([path]) => steps.test(path) && !isTest(path))
    .flatMap(([path]) => problemsIn(tree, path, new Set()))
}

function problemsIn(tree: Tree, path: string, seen: Set<string>): Finding[] {
  if (seen.has(path)) return []
  seen.add(path)
  const text = tree.get(path)
  if (text === undefined) return [{ path, problem: 'does not exist' }]
  const waits = tokenize(text)
    .filter(({ kind, text: word }: Token) => kind === 'word' && /^(async|await)$/.test(word))
    .map(({ text: word, start }) => ({ path, line: lineAt(text, start), problem: `says ${word}: a step only decides` }))
  const loads = valuesIn(text).flatMap(({ name, from, at }) => {
    if (harmless.test(from)) return []
    if (from.startsWith('.')) return problemsIn(tree, posix.join(posix.dirname(path), from), seen)
    const behind = behindDoor(tree, from, name)
    if (behind !== undefined) return problemsIn(tree, behind, seen)
    return [{ path, line: lineAt(text, at), problem: `loads ${name} from ${from}: pass its result into the step` }]
  })
  return [...waits.slice(0, 1), ...loads]
}

/** Value imports only: `import { type A, b as c }` gives `b`. */
function valuesIn(text: string): { readonly name: string; readonly from: string; readonly at: number }[] {
  const named = [...text.matchAll(/^import \{([^}]*)\} from '([^']+)'/gm)]
  return named.flatMap(({ 1: list = '', 2: from = '', index: at }) =>
    list
      .split(',')
      .map((each) => each.trim())
      .filter((each) => each !== '' && !each.startsWith('type '))
      .map((each) => ({ name: each.split(' ')[0] ?? each, from, at })),
  )
}

/** The file of another room behind a name of its index. */
function behindDoor(tree: Tree, from: string, name: string): string | undefined {
  const room = /^#(domains\/[a-z-]+)$/.exec(from)?.[1]
  if (room === undefined) return undefined
  const exported = (tree.get(`src/${room}/index.ts`) ?? '').matchAll(/^export \{([^}]*)\} from '\.\/([^']+)'/gm)
  const file = [...exported].find(({ 1: list = '' }) => list.split(',').some((each) => each.trim() === name))?.[2]
  return file === undefined ? undefined : `src/${room}/${file}`
}
