/** Checks the files of a packed package for anything that would break on a user's machine. */
import { posix } from 'node:path'
import { findImports } from '../source/imports.ts'

export type Manifest = {
  readonly name: string
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly bin?: Readonly<Record<string, string>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

/** For work on the source tree; it points at files that are not packed. */
const developmentCondition = 'concord-source'

/** `files` contains every packed path, with the text of files that import. */
export function checkPackage(files: ReadonlyMap<string, string>, manifest: Manifest): string[] {
  return [
    ...promisedFiles(manifest)
      .filter(({ file }) => !files.has(file))
      .map(({ by, file }) => `${by} promises ${file}, which is not in the package`),
    ...[...files.keys()]
      .filter((path) => /\.(test|case)\.|(^|\/)(src|test)\//.test(path))
      .map((path) => `${path} does not belong in the package`),
    ...[...files]
      .filter(([path]) => /\.(js|d\.ts)$/.test(path))
      .flatMap(([path, text]) => checkImports(path, text, files, manifest)),
  ]
}

function promisedFiles({ exports, bin = {} }: Manifest): { by: string; file: string }[] {
  const plain = (path: string) => posix.normalize(path)
  return [
    ...Object.entries(exports).flatMap(([entry, target]) => {
      const targets = typeof target === 'string' ? { default: target } : target
      return Object.entries(targets)
        .filter(([condition]) => condition !== developmentCondition)
        .map(([condition, path]) => ({ by: `exports["${entry}"].${condition}`, file: plain(path) }))
    }),
    ...Object.entries(bin).map(([name, path]) => ({ by: `bin.${name}`, file: plain(path) })),
  ]
}

function checkImports(path: string, text: string, files: ReadonlyMap<string, string>, manifest: Manifest): string[] {
  const declared = { ...manifest.dependencies, ...manifest.optionalDependencies, ...manifest.peerDependencies }
  return findImports(text).flatMap(({ specifier }) => {
    if (/^\(|^node:/.test(specifier)) return []
    if (specifier.startsWith('#')) return [`${path} imports ${specifier}, a name that exists in development only`]
    if (specifier.startsWith('.')) {
      const target = posix.join(posix.dirname(path), specifier)
      const found = files.has(target) && (!path.endsWith('.d.ts') || files.has(target.replace(/\.js$/, '.d.ts')))
      return found ? [] : [`${path} imports ${specifier}, which is not in the package`]
    }
    const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
    return Object.hasOwn(declared, name) ? [] : [`${path} imports ${name}, which is not a dependency`]
  })
}
