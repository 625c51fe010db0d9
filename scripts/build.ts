/**
 * Builds the package: compiles `src` into JavaScript, declarations and source maps in `dist`, rewrites `#` imports as relative
 * paths, copies SQL and other assets, and makes the command executable.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, copyFileSync, existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type ImportMap, rewriteImports } from './build/rewrite-imports.ts'
import { readFlags } from './read-flags.ts'

readFlags({})
const root = fileURLToPath(new URL('../', import.meta.url))
const source = join(root, 'src')
const output = join(root, 'dist')
const command = join(output, 'cli/main.js')
const shebang = '#!/usr/bin/env node\n'

rmSync(output, { recursive: true, force: true })

const compiler = join(root, 'node_modules/typescript/bin/tsc')
const compiled = spawnSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' })
if (compiled.status !== 0) process.exit(compiled.status ?? 1)

const { imports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { imports: ImportMap }
const emitted = globSync('**/*.{js,d.ts}', { cwd: output })
for (const path of emitted) {
  const file = join(output, path)
  writeFileSync(file, rewriteImports(path, readFileSync(file, 'utf8'), imports))
}

// Copies assets: SQL, JSON, pages. Test fixtures are not copied.
const assets = globSync('**/*', { cwd: source, withFileTypes: true })
  .filter((entry) => entry.isFile() && !/\.tsx?$|\.md$/.test(entry.name))
  .map((entry) => relative(source, join(entry.parentPath, entry.name)))
for (const path of assets) {
  mkdirSync(dirname(join(output, path)), { recursive: true })
  copyFileSync(join(source, path), join(output, path))
}

if (existsSync(command)) {
  const text = readFileSync(command, 'utf8')
  if (!text.startsWith('#!')) writeFileSync(command, shebang + text)
  chmodSync(command, 0o755)
}
console.log(`dist: ${emitted.length} files built, ${assets.length} assets copied`)
