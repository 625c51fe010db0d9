/** File and folder names are in kebab-case and say what is inside. */
import type { Finding } from './finding.ts'
import type { Tree } from './tree.ts'

const roots = /^(src|test|scripts|bench|examples|console|docs)\//
const kebab = /^[a-z0-9]+(-[a-z0-9]+)*$/
/** The needs of a test are between its name and `.test`. */
const endings =
  /^(\.(pg|journey|chaos|browser))?\.test\.tsx?$|^(\.case|\.d)?\.tsx?$|^\.(json|py|toml|jsonl|md|sql|ya?ml|css|html|svg|png|ico|txt|sh|woff2)$/
const migration = /^\d{4}_[a-z0-9]+(_[a-z0-9]+)*\.sql$/
const bins = new Set(
  'util utils helper helpers common misc type types lib libs shared component components manager managers'.split(' '),
)

export function checkNames(tree: Tree): Finding[] {
  const folders = new Set<string>()
  const files = [...tree.keys()].filter((path) => roots.test(path))
  for (const path of files) {
    const parts = path.split('/').slice(0, -1)
    for (let depth = 2; depth <= parts.length; depth++) folders.add(parts.slice(0, depth).join('/'))
  }
  return [
    ...[...folders].flatMap((path) => nameProblems(last(path)).map((problem) => ({ path, problem }))),
    ...files.flatMap((path) => fileProblems(path).map((problem) => ({ path, problem }))),
  ]
}

function fileProblems(path: string): string[] {
  const file = last(path)
  if (file === 'README.md' || file === 'concord.config.ts' || file.startsWith('.')) return []
  if (path.includes('/migrations/') && file.endsWith('.sql')) {
    return migration.test(file) ? [] : ['a migration is called NNNN_what_it_adds.sql']
  }
  const dot = file.indexOf('.')
  const name = dot === -1 ? file : file.slice(0, dot)
  const ending = dot === -1 ? '' : file.slice(dot)
  return [...nameProblems(name), ...(ending === '' || endings.test(ending) ? [] : [`${ending} is no ending we know`])]
}

function nameProblems(name: string): string[] {
  if (bins.has(name) || /-(utils?|helpers?)$/.test(name)) return [`${name} is a bin: say what is in it`]
  return kebab.test(name) ? [] : [`${name} is not kebab-case`]
}

function last(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1)
}
