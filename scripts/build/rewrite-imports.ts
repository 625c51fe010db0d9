/**
 * Rewrites the import names of the source tree (`#kernel/money`) as relative paths of the build (`../kernel/money.js`), so that
 * the package does not depend on `imports` entries that point at TypeScript.
 */
import { posix } from 'node:path'
import { computed, findImports } from '../source/imports.ts'

/** The `imports` of package.json: name pattern → source file pattern. */
export type ImportMap = Readonly<Record<string, string>>

/** `path` is the path of the emitted file in the output folder. */
export function rewriteImports(path: string, text: string, importMap: ImportMap): string {
  let rewritten = ''
  let from = 0
  for (const { specifier, start, end } of findImports(text)) {
    if (specifier === computed) continue
    rewritten += text.slice(from, start) + (replacementOf(specifier, path, importMap) ?? specifier)
    from = end
  }
  return rewritten + text.slice(from)
}

function replacementOf(specifier: string, path: string, importMap: ImportMap): string | undefined {
  if (specifier.startsWith('.')) return specifier.replace(/(?<!\.d)\.ts$/, '.js')
  if (!specifier.startsWith('#')) return undefined
  const source = resolveImport(specifier, importMap)
  if (source === undefined || !source.startsWith('./src/'))
    throw new Error(`${path}: ${specifier} leads nowhere inside src`)
  const target = source.slice('./src/'.length).replace(/\.ts$/, '.js')
  const relative = posix.relative(posix.dirname(path), target)
  return relative.startsWith('.') ? relative : `./${relative}`
}

/** As in Node: an exact entry first, then the pattern with the longest prefix. */
export function resolveImport(specifier: string, importMap: ImportMap): string | undefined {
  const exact = importMap[specifier]
  if (exact !== undefined) return exact
  const fits = Object.keys(importMap)
    .filter(
      (pattern) =>
        pattern.endsWith('*') && specifier.startsWith(pattern.slice(0, -1)) && specifier.length >= pattern.length,
    )
    .toSorted((a, b) => b.length - a.length)[0]
  return fits === undefined ? undefined : importMap[fits]?.replaceAll('*', specifier.slice(fits.length - 1))
}
