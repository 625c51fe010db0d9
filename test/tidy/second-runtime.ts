/**
 * Concord builds no second runtime: in kernel and rooms nothing retries in a loop and nothing goes by the clock, since the
 * runtime does both. The scheduler's room is the exception by contract: jobs on one machine, which no governed work enters.
 */
import { findImports } from '../../scripts/source/imports.ts'
import { type Token, tokenize } from '../../scripts/source/tokens.ts'
import { type Finding, lineAt } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

const ownRuntime = 'src/domains/scheduler/'

/** Loops that wait and are no retries, and what they wait for. */
export const waitingLoops: Readonly<Record<string, string>> = {
  'src/domains/commands/actions/find-decision.ts':
    'looks, for at most 5 s, whether somebody else has decided; nothing is tried',
  'src/domains/commands/call-effect.ts': 'keeps the turn while one call lasts; the call is made once',
  'src/domains/commands/turn.ts': 'asks three times at most whether the turn is still ours, before the one call',
  'src/domains/connectors/begin-call.ts': 'waits for a place under the limits; nobody has been called yet',
}

function governed(tree: Tree): [path: string, text: string][] {
  return sources(tree, 'src/kernel', 'src/domains').filter(([path]) => !isTest(path) && !path.startsWith(ownRuntime))
}

export function checkRetryLoops(tree: Tree): Finding[] {
  const found = governed(tree).flatMap(([path, text]) =>
    loopsOf(tokenize(text))
      .filter(isRetry)
      .map(([first]) => ({
        path,
        line: lineAt(text, first?.start ?? 0),
        problem: 'waits in a loop: the runtime retries',
      })),
  )
  const stale = Object.keys(waitingLoops).filter((path) => !found.some((each) => each.path === path))
  return [
    ...found.filter(({ path }) => !Object.hasOwn(waitingLoops, path)),
    ...stale.map((path) => ({ path, problem: 'is listed as a loop that waits, and has none' })),
  ]
}

/** It pauses between rounds, or it counts its attempts. */
function isRetry(loop: readonly Token[]): boolean {
  return loop.some(({ kind, text }, at) => {
    if (kind !== 'word') return false
    const isCalled = loop[at + 1]?.text === '('
    return (
      (isCalled && /^(sleep|wait|pause|delay)$/.test(text)) ||
      (/^(attempts?|tries|retries)$/.test(text) && loop[at - 1]?.text === 'let')
    )
  })
}

/** Each loop with its head and body. */
function loopsOf(tokens: readonly Token[]): (readonly Token[])[] {
  return tokens.flatMap(({ kind, text }, at) => {
    if (kind !== 'word' || !/^(for|while|do)$/.test(text) || tokens[at - 1]?.text === '.') return []
    const head = text === 'do' ? at : closing(tokens, tokens[at + 1]?.text === 'await' ? at + 2 : at + 1)
    const isBlock = tokens[head + 1]?.text === '{'
    // Without braces the body is one statement; a line of it is at most so many words.
    return [tokens.slice(at, isBlock ? closing(tokens, head + 1) + 1 : head + 40)]
  })
}

function closing(tokens: readonly Token[], open: number): number {
  let depth = 0
  for (let at = open; at < tokens.length; at++) {
    const { kind, text } = tokens[at] ?? { kind: 'mark', text: '' }
    if (kind === 'mark' && '([{'.includes(text)) depth++
    if (kind === 'mark' && ')]}'.includes(text) && --depth === 0) return at
  }
  return tokens.length
}

/** Who works out due times: the runtime, the scheduler's room, and pure files that show or refuse a schedule. */
export function checkCronLoops(tree: Tree): Finding[] {
  const outside = [
    ...governed(tree),
    ...sources(tree, 'src/app', 'src/api', 'src/store').filter(([path]) => !isTest(path)),
  ]
  return outside
    .filter(([path]) => path !== 'src/kernel/cron-next.ts')
    .flatMap(([path, text]) => {
      const asks = findImports(text).some(({ specifier }) => /^croner$|cron-next(\.ts)?$/.test(specifier))
      const names = /^import \{[^}]*\b(?:nextDueTime|dueTimes|nextFiringAt|planSchedule)\b[^}]*\} from/m.test(text)
      if (!asks && !names) return []
      return tokenize(text)
        .filter(({ kind, text: word }) => kind === 'word' && /^(async|await|setTimeout|setInterval)$/.test(word))
        .slice(0, 1)
        .map(({ start }) => ({
          path,
          line: lineAt(text, start),
          problem: 'works out due times and waits: the runtime keeps schedules',
        }))
    })
}
