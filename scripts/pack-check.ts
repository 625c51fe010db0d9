/**
 * Packs the package as from a fresh clone, installs it in an empty project, and uses it as a user would: `test/consumer`, the examples
 * and every entry of `exports` from TypeScript, every entry from JavaScript, and the command. Removes everything afterwards.
 */
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkPackage, type Manifest } from './build/check-package.ts'
import { readFlags } from './read-flags.ts'

readFlags({})
const root = fileURLToPath(new URL('../', import.meta.url))
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
const hadOutput = existsSync(join(root, 'dist'))
const scratch = mkdtempSync(join(tmpdir(), 'concord-pack-'))
const project = join(scratch, 'project')
const installed = join(project, 'node_modules', manifest.name)
const problems: string[] = []
/** True if the dependencies are ours, because npm reaches no registry. */
let isOffline = false
/** The first line of the command asks for `node`, which must be this one and not an older one. */
const env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}` }

function run(title: string, cwd: string, command: string, ...args: string[]): { ok: boolean; output: string } {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, env, encoding: 'utf8' })
  const output = `${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.trim()
  if (status !== 0) console.error(`${title} failed:\n${output}\n`)
  return { ok: status === 0, output: stdout ?? '' }
}

function pack(): string {
  // Its script `prepack` builds.
  rmSync(join(root, 'dist'), { recursive: true, force: true })
  const { ok, output } = run('npm pack', root, 'npm', 'pack', '--json', '--pack-destination', scratch)
  if (!ok) throw new Error('npm pack failed.')
  type Packed = { filename: string; size: number; unpackedSize: number; entryCount: number }
  // The build prints first. npm 11 and older print a list, npm 12 an object by name.
  const [packed] = Object.values(JSON.parse(output.slice(output.search(/^[[{]/m))) as Record<string, Packed>)
  if (!packed) throw new Error('npm pack names no tarball.')
  const kib = (bytes: number) => `${Math.round(bytes / 1024)} KiB`
  console.log(
    `packed    ${packed.entryCount} files, ${kib(packed.size)} to download, ${kib(packed.unpackedSize)} on disk`,
  )
  return join(scratch, packed.filename)
}

/** Without a network or a warm cache, our copies of the dependencies replace downloads. */
function install(tarball: string): void {
  mkdirSync(project)
  writeFileSync(join(project, 'package.json'), '{ "name": "consumer", "private": true, "type": "module" }\n')
  const flags = [
    '--prefer-offline',
    '--no-audit',
    '--no-fund',
    '--ignore-scripts',
    '--omit=optional',
    '--fetch-retries=1',
  ]
  if (run('npm install', project, 'npm', 'install', ...flags, tarball).ok)
    return console.log('installed as a user would')
  isOffline = true
  mkdirSync(installed, { recursive: true })
  if (!run('tar', installed, 'tar', '-xzf', tarball, '--strip-components=1').ok)
    throw new Error('The tarball cannot be read.')
  for (const path of globSync(['node_modules/*', 'node_modules/@*/*'], { cwd: root })) {
    const target = join(project, path)
    if (path.split('/').at(-1)?.startsWith('@') || existsSync(target)) continue
    mkdirSync(dirname(target), { recursive: true })
    symlinkSync(join(root, path), target)
  }
  mkdirSync(join(project, 'node_modules/.bin'), { recursive: true })
  for (const [name, path] of Object.entries(manifest.bin ?? {})) {
    symlinkSync(join(installed, path), join(project, 'node_modules/.bin', name))
  }
  console.log('installed from local copies: there is no network here')
}

function readInstalled(): Map<string, string> {
  const paths = globSync('**/*', {
    cwd: installed,
    withFileTypes: true,
    exclude: (entry) => entry.name === 'node_modules',
  })
  const files = paths.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  return new Map(files.map((file) => [file.slice(installed.length + 1), readFileSync(file, 'utf8')]))
}

/** `.` → `@concordhq/concord`, `./kernel` → `@concordhq/concord/kernel`; JSON is read, not imported. */
const modules = Object.entries(manifest.exports)
  .filter(([, target]) => typeof target !== 'string')
  .map(([entry]) => `${manifest.name}${entry.slice(1)}`)

/** The project of a user in `test/consumer`, the examples, copied out of the package, and the project that `init` creates. */
function copySources(): string[] {
  const own = globSync('test/consumer/*.ts', { cwd: root }).map((path) => [
    join(root, path),
    join(project, basename(path)),
  ])
  const examples = globSync('examples/**/*.ts', { cwd: installed }).map((path) => [
    join(installed, path),
    join(project, path),
  ])
  for (const [from = '', to = ''] of [...own, ...examples]) cpSync(from, to)
  if (!run('concord init', project, join(project, 'node_modules/.bin/concord'), 'init', 'made').ok)
    problems.push('concord init fails')
  const made = globSync('made/*.ts', { cwd: project }).map((path) => join(project, path))
  const lines = modules.map((name, index) => `import * as m${index} from '${name}'`)
  const all = modules.map((_, index) => `m${index}`).join(', ')
  writeFileSync(join(project, 'entries.ts'), `${lines.join('\n')}\nexport const entries: object[] = [${all}]\n`)
  return [...own, ...examples].map(([, to = '']) => to).concat(made, join(project, 'entries.ts'))
}

/** The newest compiler, and the oldest that a user may have. */
const compilers = ['node_modules/typescript', 'test/consumer/node_modules/typescript']

function useFromTypeScript(): void {
  const all = copySources()
  const types = join(project, 'node_modules/@types/node')
  if (!existsSync(types)) {
    mkdirSync(dirname(types), { recursive: true })
    symlinkSync(join(root, 'node_modules/@types/node'), types)
  }
  for (const compiler of compilers)
    for (const exactOptionalPropertyTypes of [false, true]) {
      const { version } = JSON.parse(readFileSync(join(root, compiler, 'package.json'), 'utf8')) as { version: string }
      const compilerOptions = {
        strict: true,
        exactOptionalPropertyTypes,
        skipLibCheck: false,
        noEmit: true,
        module: 'nodenext',
        target: 'es2024',
        lib: ['es2024', 'esnext.disposable', ...(exactOptionalPropertyTypes ? [] : ['dom'])],
        types: ['node'],
        allowImportingTsExtensions: true,
      }
      // The types of the package need no browser. An example with a web framework does.
      const files = all.filter((file) => !exactOptionalPropertyTypes || !file.startsWith(join(project, 'examples')))
      writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files }))
      const { status, stdout } = spawnSync(process.execPath, [join(root, compiler, 'bin/tsc'), '--pretty', 'false'], {
        cwd: project,
        encoding: 'utf8',
      })
      const how = `TypeScript ${version}, strict${exactOptionalPropertyTypes ? ', exactOptionalPropertyTypes' : ''}`
      if (status === 0) console.log(`types     ${files.length} files under ${how}`)
      else
        problems.push(
          ...stdout
            .trim()
            .split('\n')
            .map((line) => `${how}: ${line}`),
        )
    }
}

