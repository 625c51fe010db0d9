/** Checks every `concord …` in a text: it is a command of the program with valid flags. */
import { type Finding, lineAt } from './finding.ts'
import { isTest, type Tree } from './tree.ts'

/** Path of a command (`jobs list`) to the long flags of its help page. */
export type KnownCommands = ReadonlyMap<string, ReadonlySet<string>>

export const helpPin = 'test/tidy/pins/cli-help.txt'

export function readHelp(text: string): KnownCommands {
  const pages = text.split(/^# concord/m).slice(1)
  return new Map(
    pages.map((page) => {
      const [head = '', ...rest] = page.split('\n')
      return [head.trim(), new Set(rest.join('\n').match(/--[a-z][a-z-]*/g))]
    }),
  )
}

/** In backticks, after a prompt, or at the start of a line in a code block, up to the end of the shell command. */
const inText = /`(?:\.\/)?concord ([^`\n]+)`/g
const inSession = /^\s*(?:\$ )?(?:\.\/)?concord ([^\n]+)$/gm
const word = /^[a-z][a-z-]*$/

export function checkNamedCommands(tree: Tree, known: KnownCommands): Finding[] {
  return [...tree].flatMap(([path, text]) => {
    if (isTest(path) || !/^(src|examples|docs\/guides|docs\/decisions|README|CHANGELOG).*\.(ts|md)$/.test(path))
      return []
    // A TypeScript template has its backticks escaped.
    const plain = text.replaceAll('\\`', '`')
    const mentions = [...plain.matchAll(inText), ...(path.endsWith('.md') ? plain.matchAll(inSession) : [])]
    return mentions.flatMap((match): Finding[] => {
      const problem = problemOf(match[1] ?? '', known)
      return problem === undefined ? [] : [{ path, line: lineAt(plain, match.index), problem }]
    })
  })
}

function problemOf(line: string, known: KnownCommands): string | undefined {
  const words = (line.split(/ [|&;>#]|\$\{| {2,}|'|"/)[0] ?? '').trim().split(/\s+/)
  const path = commandPath(words, known)
  if (path === undefined) return `names \`concord ${words.slice(0, 2).join(' ')}\`, which does not exist`
  const own = known.get(path)
  const global = known.get('')
  const strange = (line.match(/(?<=\s)--[a-z][a-z-]*/g) ?? []).find((flag) => !own?.has(flag) && !global?.has(flag))
  // Words after `--` belong to the program of a job.
  if (strange === undefined || line.includes(' -- ')) return undefined
  return `gives \`concord ${path}\` the flag ${strange}, which it does not take`
}

/** The longest known command path at the start of the words; undefined when the next word should be one of its verbs. */
function commandPath(words: readonly string[], known: KnownCommands): string | undefined {
  let path = ''
  for (const each of words) {
    const next = path === '' ? each : `${path} ${each}`
    const hasVerbs = [...known.keys()].some((key) => key.startsWith(path === '' ? '' : `${path} `) && key !== path)
    if (known.has(next)) path = next
    else return hasVerbs && word.test(each) ? undefined : path
  }
  return path
}
