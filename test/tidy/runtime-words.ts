/** Keeps the README of the runtime true: every word of the protocol stands in its table, every function and drive it names is there. */
import type { Finding } from './finding.ts'
import type { Tree } from './tree.ts'
import { turnBodies } from './turn-body.ts'

export const runtimeReadme = 'src/runtime/README.md'
const protocolFile = 'src/runtime/protocol.ts'

/** The members of the exported type, in the order of the file. */
export function protocolWords(source: string): string[] {
  const [, members = ''] = /^export type DurableProtocol\b[^{]*\{\n([\s\S]*?)^\}/m.exec(source) ?? []
  return [...members.matchAll(/^ {2}(?:readonly )?(\w+)[<(:]/gm)].map(([, name = '']) => name)
}

/** The first column of the table under a heading line that begins with these cells. */
export function tableUnder(text: string, head: string): string[][] {
  const lines = text.split('\n')
  const start = lines.findIndex((line) => line.startsWith(head))
  if (start < 0) return []
  const end = lines.findIndex((line, at) => at > start && !line.startsWith('|'))
  return lines.slice(start + 2, end).map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

export function checkRuntimeWords(tree: Tree): Finding[] {
  const text = tree.get(runtimeReadme) ?? ''
  const told = tableUnder(text, '| Word |').map(([word = '']) => word.replaceAll('`', ''))
  const words = protocolWords(tree.get(protocolFile) ?? '')
  return [
    ...words.filter((word) => !told.includes(word)).map((word) => `does not tell what ${word} is in turns`),
    ...told.filter((word) => !words.includes(word)).map((word) => `tells of ${word}, which the protocol does not have`),
    ...tableUnder(text, '| Concord |').flatMap(([what = '', , where = '']) => checkPlace(tree, what, where)),
    ...turnBodies(tree)
      .map(([path]) => path)
      .filter((path) => /\/drive-[^/]+$/.test(path) && !text.includes(`\`${path}\``))
      .map((path) => `does not name ${path}, which is a workflow`),
  ].map((problem) => ({ path: runtimeReadme, problem }))
}

function checkPlace(tree: Tree, what: string, where: string): string[] {
  if (where === '') return []
  const [, name = '', file = ''] = /^`(\w+)` in `([^`]+)`$/.exec(where) ?? []
  const isThere = new RegExp(`^export (?:async )?(?:function|const) ${name}\\b`, 'm').test(tree.get(file) ?? '')
  return name !== '' && isThere ? [] : [`says that ${what} is ${where}, which is not so`]
}
