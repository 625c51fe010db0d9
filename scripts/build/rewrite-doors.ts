/**
 * Rewrites the import names of the source tree (`#kernel/money`) as relative paths of the build (`../kernel/money.js`), so that
 * the package does not depend on `imports` entries that point at TypeScript.
 */
import { posix } from 'node:path'
import { computed, findImports } from '../source/imports.ts'

/** The `imports` of package.json: name pattern → source file pattern. */
export type Doors = Readonly<Record<string, string>>

/** `path` is the path of the emitted file in the output folder. */
export function rewriteDoors(path: string, text: string, doors: Doors): string {
  let rewritten = ''
  let from = 0
  for (const { specifier, start, end } of findImports(text)) {
    if (specifier === computed) continue
    rewritten += text.slice(from, start) + (replacementOf(specifier, path, doors) ?? specifier)
    from = end
  }
  return rewritten + text.slice(from)
}

function replacementOf(specifier: string, path: string, doors: Doors): string | undefined {
  if (specifier.startsWith('.')) return specifier.replace(/(?<!\.d)\.ts$/, '.js')
  if (!specifier.startsWith('#')) return undefined
  const source = openDoor(specifier, doors)
  if (source === undefined || !source.startsWith('./src/'))
    throw new Error(`${path}: ${specifier} leads nowhere inside src`)
  const target = source.slice('./src/'.length).replace(/\.ts$/, '.js')
  const relative = posix.relative(posix.dirname(path), target)
  return relative.startsWith('.') ? relative : `./${relative}`
}

/** As in Node: an exact entry first, then the pattern with the longest prefix. */
export function openDoor(specifier: string, doors: Doors): string | undefined {
  const exact = doors[specifier]
  if (exact !== undefined) return exact
  const fits = Object.keys(doors)
    .filter(
      (pattern) =>
        pattern.endsWith('*') && specifier.startsWith(pattern.slice(0, -1)) && specifier.length >= pattern.length,
    )
    .toSorted((a, b) => b.length - a.length)[0]
  return fits === undefined ? undefined : doors[fits]?.replaceAll('*', specifier.slice(fits.length - 1))
}
