/** Runs the shell lines of a guide as a reader would, in a folder that looks like a fresh checkout, and compares what the guide says they print. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort, plainEnvironment } from '#test/concord-process'

/** Only a line that never ends takes this long. */
const LIMIT_MS = 90_000

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

export type Block = { readonly path: string; readonly line: number; readonly info: string; readonly text: string }

export async function readBlocks(path: string): Promise<readonly Block[]> {
  const text = await readFile(join(ROOT, path), 'utf8')
  return [...text.matchAll(/^```([^\n]*)\n([\s\S]*?)^```$/gm)].map((match) => ({
    path,
    line: text.slice(0, match.index).split('\n').length,
    info: match[1] ?? '',
    text: match[2] ?? '',
  }))
}

/** What a failed test leaves behind ends with the test process. */
const running = new Set<ChildProcess>()
process.on('exit', () => {
  for (const { pid = 0 } of running) process.kill(-pid, 'SIGKILL')
})

/** Programs that run until they are stopped, with the text that says they are ready. */
const endless: readonly (readonly [RegExp, RegExp])[] = [
  [/^npm start$|\bconcord up$/, /Concord is ready[\s\S]*events tail/],
  [/\bconcord worker$/, /./],
  [/\bconcord scheduler run\b/, /./],
  [/\bjobs watch$|--follow\b|\bevents tail\b(?!.*--once)/, /./],
  [/hotel-vendor\.ts/, /ready/],
]

/** Ids, digests and credentials. Where a guide shows one, the newest of its kind that was printed takes its place. */
const ID =
  /\b(cmd|art|appr|deleg|job|memcon|memcand|trace|ck|evt|user|sched|resv|stop|swarm|agent|mission)_(?:…|[0-9a-zA-Z_-]{20,})|\bsha256:(?:…|[0-9a-f]{64}|[0-9a-f]{12}…)/g

export type Checkout = {
  readonly folder: string
  open(): Session
  close(): Promise<void>
}

type Session = {
  /** Writes a block with `save=<file>`, or runs a block of the shell. Lines that never end run in the background until `close`. */
  run(block: Block): Promise<string>
  close(): Promise<void>
}

