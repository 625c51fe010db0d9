/** Reads the repository into a map of path → text, the input of every tidy check. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'

/** Paths are relative to the root and use `/`. */
export type Tree = ReadonlyMap<string, string>

export const repositoryRoot = fileURLToPath(new URL('../../', import.meta.url))

const away = new Set(['node_modules', 'dist', '.git', '.concord', '.test-results', 'coverage'])
const largestBytes = 4_000_000

export function readTree(root: string = repositoryRoot): Tree {
  const tree = new Map<string, string>()
  const walk = (folder: string): void => {
    for (const entry of readdirSync(folder, { withFileTypes: true }).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = join(folder, entry.name)
      if (away.has(entry.name)) continue
      if (entry.isDirectory()) walk(path)
      else if (entry.isFile()) {
        const text = readFileSync(path).subarray(0, largestBytes).toString('utf8')
        // A NUL byte marks a binary file, such as a picture, font or database.
        tree.set(relative(root, path).split(sep).join('/'), text.includes('\0') ? '' : text)
      }
    }
  }
  walk(root)
  return tree
}

/** A small tree for the tests of a check. */
export function plantTree(files: Readonly<Record<string, string>>): Tree {
  return new Map(Object.entries(files))
}

export function isTest(path: string): boolean {
  return /\.(test|case)\.tsx?$/.test(path)
}

/** The TypeScript files under one of the given folders. */
export function sources(tree: Tree, ...folders: readonly string[]): [path: string, text: string][] {
  return [...tree].filter(([path]) => /\.tsx?$/.test(path) && folders.some((folder) => path.startsWith(`${folder}/`)))
}