/** Two linters of packages: what they print is the problem. */
function lint(tarball: string): void {
  const linters = {
    publint: ['node_modules/publint/src/cli.js', tarball, '--strict'],
    // The package has ES modules alone, which the Node that it needs also loads with `require`.
    arethetypeswrong: ['node_modules/@arethetypeswrong/cli/dist/index.js', tarball, '--profile', 'esm-only'],
  }
  for (const [name, args] of Object.entries(linters))
    if (run(name, root, process.execPath, ...args).ok) console.log(`lint      ${name}`)
    else problems.push(`${name} objects to the package`)
}

function useFromJavaScript(): void {
  for (const name of modules) {
    const code = `const m = await import('${name}'); console.log(Object.keys(m).length)`
    const { ok, output } = run(`import ${name}`, project, process.execPath, '--input-type=module', '-e', code)
    if (ok) console.log(`runs      ${name}: ${output.trim()} names`)
    else problems.push(`${name} cannot be imported`)
  }
  for (const name of Object.keys(manifest.bin ?? {})) {
    if (run(`${name} --help`, project, join(project, 'node_modules/.bin', name), '--help').ok)
      console.log(`runs      ${name} --help`)
    else problems.push(`${name} --help fails`)
  }
  // Installed without optional dependencies. Our own copies have them.
  if (isOffline) return
  const start = spawnSync(join(project, 'node_modules/.bin/concord'), ['up'], {
    env: { PATH: env.PATH, CONCORD_HOME: join(scratch, 'home') },
    encoding: 'utf8',
  })
  if (start.stderr.includes('store.binaries.missing')) console.log('refuses   a start without Postgres')
  else problems.push(`a start without Postgres and DATABASE_URL: ${start.stderr}`)
}

try {
  const tarball = pack()
  install(tarball)
  problems.push(...checkPackage(readInstalled(), manifest))
  lint(tarball)
  useFromTypeScript()
  useFromJavaScript()
} catch (error) {
  problems.push((error as Error).message)
} finally {
  rmSync(scratch, { recursive: true, force: true })
  if (!hadOutput) rmSync(join(root, 'dist'), { recursive: true, force: true })
}
for (const problem of problems) console.error(`✖ ${problem}`)
process.exitCode = problems.length > 0 ? 1 : 0
