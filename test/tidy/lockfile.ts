/** Checks package.json and package-lock.json: no addresses, no unexpected install scripts, nothing undeclared. */
import { findUnlocked, type Lock, type Locked } from '../../scripts/build/complete-lock.ts'
import { findImports } from '../../scripts/source/imports.ts'
import type { Finding } from './finding.ts'
import { isTest, sources, type Tree } from './tree.ts'

type Manifest = {
  [part in 'dependencies' | 'optionalDependencies' | 'peerDependencies' | 'allowScripts']?: Record<string, unknown>
}

export function checkLockfile(tree: Tree): Finding[] {
  const lock = JSON.parse(tree.get('package-lock.json') ?? '{"packages":{}}') as Lock
  const { allowScripts = {} } = manifestOf(tree)
  // Without `node_modules/` it is a folder of the repository, and its link names that folder.
  const packages = Object.entries(lock.packages).filter(([place, { link }]) => /node_modules\//.test(place) && !link)
  return [
    ...packages.flatMap(([place, locked]) =>
      packageProblems(place.replace(/^.*node_modules\//, ''), locked, allowScripts),
    ),
    ...findUnlocked(lock).map(
      ({ name, of }) =>
        `${name}, optional for ${of}, has no entry, and npm ci refuses that: node scripts/complete-lock.ts`,
    ),
  ].map((problem) => ({ path: 'package-lock.json', problem }))
}

function packageProblems(name: string, locked: Locked, allowScripts: Record<string, unknown>): string[] {
  // A package for another platform cannot be downloaded everywhere and is not installed here.
  const isElsewhere = locked.optional === true && locked.os !== undefined
  return [
    ...(locked.resolved === undefined ? [] : [`${name} records where it was downloaded from: ${locked.resolved}`]),
    ...(locked.hasInstallScript && allowScripts[name] !== true
      ? [`${name} runs a script when installed and is not in allowScripts`]
      : []),
    ...(locked.integrity === undefined && !isElsewhere ? [`${name} has no checksum`] : []),
  ]
}

/** The imports of the product must be dependencies: a dev dependency is missing on a user's machine. */
export function checkDependencies(tree: Tree): Finding[] {
  const { dependencies = {}, optionalDependencies = {}, peerDependencies = {} } = manifestOf(tree)
  const declared = new Set(Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies }))
  const missing = new Map<string, string>()
  for (const [path, text] of sources(tree, 'src')) {
    if (isTest(path)) continue
    for (const { specifier } of findImports(text)) {
      const name = packageOf(specifier)
      if (name !== undefined && !declared.has(name) && !missing.has(name)) missing.set(name, path)
    }
  }
  return [...missing].map(([name, path]) => ({ path, problem: `imports ${name}, which is not in dependencies` }))
}

function packageOf(specifier: string): string | undefined {
  if (/^[.#(]|^node:/.test(specifier)) return undefined
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

/** Libraries that would replace our state tables. */
const machineLibraries = [
  'xstate',
  'robot3',
  'javascript-state-machine',
  'typescript-fsm',
  'machina',
  'stately',
  'finity',
  '@edium/fsm',
]

export function checkMachineLibraries(tree: Tree): Finding[] {
  const names = Object.keys(manifestOf(tree).dependencies ?? {})
  return names
    .filter((name) => machineLibraries.includes(name))
    .map((name) => ({ path: 'package.json', problem: `${name} is a state-machine library` }))
}

function manifestOf(tree: Tree): Manifest {
  return JSON.parse(tree.get('package.json') ?? '{}') as Manifest
}
