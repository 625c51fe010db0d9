/** Words that do not belong into the tree: notes, skipped tests, and talk about how the work was done. */
import { type Finding, lineAt } from './finding.ts'
import type { Tree } from './tree.ts'

type Rule = { readonly pattern: RegExp; readonly problem: string; readonly where?: RegExp }

/** The patterns do not match themselves. */
const rules: readonly Rule[] = [
  { pattern: /\b(T[O]DO|F[I]XME|X[X]X)\b/, problem: 'is a note to ourselves: do it or open it as a requirement' },
  { pattern: /\bnot\x20implemented\b/i, problem: 'is a stub', where: /^(src|console)\// },
  { pattern: /\b(test|it|describe|suite)\.(only|skip|todo)\b/, problem: 'switches tests off', where: /\.tsx?$/ },
  { pattern: /\b(skip|only|todo):\x20true\b/, problem: 'switches a test off', where: /\.test\.tsx?$/ },
  { pattern: /(^|[^\w.])\/w[o]rk\/(main|shared)\b|\/tmp\/br[i]ef\b/, problem: 'names a place outside the repository' },
  {
    pattern: /\b(this|that|my|our|last|previous|next|another|other) (coding|working|chat|agent) s[e]ssions?\b/i,
    problem: 'talks about how the work was done',
  },
  { pattern: /\b(AI|coding|language.model) a[s]sistants?\b/i, problem: 'talks about how the work was done' },
  {
    pattern: /\b(the|other|another|fellow) b[u]ilders?\b (of|writes?|is|are|will|owns?|works?)/i,
    problem: 'talks about how the work was done',
  },
  {
    pattern: /\bthe l[e]ad (writes|edits|commits|integrates|decides|adds)\b/i,
    problem: 'talks about how the work was done',
  },
  {
    pattern: /\b(the|my|your) (task )?br[i]ef (asks|says|wants|names)\b/i,
    problem: 'talks about how the work was done',
  },
  {
    pattern: /\bsh[a]red folder\b|\bs[e]ed (document|00\d)\b|\bP[R]D-\d+\b/,
    problem: 'talks about where the words came from',
  },
  { pattern: /\b(the )?source doc[u]ments?\b|\blist l[o]st\b/i, problem: 'talks about where the words came from' },
]

export function checkWords(tree: Tree): Finding[] {
  return [...tree]
    .filter(([path]) => path !== 'package-lock.json' && path !== 'LICENSE')
    .flatMap(([path, text]) =>
      rules
        .filter(({ where }) => where === undefined || where.test(path))
        .flatMap(({ pattern, problem }) => {
          const match = pattern.exec(text)
          return match ? [{ path, line: lineAt(text, match.index), problem: `"${match[0].trim()}" ${problem}` }] : []
        }),
    )
}