/** A folder with links to everything in the checkout, and a data folder and ports of its own. */
export async function openCheckout(): Promise<Checkout> {
  const folder = await mkdtemp(join(tmpdir(), 'concord-guides-'))
  for (const name of await readdir(ROOT))
    if (!['.concord', '.git', 'concord.config.ts', '.test-results'].includes(name))
      await symlink(join(ROOT, name), join(folder, name))
  await mkdir(join(folder, '.bin'))
  await symlink(join(ROOT, 'concord'), join(folder, '.bin/concord'))
  const ports = new Map([
    ['7420', await freePort()],
    ['7430', await freePort()],
  ])
  const config = await readFile(join(ROOT, 'concord.config.ts'), 'utf8')
  await writeFile(join(folder, 'concord.config.ts'), withPorts(config, ports))
  const seen = new Map<string, string>()
  const sessions = new Set<Session>()
  return {
    folder,
    open() {
      const session = openSession(folder, new Map(ports), seen)
      sessions.add(session)
      return session
    },
    async close() {
      for (const session of [...sessions].toReversed()) await session.close()
      await rm(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** Printed after each command, for its exit code. */
const CODE = /<exited with (\d+)>\n/

type Ports = Map<string, string>

function withPorts(text: string, ports: Ports): string {
  return text.replaceAll(/\b(?:7420|7430)\b/g, (port) => ports.get(port) ?? port)
}

function openSession(folder: string, ports: Ports, seen: Map<string, string>): Session {
  const path = [join(folder, '.bin'), join(ROOT, 'node_modules/.bin'), process.env['PATH']].join(':')
  const env = { ...plainEnvironment(), PATH: path, NO_COLOR: '1', npm_config_update_notifier: 'false' }
  const shell = follow(spawn('bash', ['--noprofile', '--norc'], { cwd: folder, env, detached: true }))
  shell.child.stdin?.write('exec 2>&1\n')
  const background: Followed[] = []

  async function one(written: string): Promise<string> {
    const line = written.replace(/\s+#.*$/, '').trim()
    // A server of the guide's own, beside the shared one.
    if (/\bconcord up$/.test(line)) ports.set('7420', await freePort())
    const filled = withPorts(line, ports).replaceAll(ID, (id, prefix?: string) => seen.get(prefix ?? 'sha256') ?? id)
    const command = `export CONCORD_PORT=${ports.get('7420')}; ${filled}`
    const ready = endless.find(([pattern]) => pattern.test(line))?.[1]
    let out: string
    if (ready) {
      // One process owns the file of the local jobs. A reader stops the first before the second starts.
      if (/scheduler run|CONCORD_SCHEDULER_FILE/.test(line))
        for (const started of background.splice(0)) await started.end()
      const started = follow(spawn('bash', ['-c', `exec 2>&1; ${command}`], { cwd: folder, env, detached: true }))
      background.push(started)
      out = await started.until(ready, line)
    } else {
      const from = shell.text().length
      shell.child.stdin?.write(`${command}\necho "<exited with $?>"\n`)
      out = (await shell.until(CODE, line, from)).slice(from)
      const [whole = '', code = ''] = CODE.exec(out) ?? []
      out = out.replace(whole, '')
      const expected = /\bexits (\d+)/.exec(written)?.[1] ?? '0'
      assert.equal(code, expected, `${line}\nexited with ${code}:\n${out}`)
    }
    for (const [id, prefix] of out.matchAll(ID)) if (!id.includes('…')) seen.set(prefix ?? 'sha256', id)
    return out
  }

  return {
    async run({ info, text }) {
      const [, file] = /\bsave=(\S+)/.exec(info) ?? []
      if (file !== undefined) {
        await writeFile(join(folder, file), withPorts(text, ports))
        return ''
      }
      let out = ''
      for (const line of commandsOf(text)) out += await one(line)
      return out
    },
    async close() {
      for (const started of background.toReversed()) await started.end()
      await shell.end()
    },
  }
}

/** A command may span lines: it ends where its quotes, pipes and loops are closed. */
function commandsOf(text: string): readonly string[] {
  const commands: string[] = []
  let open = ''
  for (const line of text.trimEnd().split('\n')) {
    open = open === '' ? line : `${open}\n${line}`
    const isOpen =
      /(\||\\|&&|\bdo|\bthen|\{)\s*$/.test(line) ||
      (/^(for|while|if)\b/.test(open) && !/^(done|fi)\b/m.test(open)) ||
      (open.split("'").length - 1) % 2 === 1
    if (isOpen) continue
    if (open.trim() !== '' && !open.startsWith('#')) commands.push(open)
    open = ''
  }
  assert.equal(open, '', `a command does not end: ${open}`)
  return commands
}

type Followed = {
  readonly child: ChildProcess
  text(): string
  until(pattern: RegExp, started: string, from?: number): Promise<string>
  end(): Promise<void>
}

function follow(child: ChildProcess): Followed {
  let text = ''
  const waiting = new Set<() => void>()
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()))
  running.add(child)
  child.once('exit', () => running.delete(child))
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (part: string) => {
      text += part
      for (const look of waiting) look()
    })
  return {
    child,
    text: () => text,
    until: (pattern, started, from = 0) =>
      new Promise((resolve, reject) => {
        const late = setTimeout(
          () => reject(new Error(`it did not print ${pattern} after ${started}:\n${text.slice(from)}`)),
          LIMIT_MS,
        )
        const look = () => {
          if (!pattern.test(text.slice(from))) return
          waiting.delete(look)
          clearTimeout(late)
          resolve(text)
        }
        waiting.add(look)
        look()
        void ended.then(() => reject(new Error(`it ended before ${pattern}:\n${text}`)))
      }),
    async end() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.stdin?.end()
      // A detached shell leads the group of what it started.
      process.kill(-(child.pid ?? 0), 'SIGTERM')
      await ended
    },
  }
}

/** `…` in a guide stands for anything. Ids, digests, times and ports differ in every run. */
export function assertPrinted(block: Block, printed: string, { folder }: Checkout): void {
  const plain = (text: string) =>
    text
      .replaceAll(/^npm warn .*\n/gm, '')
      .replaceAll(folder, '/home/you/concord')
      .replaceAll(join(ROOT, 'concord'), './concord')
      .replaceAll(ID, (_id, prefix?: string) => (prefix === undefined ? 'sha256:#' : `${prefix}_#`))
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
      .replaceAll(/127\.0\.0\.1:\d+/g, '127.0.0.1:<port>')
      .trim()
  const wanted = plain(block.text)
  const actual = plain(printed)
  const pattern = wanted
    .split(/\s*…\s*/)
    .map((part) => part.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`).replaceAll(/\s*\n\s*/g, String.raw`\s*`))
    .join(String.raw`[\s\S]*?`)
  if (!new RegExp(`^${pattern}$`).test(actual)) assert.equal(actual, wanted, `${block.path}:${block.line}`)
}
