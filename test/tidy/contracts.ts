/** Every contract is a file without an adapter, has a suite, and every adapter runs that suite. */
import { posix } from 'node:path'
import { findImports } from '../../scripts/source/imports.ts'
import type { Finding } from './finding.ts'
import type { Tree } from './tree.ts'

const architecture = 'ARCHITECTURE.md'
const inBackticks = (cell = ''): string[] => [...cell.matchAll(/`([^`]+)`/g)].map(([, path = '']) => path)

/** The cells of the table whose heading line begins with `head`. */
function tableUnder(text: string, head: string): string[][] {
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

export function checkContracts(tree: Tree): Finding[] {
  const rows = tableUnder(tree.get(architecture) ?? '', '| Contract |')
  if (rows.length === 0) return [{ path: architecture, problem: 'has no table of contracts' }]
  return rows.flatMap(([first, second, third]) => {
    const [contract = ''] = inBackticks(first)
    const [suite = ''] = inBackticks(second)
    const adapters = inBackticks(third)
    return [
      ...checkOwnWords(tree, contract, adapters),
      ...adaptersBeside(tree, contract, suite)
        .filter((adapter) => !adapters.includes(adapter))
        .map((adapter) => ({ path: architecture, problem: `does not name ${adapter}, an adapter of ${contract}` })),
      ...adapters
        .filter((adapter) => !isJudged(tree, suite, adapter))
        .map((adapter) => ({ path: adapter, problem: `is not put through ${suite}` })),
    ]
  })
}

/** A contract may not import a package or an adapter, except for zod shapes and hashes. */
function checkOwnWords(tree: Tree, contract: string, adapters: readonly string[]): Finding[] {
  const text = tree.get(contract)
  if (text === undefined) return [{ path: architecture, problem: `names ${contract}, which does not exist` }]
  return findImports(text)
    .filter(({ specifier }) => {
      const path = posix.join(posix.dirname(contract), specifier)
      return adapters.includes(path) || !/^(#|\.|zod$|node:crypto$)/.test(specifier)
    })
    .map(({ specifier }) => ({ path: contract, problem: `is a contract and imports ${specifier}` }))
}

/**
 * Adapters are below the contract and named like its suite: `connector` has `http/http-connector.ts`, `blob-store` has `disk-
 * store.ts`, `runtime` has `dbos/runtime.ts`.
 */
function adaptersBeside(tree: Tree, contract: string, suite: string): string[] {
  const folder = `${posix.dirname(contract)}/`
  const noun = posix.basename(suite, '.case.ts').split('-').at(-1) ?? ''
  const isDeep = !posix.basename(contract).includes('-')
  const file = isDeep ? new RegExp(`^[\\w-]+/(?:[\\w-]+-)?${noun}\\.ts$`) : new RegExp(`^[\\w-]+-${noun}\\.ts$`)
  return [...tree.keys()].filter(
    (path) => path.startsWith(folder) && path !== contract && file.test(path.slice(folder.length)),
  )
}

/** `test/conformance/connector.case.ts` and `…/http-connector.ts` meet in `test/conformance/http-connector*.test.ts`. */
function isJudged(tree: Tree, suite: string, adapter: string): boolean {
  const kind = posix.basename(suite, '.case.ts')
  const file = posix.basename(adapter, '.ts')
  const name = file.includes('-') ? file.replace(/-\w+$/, '') : posix.basename(posix.dirname(adapter))
  return ['', '.pg', '.chaos'].some((needs) =>
    findImports(tree.get(`${posix.dirname(suite)}/${name}-${kind}${needs}.test.ts`) ?? '').some(
      ({ specifier, kind: how }) => specifier === `./${kind}.case.ts` && how === 'import',
    ),
  )
}
