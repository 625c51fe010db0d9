/** Finds uses of the clock, randomness, timers and the environment where they must be arguments. */
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'
import { type Token, tokenize } from '../../scripts/source/tokens.ts'

/** Sequences of words, each with its replacement. */
const everywhere: readonly [words: string, instead: string][] = [
  ['Date . now', 'take a Clock'],
  ['new Date ( )', 'take a Clock'],
  ['performance . now', 'take a Clock'],
  ['Math . random', 'take a Random'],
  ['randomUUID', 'take a NewId'],
  ['getRandomValues', 'take a Random'],
  ['setTimeout', 'let the caller wait'],
  ['setInterval', 'let the caller wait'],
  ['setImmediate', 'let the caller wait'],
  ['process . env', 'take settings as arguments'],
]
const kernelOnly: readonly [words: string, instead: string][] = [
  ['fetch (', 'the kernel does no I/O'],
  ['Promise . race', 'the order of answers is chance'],
  ['process .', 'the kernel knows no process'],
  ['console .', 'the kernel returns values'],
]

export function checkPurity(tree: Tree): Finding[] {
  return sources(tree, 'src/kernel', 'src/turns', 'src/domains')
    .filter(([path]) => !isTest(path))
    .flatMap(([path, text]) => {
      const rules = path.startsWith('src/kernel/') ? [...everywhere, ...kernelOnly] : everywhere
      const tokens = tokenize(text)
      return tokens.flatMap((token, index) => {
        const rule = rules.find(([words]) => follows(tokens, index, words.split(' ')))
        if (!rule) return []
        return [
          { path, line: lineAt(text, token.start), problem: `${asWritten(rule[0])} is not an argument: ${rule[1]}` },
        ]
      })
    })
}

function asWritten(words: string): string {
  return words.replace(/ ([.(]) ?/g, '$1')
}

function follows(tokens: readonly Token[], index: number, words: readonly string[]): boolean {
  // `obj.fetch(…)` and `{ setTimeout: … }` are other names.
  if (tokens[index - 1]?.text === '.' && words[0] !== 'randomUUID' && words[0] !== 'getRandomValues') return false
  if (tokens[index + 1]?.text === ':' && words.length === 1) return false
  return words.every((word, offset) => {
    const token = tokens[index + offset]
    return token !== undefined && (token.kind === 'word' || token.kind === 'mark') && token.text === word
  })
}
