/** Checks Markdown: every named path and heading exists, code that is shown as a file equals that file, and code names its language. */
import { posix } from 'node:path'
import { type Finding, lineAt } from './finding.ts'
import type { Tree } from './tree.ts'

/** A word in backticks is a path when it starts with one of our folders. */
const ours = /^(src|test|docs|scripts|examples|bench|console|\.ci)\/[\w./*@-]*$/
const fence = /^(`{3,}|~{3,})([^\n]*)\n([\s\S]*?)^\1\s*$/gm
const inBackticks = /`([^`\n]+)`/g
const link = /\]\(([^()\s]+)(?:\s+"[^"]*")?\)/g
const fileTag = /\bfile=(\S+)/

export function checkDocs(tree: Tree): Finding[] {
  const folders = foldersOf(tree)
  return [...tree]
    .filter(([path]) => path.endsWith('.md') || path === 'llms.txt')
    .flatMap(([path, text]) => [...checkFences(tree, path, text), ...checkPaths(tree, folders, path, text)])
}

function checkFences(tree: Tree, path: string, text: string): Finding[] {
  return [...text.matchAll(fence)].flatMap((match): Finding[] => {
    const line = lineAt(text, match.index)
    const info = match[2] ?? ''
    // The test of the guides runs `sh`, and compares `text` with what was printed. Without a language it would do neither.
    if (info === '') return [{ path, line, problem: 'shows code without its language: sh, text, ts, json, yaml, …' }]
    const file = fileTag.exec(info)?.[1]
    if (file === undefined) return []
    const actual = tree.get(file)
    if (actual === undefined) return [{ path, line, problem: `shows ${file}, which does not exist` }]
    return actual.trimEnd() === (match[3] ?? '').trimEnd()
      ? []
      : [{ path, line, problem: `shows ${file} as it is not` }]
  })
}

function checkPaths(tree: Tree, folders: ReadonlySet<string>, path: string, text: string): Finding[] {
  // Code blocks are blanked and not removed, so that line numbers stay.
  const prose = text.replace(fence, (block) => block.replace(/[^\n]/g, ' '))
  const mentions = [
    ...[...prose.matchAll(inBackticks)].map((match) => ({ target: match[1] ?? '', at: match.index, from: '' })),
    ...[...prose.matchAll(link)].map((match) => ({
      target: match[1] ?? '',
      at: match.index,
      from: posix.dirname(path),
    })),
  ]
  return mentions.flatMap(({ target, at, from }): Finding[] => {
    const isLink = from !== ''
    if (isLink ? /^[a-z]+:/.test(target) : !ours.test(target)) return []
    const [name = '', anchor] = target.split('#')
    const resolved = name === '' ? path : posix.join(from, name).replace(/\/$/, '')
    if (exists(tree, folders, resolved) && hasHeading(tree.get(resolved), resolved, anchor)) return []
    return [{ path, line: lineAt(prose, at), problem: `names ${target}, which does not exist` }]
  })
}

/** A heading's anchor on GitHub: lower case, without punctuation, with hyphens for spaces. */
function hasHeading(text: string | undefined, path: string, anchor: string | undefined): boolean {
  if (anchor === undefined || text === undefined || !path.endsWith('.md')) return true
  const headings = text.replace(fence, '').matchAll(/^#+ (.+)$/gm)
  return [...headings].some(([, title = '']) => anchorOf(title) === anchor)
}

function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .replaceAll(' ', '-')
}

function exists(tree: Tree, folders: ReadonlySet<string>, path: string): boolean {
  if (!path.includes('*')) return tree.has(path) || folders.has(path) || path === '.'
  const pattern = path
    .split(/(\*\*\/|\*)/)
    .map((part) => (part === '**/' ? '(.*/)?' : part === '*' ? '[^/]*' : part.replace(/[.+^${}()|[\]\\]/g, '\\$&')))
    .join('')
  return [...tree.keys(), ...folders].some((each) => new RegExp(`^${pattern}$`).test(each))
}

function foldersOf(tree: Tree): Set<string> {
  const folders = new Set<string>()
  for (const path of tree.keys()) {
    for (let folder = posix.dirname(path); folder !== '.'; folder = posix.dirname(folder)) folders.add(folder)
  }
  return folders
}
