/**
 * Packs the package, installs it in an empty project, and uses it as a user would: every entry of `exports` from TypeScript with
 * strict types and from JavaScript, and the command. Removes everything afterwards.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
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
/** The first line of the command asks for `node`, which must be this one and not an older one. */
const env = { ...process.env, PATH: `${dirname(process.execPath)}${delimiter}${process.env['PATH'] ?? ''}` }

function run(title: string, cwd: string, command: string, ...args: string[]): { ok: boolean; output: string } {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, env, encoding: 'utf8' })
  const output = `${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.trim()
  if (status !== 0) console.error(`${title} failed:\n${output}\n`)
  return { ok: status === 0, output: stdout ?? '' }
}

function pack(): string {
  const { ok, output } = run(
    'npm pack',
    root,
    'npm',
    'pack',
    '--json',
    '--ignore-scripts',
    '--pack-destination',
    scratch,
  )
  if (!ok) throw new Error('npm pack failed.')
  type Packed = { filename: string; size: number; unpackedSize: number; entryCount: number }
  // npm 11 and older print a list, npm 12 an object by name.
  const [packed] = Object.values(JSON.parse(output) as Record<string, Packed>)
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

function useFromTypeScript(): void {
  const lines = modules.map((name, index) => `import * as m${index} from '${name}'`)
  const all = modules.map((_, index) => `m${index}`).join(', ')
  writeFileSync(
    join(project, 'consumer.ts'),
    `${lines.join('\n')}\nexport const entries: readonly object[] = [${all}]\n`,
  )
  const options = [
    '--strict',
    '--noEmit',
    '--module',
    'nodenext',
    '--target',
    'es2024',
    '--types',
    'node',
    '--skipLibCheck',
    'false',
  ]
  const types = join(project, 'node_modules/@types/node')
  if (!existsSync(types)) {
    mkdirSync(dirname(types), { recursive: true })
    symlinkSync(join(root, 'node_modules/@types/node'), types)
  }
  const compiler = join(root, 'node_modules/typescript/bin/tsc')
  const { stdout } = spawnSync(process.execPath, [compiler, ...options, 'consumer.ts'], {
    cwd: project,
    encoding: 'utf8',
  })
  // Errors in the declarations of other packages do not count.
  const ours = stdout
    .split('\n')
    .filter((line) => line.startsWith('consumer.ts') || line.startsWith(`node_modules/${manifest.name}/`))
  problems.push(...ours.map((line) => `types: ${line}`))
  if (ours.length === 0) console.log(`types     ${modules.join(', ')} under --strict`)
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
}

try {
  if (!run('build', root, process.execPath, 'scripts/build.ts').ok) throw new Error('The build failed.')
  install(pack())
  problems.push(...checkPackage(readInstalled(), manifest))
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
